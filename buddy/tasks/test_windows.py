"""Test windows: while the tests of one task run, writes of other tasks wait; writes that happen anyway are
reported with the test result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from buddy.agent.tool import Access, Tool

LONGEST_WAIT_S = 60.0
_MAX_LISTED = 20


class TestWindow:
    """The running tests of one task. `writes` has a line for each change by another task meanwhile."""

    def __init__(self, task_id: int, root: str) -> None:
        self.task_id = task_id
        self.root = root
        self.writes: list[str] = []
        self.closed = asyncio.Event()

    def report(self) -> str:
        """Return the note to append to the test result, "" when nobody wrote."""
        if not self.writes:
            return ""
        lines = list(dict.fromkeys(self.writes))
        more = [f"… and {len(lines) - _MAX_LISTED} more"] if len(lines) > _MAX_LISTED else []
        return "\n\n[other tasks changed files while the tests ran]\n" + "\n".join(
            [*lines[:_MAX_LISTED], *more]
        )


class TestWindows:
    """The open test windows of a board. Tasks affect each other only in the same tree (`root`)."""

    __test__ = False  # keeps pytest from collecting it

    def __init__(self, longest_wait_s: float = LONGEST_WAIT_S) -> None:
        self._longest_wait_s = longest_wait_s
        self._open: list[TestWindow] = []
        self._running: list[tuple[int, str, str]] = []

    @contextmanager
    def open(self, task_id: int, root: str) -> Generator[TestWindow]:
        """Open a window while a task's tests run."""
        window = TestWindow(task_id, root)
        window.writes += [
            line for writer, where, line in self._running if writer != task_id and where == root
        ]
        self._open.append(window)
        try:
            yield window
        finally:
            self._open.remove(window)
            window.closed.set()

    async def wait_for_tests(
        self, task_id: int, root: str, tool: Tool, access: Access, progress: Callable[[str], None]
    ) -> None:
        """Wait, before a call that writes files, until no other task's tests run or the time limit is over.
        Commands do not wait: most of them only read."""
        others = self._others(task_id, root)
        if not others or not access.writes or access.anything or tool.runs_tests:
            return
        names = ", ".join(str(window.task_id) for window in others)
        progress(f"waiting for the tests of task {names} (at most {self._longest_wait_s:g} s)\n")
        waiters = [asyncio.ensure_future(window.closed.wait()) for window in others]
        try:
            await asyncio.wait(waiters, timeout=self._longest_wait_s)
        finally:
            for waiter in waiters:
                waiter.cancel()

    @contextmanager
    def report_write(self, task_id: int, root: str, tool: Tool, access: Access) -> Generator[None]:
        """Report a call that may change files to the windows of other tasks while it runs."""
        if access.read_only:
            yield
            return
        targets = ", ".join(access.writes[:5]) or "a command that may have changed anything"
        line = f"{tool.name} of task {task_id}: {targets}"
        entry = (task_id, root, line)
        self._running.append(entry)
        for window in self._others(task_id, root):
            window.writes.append(line)
        try:
            yield
        finally:
            self._running.remove(entry)

    def _others(self, task_id: int, root: str) -> list[TestWindow]:
        return [window for window in self._open if window.task_id != task_id and window.root == root]
