"""git asked for the branch of the workspace, without its hooks and filters."""

from __future__ import annotations

import asyncio

from buddy.agent.tool import ToolError
from buddy.repl.branch import branch_of
from buddy.safety.paths import Boundary
from buddy.workspace.git import GitRun, find_repository, run_git
from buddy.workspace.processes import ChildProcesses

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
