"""The branch of the workspace, for the footer and the first screen; refreshed when it may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from buddy.agent.tool import ToolError
from buddy.safety.paths import Boundary
from buddy.workspace.git.run import GitRun, find_repository, run_git
from buddy.workspace.processes.pool import ChildProcesses

AGAIN_AFTER_S = 2.0
"""Minimum time between two looks: in a large tree one takes a third of a second of a core."""


async def _no_branch() -> str:
    return ""


class Branch:
    """The branch as displayed: `main*` with uncommitted changes, "" outside a repository. `look` asks git."""

    def __init__(
        self, look: Callable[[], Awaitable[str]] = _no_branch, again_after_s: float = AGAIN_AFTER_S
    ) -> None:
        self._look = look
        self._again_after_s = again_after_s
        self._stale = asyncio.Event()
        self._known = asyncio.Event()
        self.text = ""

    def refresh(self) -> None:
        """Look again: the branch may have changed."""
        self._stale.set()

    async def first(self, seconds: float) -> str:
        """Return the branch as soon as it is known, at the latest after some seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._known.wait()
        except TimeoutError:
            pass
        return self.text

    async def watch(self, changed: Callable[[], None]) -> None:
        """Look now and whenever it may have changed, at intervals; call `changed` after each look."""
        while True:
            self.text = await self._look()
            self._known.set()
            changed()
            await asyncio.sleep(self._again_after_s)
            await self._stale.wait()
            self._stale.clear()


def branch_of(status: str) -> str:
    """Return the branch from the output of `git status --porcelain=v2 --branch`: its name, or the start of
    the commit when none is checked out, with a star when a tracked file has changed."""
    lines = status.splitlines()
    head, commit = (
        next((line.removeprefix(mark) for line in lines if line.startswith(mark)), "")
        for mark in ("# branch.head ", "# branch.oid ")
    )
    name = commit[:8] if head == "(detached)" else head
    changed = any(line[:2] in ("1 ", "2 ", "u ") for line in lines)
    return f"{name}*" if name and changed else name


_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")


async def read_branch(children: ChildProcesses, boundary: Boundary) -> str:
    """Return the branch for the footer, "" without a repository or when git fails."""
    try:
        repository = find_repository(boundary.cwd, boundary.root)
        run = GitRun(children, repository, 0, asyncio.Event())
        done = await run_git(run, (*_STATUS, "--", *repository.scope), "read")
    except (ToolError, RuntimeError):  # RuntimeError: no thread can be started
        return ""
    return branch_of(done.text) if done.ok else ""
