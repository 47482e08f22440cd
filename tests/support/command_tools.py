"""Real services for tools that start processes, and a look at which processes are left."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from buddy.agent.tool import Tool, ToolContext, ToolResult
from buddy.safety.paths import Boundary
from buddy.tools.shell import ShellSettings
from buddy.workspace.git.run import GitLock, RepositoryTrust
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.jobs import Jobs, JobStatus
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.limits import NO_LIMITS, ProcessLimits
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.pool import (
    ChildProcesses,
    CommandRequest,
    FinishedCommand,
    ProcessSettings,
    Sandboxing,
)


class ToolProject(msgspec.Struct):
    """Everything a command tool needs, for one test."""

    folder: Path
    children: ChildProcesses
    jobs: Jobs
    context: ToolContext
    progress: list[str]
    changes: list[JobStatus]

    async def call(self, tool: Tool, **arguments: Any) -> ToolResult:
        return await tool.run(self.context, tool.decode(json.dumps(arguments)))

    def request(self, command: str, **more: Any) -> CommandRequest:
        return CommandRequest(shell_argv(command), str(self.folder), 1, **more)

    async def run(self, command: str, *, timeout_s: float | None = 30, **more: Any) -> FinishedCommand:
        return await self.children.run(
            self.request(command, **more), timeout_s=timeout_s, cancelled=self.context.cancelled
        )


@asynccontextmanager
async def tool_project(
    folder: Path,
    *,
    variables: Mapping[str, str] | None = None,
    forbidden: frozenset[str] = frozenset(),
    allowed: frozenset[str] = frozenset(),
    limits: ProcessLimits = NO_LIMITS,
    bounds: OutputBounds | None = None,
    grace_s: float = 1.0,
    sandbox: Sandboxing | None = None,
    shell: ShellSettings | None = None,
    trusted: bool = True,
) -> AsyncIterator[ToolProject]:
    work = Path(os.path.realpath(folder)) / "work"
    work.mkdir(exist_ok=True)
    home = work.parent / "home"
    home.mkdir(exist_ok=True)
    inherited = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    environment = ChildEnvironment({**inherited, **(variables or {})}, "session-1", allowed, forbidden)
    settings = ProcessSettings(str(work.parent / "spill"), limits, grace_s, bounds or OutputBounds())
    progress: list[str] = []
    changes: list[JobStatus] = []
    async with (
        ChildProcesses(environment, settings, sandbox) as children,
        Jobs(children, changes.append) as jobs,
    ):
        services: dict[type, object] = {
            Boundary: Boundary(str(work), str(work), str(home)),
            ChildProcesses: children,
            Jobs: jobs,
            GitLock: GitLock(),
            RepositoryTrust: RepositoryTrust(trusted),
            ShellSettings: shell or ShellSettings(),
        }
        context = ToolContext(1, "call-1", progress.append, asyncio.Event(), services)
        yield ToolProject(work, children, jobs, context, progress, changes)


async def until(true: Callable[[], object], *, within_s: float = 50.0) -> None:
    """Wait until something holds, with a deadline against hanging."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "it did not come true in time"
        await asyncio.sleep(0.01)


def processes_with(mark: str) -> list[int]:
    """Ids of living processes whose command line or environment holds a mark; zombies have neither."""
    return [pid for pid in _others() if mark.encode() in _content(pid, "cmdline") + _content(pid, "environ")]


def sleepers(mark: str) -> list[int]:
    """Those that have become the program `sleep`; the shells that start it carry the mark, too."""
    return [pid for pid in _others() if _content(pid, "cmdline") == f"sleep\0{mark}\0".encode()]


def _others() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _content(pid: int, name: str) -> bytes:
    """A file of a process; nothing when it is gone or another user's."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def zombie_children() -> list[int]:
    """Children of this process that ended and were not waited for."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        try:
            fields = (
                Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split() if name.isdigit() else []
            )
        except OSError:
            continue
        if fields and fields[0] == "Z" and int(fields[1]) == os.getpid():
            found.append(int(name))
    return found
