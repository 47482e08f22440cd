"""Cancelling by event: one helper that runs work beside a waiter, so that cancelling has one owner."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class TurnCancelled(Exception):  # noqa: N818 - it is not an error: the person wanted it
    """The cancel event fired before the work was done; the work was cancelled and has ended."""


async def run_cancellable(work: Coroutine[Any, Any, T], cancelled: asyncio.Event) -> T:
    """Run `work` until it ends or the event fires.

    When the event fires, the work is cancelled and awaited (its streams are closed, its children are dead)
    before `TurnCancelled` is raised. Cancelling the caller takes the same path and re-raises
    `CancelledError`. There is no `asyncio.wait_for` here: on 3.11 it can swallow a cancellation.
    """
    if cancelled.is_set():
        work.close()
        raise TurnCancelled
    child = asyncio.ensure_future(_contained(work))
    waiter = asyncio.ensure_future(cancelled.wait())
    try:
        await asyncio.wait({child, waiter}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
        if not child.done():
            child.cancel()
        await _ended(child, waiter)
    if child.cancelled():
        if cancelled.is_set():
            raise TurnCancelled
        raise RuntimeError("the work cancelled itself")
    return child.result()


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Finish this even when cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(_contained(work))
    await _ended(task)
    return task.result()


async def _contained(work: Coroutine[Any, Any, T]) -> T:
    """A SystemExit of somebody's code must not leave as one: asyncio carries it out of the task, past whoever
    awaits it, and ends the program."""
    try:
        return await work
    except SystemExit as error:
        raise RuntimeError(f"SystemExit: {error.code}, where nobody may leave the program") from error


async def _ended(*tasks: asyncio.Future[Any]) -> None:
    """Wait until all have ended, however often somebody cancels the waiting; then let the cancellation
    through."""
    interrupted = False
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            interrupted = True
    if interrupted:
        raise asyncio.CancelledError
