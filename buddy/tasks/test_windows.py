"""Test windows: while the tests of one task run, the others' writes wait for a while, and what is written all
the same is told with the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from buddy.agent.tool import Access, Tool

LONGEST_WAIT_S = 60.0
_SHOWN = 20


class TestWindow:
    """The tests of one task, while they run. `writes`: what other tasks did meanwhile, a line each."""

    def __init__(self, number: int, root: str) -> None:
        self.number = number
        self.root = root
        self.writes: list[str] = []
        self.closed = asyncio.Event()

    def told(self) -> str:
        """Return what to add to the outcome of the tests."""
        if not self.writes:
            return ""
        lines = list(dict.fromkeys(self.writes))
        more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        return "\n\n[other tasks changed files while the tests ran]\n" + "\n".join([*lines[:_SHOWN], *more])


class TestWindows:
    """The windows of a board. Only tasks that work in the same tree (`root`) are in each other's way."""

    __test__ = False  # the name begins like a test's

    def __init__(self, longest_wait_s: float = LONGEST_WAIT_S) -> None:
        self._longest_wait_s = longest_wait_s
        self._open: list[TestWindow] = []
        self._running: list[tuple[int, str, str]] = []

    @contextmanager
    def open(self, number: int, root: str) -> Generator[TestWindow]:
        """The tests of a task run."""
        window = TestWindow(number, root)
        window.writes += [line for writer, where, line in self._running if writer != number and where == root]
        self._open.append(window)
        try:
            yield window
        finally:
            self._open.remove(window)
            window.closed.set()

    async def clear(
        self, number: int, root: str, tool: Tool, access: Access, progress: Callable[[str], None]
    ) -> None:
        """Wait, before a call that writes files, until no other task's tests run; not for ever. Commands do
        not wait: most of them only look."""
        others = self._others(number, root)
        if not others or not access.writes or access.anything or tool.runs_tests:
            return
        names = ", ".join(str(window.number) for window in others)
        progress(f"waiting for the tests of task {names} (at most {self._longest_wait_s:g} s)\n")
        waiters = [asyncio.ensure_future(window.closed.wait()) for window in others]
        try:
            await asyncio.wait(waiters, timeout=self._longest_wait_s)
        finally:
            for waiter in waiters:
                waiter.cancel()

    @contextmanager
    def writing(self, number: int, root: str, tool: Tool, access: Access) -> Generator[None]:
        """A task's call changes something, or may, as long as the context lasts."""
        if access.read_only:
            yield
            return
        what = ", ".join(access.writes[:5]) or "a command, which may have changed anything"
        line = f"{tool.name} of task {number}: {what}"
        mine = (number, root, line)
        self._running.append(mine)
        for window in self._others(number, root):
            window.writes.append(line)
        try:
            yield
        finally:
            self._running.remove(mine)

    def _others(self, number: int, root: str) -> list[TestWindow]:
        return [window for window in self._open if window.number != number and window.root == root]
