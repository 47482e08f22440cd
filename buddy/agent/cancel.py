"""Cancellation by event: run work until it ends or an event fires."""

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
    """Runs pieces of work, one after the other or several at once, until an event fires. They share one
    waiting task, because one for each would cost more than most of the work. `close` it."""

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
        child = asyncio.ensure_future(_contain_exit(work))
        self._running.add(child)
        try:
            await _wait_done(child)
        finally:
            self._running.discard(child)
            if not child.done():
                child.cancel()
                await _wait_for_end(child)
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
            await _wait_for_end(self._waiter)

    async def _watch(self) -> None:
        await self._cancelled.wait()
        for child in self._running:
            child.cancel()


async def finish_uninterruptibly(work: Coroutine[Any, Any, T]) -> T:
    """Finish the work even when cancelled meanwhile; raise the cancellation afterwards."""
    task = asyncio.ensure_future(_contain_exit(work))
    await _wait_for_end(task)
    return task.result()


async def _contain_exit(work: Coroutine[Any, Any, T]) -> T:
    """Turn SystemExit into RuntimeError: asyncio would carry it out of the task, past the code that awaits
    it, and end the program."""
    try:
        return await work
    except SystemExit as error:
        raise RuntimeError(
            f"SystemExit: {error.code} was raised, but only buddy may end the program"
        ) from error


async def _wait_for_end(task: asyncio.Task[Any]) -> None:
    """Wait for the end of a task however often the wait is cancelled; then raise the cancellation."""
    interrupted = False
    while not task.done():
        try:
            await _wait_done(task)
        except asyncio.CancelledError:
            interrupted = True
    if interrupted:
        raise asyncio.CancelledError


async def _wait_done(task: asyncio.Task[Any]) -> None:
    """Wait for the end of a task; cancelling the wait leaves the task alone. Like `asyncio.wait`, at a third
    of the cost."""
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
    """Call `clean_up` when the body raises anything, cancellation and interrupt included, and raise it
    again."""
    with ExitStack() as failing:
        failing.callback(clean_up, *args, **kwargs)
        yield
        failing.pop_all()
