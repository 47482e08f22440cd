"""The branch of the workspace, for the footer and the first screen. Refreshed when it may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from buddy.agent.tool import ToolError
from buddy.safety.paths import Boundary
from buddy.workspace.git.run import GitRun, find_repository, run_git
from buddy.workspace.processes.pool import ChildProcesses

AGAIN_AFTER_S = 2.0
"""In a large tree a look takes a third of a second of a core."""


async def _no_branch() -> str:
    return ""


class Branch:
    """The branch as it is shown, `main*` with changes that are not committed, "" outside a repository.
    `look` asks git."""

    def __init__(
        self, look: Callable[[], Awaitable[str]] = _no_branch, again_after_s: float = AGAIN_AFTER_S
    ) -> None:
        self._look = look
        self._again_after_s = again_after_s
        self._stale = asyncio.Event()
        self._known = asyncio.Event()
        self.shown = ""

    def refresh(self) -> None:
        """Something may have changed it."""
        self._stale.set()

    async def first(self, seconds: float) -> str:
        """The branch as soon as it is known, at most after some seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._known.wait()
        except TimeoutError:
            pass
        return self.shown

    async def watch(self, changed: Callable[[], None]) -> None:
        """Look now and whenever it may have changed, not too often; `changed` follows each look."""
        while True:
            self.shown = await self._look()
            self._known.set()
            changed()
            await asyncio.sleep(self._again_after_s)
            await self._stale.wait()
            self._stale.clear()


def branch_of(status: str) -> str:
    """The branch in what `git status --porcelain=v2 --branch` says: its name, or the beginning of the commit
    where none is checked out, with a star where a file that git knows has changed."""
    lines = status.splitlines()
    head, commit = (
        next((line.removeprefix(mark) for line in lines if line.startswith(mark)), "")
        for mark in ("# branch.head ", "# branch.oid ")
    )
    name = commit[:8] if head == "(detached)" else head
    changed = any(line[:2] in ("1 ", "2 ", "u ") for line in lines)
    return f"{name}*" if name and changed else name


_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")


async def look_at_branch(children: ChildProcesses, boundary: Boundary) -> str:
    """The branch as the footer shows it, "" where there is no repository or git can't tell."""
    try:
        repository = find_repository(boundary.cwd, boundary.root)
        run = GitRun(children, repository, 0, asyncio.Event())
        done = await run_git(run, (*_STATUS, "--", *repository.scope), "read")
    except (ToolError, RuntimeError):  # RuntimeError: no further thread can be started
        return ""
    return branch_of(done.text) if done.ok else ""
