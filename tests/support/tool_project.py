"""A project's folder with the services of its tools, and calls made as a model makes them (JSON in, result or
refusal out)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from buddy.agent.display import Display
from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import Tool, ToolContext, ToolError, ToolResult
from buddy.safety.paths import Boundary
from buddy.tools.files.edit import edit_file
from buddy.tools.files.listing import list_files
from buddy.tools.files.move import copy_file, delete_file, move_file
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.tools.grep import grep
from buddy.tools.shell import ShellSettings
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.atomic_replace import DISK, Disk
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.files.read_tracking import FileViews
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
from buddy.workspace.search.runner import SearchSettings
from buddy.workspace.undo.log import UndoLog
from buddy.workspace.undo.trash import Trash
from tests.support.undo_logs import undo_log

TOOLS: tuple[Tool, ...] = (
    edit_file,
    write_file,
    apply_patch,
    read_file,
    list_files,
    copy_file,
    move_file,
    delete_file,
)


class ToolProject:
    """The files of one session: tasks share locks, undo log and approvals, each has its own views."""

    def __init__(
        self, root: Path, *, session: Path | None = None, disk: Disk = DISK, home: Path | None = None
    ) -> None:
        self.root = Path(os.path.realpath(root))
        self.boundary = Boundary(str(self.root), str(self.root), str(home or "/nonexistent-home"))
        self.locks = FileLocks()
        self.undo = undo_log(str(session or self.root / ".buddyx" / "sessions" / "s" / "undo"), disk)
        self.approved = Approved()
        self.trash = Trash(str(self.root / ".buddyx" / "trash"))
        self.views: dict[int, FileViews] = {}
        self.calls = 0
        self.cancelled = asyncio.Event()
        self.progress: list[str] = []

    def services(self, task_id: int = 1) -> dict[type, object]:
        views = self.views.setdefault(task_id, FileViews())
        return {
            Boundary: self.boundary,
            FileViews: views,
            FileLocks: self.locks,
            UndoLog: self.undo,
            Approved: self.approved,
            Trash: self.trash,
        }

    def context(self, task_id: int = 1, call_id: str = "") -> ToolContext:
        self.calls += 1
        name = call_id or f"call-{self.calls}"
        return ToolContext(task_id, name, self.progress.append, self.cancelled, self.services(task_id))

    async def call(self, tool: Tool, *, task_id: int = 1, call_id: str = "", **arguments: Any) -> ToolResult:
        """Run a call. Raises `ToolError` or `ArgumentsError` as the loop would see them."""
        decoded = tool.decode(json.dumps(arguments))
        return await tool.run(self.context(task_id, call_id), decoded)

    async def ask(self, tool: Tool, *, task_id: int = 1, **arguments: Any) -> str:
        """Return the text the model gets: the result, or "refused: …"."""
        try:
            return (await self.call(tool, task_id=task_id, **arguments)).text
        except (ToolError, ArgumentsError) as error:
            return f"refused: {error}"

    def preview(self, tool: Tool, call_id: str, *, task_id: int = 1, **arguments: Any) -> Display:
        decoded = tool.decode(json.dumps(arguments))
        assert tool.preview is not None
        return tool.preview(self.context(task_id, call_id), decoded)

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def bytes(self, name: str) -> bytes:
        return (self.root / name).read_bytes()


class CommandProject(ToolProject):
    """A project whose tools can start processes."""

    def __init__(self, root: Path, home: Path, children: ChildProcesses, jobs: Jobs) -> None:
        super().__init__(root, session=home / "session", home=home)
        self.children = children
        self.jobs = jobs
        self.changes: list[JobStatus] = []
        self.search_limit_s = 10.0
        self.shell = ShellSettings()
        self.trusted = True
        self._git_lock = GitLock()

    def services(self, task_id: int = 1) -> dict[type, object]:
        return {
            **super().services(task_id),
            ChildProcesses: self.children,
            Jobs: self.jobs,
            GitLock: self._git_lock,
            RepositoryTrust: RepositoryTrust(self.trusted),
            ShellSettings: self.shell,
            SearchSettings: SearchSettings(time_limit_s=self.search_limit_s),
        }

    def request(self, command: str, **more: Any) -> CommandRequest:
        return CommandRequest(shell_argv(command), str(self.root), 1, **more)

    async def run(self, command: str, *, timeout_s: float | None = 30, **more: Any) -> FinishedCommand:
        return await self.children.run(
            self.request(command, **more), timeout_s=timeout_s, cancelled=self.cancelled
        )

    async def grep(self, pattern: str, **arguments: Any) -> str:
        return await self.ask(grep, pattern=pattern, **arguments)


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
) -> AsyncIterator[CommandProject]:
    """Make a project in `folder/work` beside a home; no child outlives it."""
    work = Path(os.path.realpath(folder)) / "work"
    work.mkdir(exist_ok=True)
    home = work.parent / "home"
    home.mkdir(exist_ok=True)
    inherited = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    environment = ChildEnvironment({**inherited, **(variables or {})}, "session-1", allowed, forbidden)
    settings = ProcessSettings(str(work.parent / "spill"), limits, grace_s, bounds or OutputBounds())
    changes: list[JobStatus] = []
    async with (
        ChildProcesses(environment, settings, sandbox) as children,
        Jobs(children, changes.append) as jobs,
    ):
        project = CommandProject(work, home, children, jobs)
        project.changes, project.trusted = changes, trusted
        project.shell = shell or project.shell
        yield project
