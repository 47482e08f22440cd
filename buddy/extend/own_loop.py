"""The event loop own tools run on, in a thread of its own: a tool that blocks it keeps neither the keys nor
the other tasks waiting, and can still be cancelled.

All own tools share one loop, so that what they keep between calls (a client, a lock) goes on working. When a
tool blocks it, the next call gets a new loop, and the blocked thread is left behind: it can't be stopped, but
it doesn't keep the program from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from buddy.agent.tool import ToolContext

ANSWERS_WITHIN_S = 1.0
"""A loop that does not answer for so long is taken to be blocked."""

Work = Callable[[ToolContext], Awaitable[object]]


class OwnLoop:
    """Runs coroutines of own tools. The thread starts with the first."""

    def __init__(self, answers_within_s: float = ANSWERS_WITHIN_S) -> None:
        self._answers_within_s = answers_within_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: dict[object, str] = {}

    async def run(self, name: str, work: Work, ctx: ToolContext) -> object:
        """The result of `work` for a call, which runs on the own loop with a context that may be used there.
        Cancelling this cancels it; nothing waits until it has heard of that."""
        here = asyncio.get_running_loop()
        looked_at = self._loop
        blocked = await self._blocked_by()
        if self._loop is None or (blocked is not None and self._loop is looked_at):  # one new loop for all
            self._loop = _started(f"own tools, {name}")
            self._running = {}
        if blocked:
            ctx.progress(f"[{blocked} blocks the event loop of own tools (asyncio.to_thread helps)]\n")
        there, key = self._loop, object()
        running = self._running
        running[key] = name
        cancelled = asyncio.Event()  # one that belongs to that loop; it follows the one that belongs to this
        follow = asyncio.ensure_future(ctx.cancelled.wait())
        follow.add_done_callback(lambda _done: there.call_soon_threadsafe(cancelled.set))
        theirs = msgspec.structs.replace(ctx, cancelled=cancelled, progress=from_thread(here, ctx.progress))
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_done(work, theirs), there))
        finally:
            follow.cancel()
            running.pop(key)

    async def _blocked_by(self) -> str | None:
        """Return the tools that run on a loop that does not answer; None when it does, or there is none
        yet."""
        if self._loop is None:
            return None
        answer = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            async with asyncio.timeout(self._answers_within_s):
                await asyncio.wrap_future(answer)
        except TimeoutError:
            if not answer.cancelled():  # it answered: this loop stood still, or the whole machine did
                return None
            return ", ".join(sorted(set(self._running.values())))
        return None


async def _done(work: Work, ctx: ToolContext) -> object:
    return await work(ctx)


def from_thread(loop: asyncio.AbstractEventLoop, call: Callable[[str], None]) -> Callable[[str], None]:
    """The same function for another thread. A program that is ending hears nothing any more."""

    def called(text: str) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(call, text)

    return called


def _started(name: str) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()

    def run(*_args: Any) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    threading.Thread(target=run, name=name, daemon=True).start()
    return loop
