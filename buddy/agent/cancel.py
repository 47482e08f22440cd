"""Cancellation by event: run work beside a waiter, and clean up only what failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")


class TurnCancelled(Exception):
    """The cancel event fired before the work was done; the work was cancelled and has ended."""


async def run_cancellable(work: Coroutine[Any, Any, T], cancelled: asyncio.Event) -> T:
    """Run `work` until it ends or the event fires, as `Beside.run` does."""
    beside = Beside(cancelled)
    try:
        return await beside.run(work)
    finally:
        await beside.close()


class Beside:
    """Runs one piece of work after the other, or several at once, beside one waiter on the event. The waiter
    is made with the first and serves all: a task for each would cost more than what most of them do. `close`
    it."""

    def __init__(self, cancelled: asyncio.Event) -> None:
        self._cancelled = cancelled
        self._running: set[asyncio.Task[Any]] = set()
        self._waiter: asyncio.Task[None] | None = None

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` until it ends or the event fires.

        When the event fires, the work is cancelled and awaited (its streams are closed, its children are
        dead) before `TurnCancelled` is raised. Cancelling the caller takes the same path and re-raises
        `CancelledError`. There is no `asyncio.wait_for` here: on 3.11 it can swallow a cancellation.
        """
        if self._cancelled.is_set():
            work.close()
            raise TurnCancelled
        if self._waiter is None or self._waiter.done():
            self._waiter = asyncio.ensure_future(self._watch())
        child = asyncio.ensure_future(_contained(work))
        self._running.add(child)
        try:
            await _first_end(child)
        finally:
            self._running.discard(child)
            if not child.done():
                child.cancel()
                await _ended(child)
            work.close()  # cancelled before its first step it would be reported as never awaited
        if child.cancelled():
            if self._cancelled.is_set():
                raise TurnCancelled
            raise RuntimeError("the work cancelled itself")
        return child.result()

    async def close(self) -> None:
        """End the waiter."""
        if self._waiter is not None:
            self._waiter.cancel()
            await _ended(self._waiter)

    async def _watch(self) -> None:
        await self._cancelled.wait()
        for child in self._running:
            child.cancel()


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


async def _ended(task: asyncio.Task[Any]) -> None:
    """Wait until it has ended, however often somebody cancels the waiting; then let the cancellation
    through."""
    interrupted = False
    while not task.done():
        try:
            await _first_end(task)
        except asyncio.CancelledError:
            interrupted = True
    if interrupted:
        raise asyncio.CancelledError


async def _first_end(task: asyncio.Task[Any]) -> None:
    """Wait until it has ended; cancelling the waiting leaves it alone. As `asyncio.wait`, at a third of the
    cost."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_task: asyncio.Task[Any]) -> None:
        if not ended.done():
            ended.set_result(None)

    task.add_done_callback(wake)
    try:
        await ended
    finally:
        task.remove_done_callback(wake)


P = ParamSpec("P")


@contextmanager
def on_failure(clean_up: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Generator[None]:
    """Call `clean_up` when the body does not come to its end, whatever it raises, cancellation and interrupt
    included; what was raised goes on. A body that comes to its end keeps what it made."""
    with ExitStack() as failing:
        failing.callback(clean_up, *args, **kwargs)
        yield
        failing.pop_all()
