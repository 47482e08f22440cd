"""The workspace of a task on another machine: its tools, and the facts its calls are judged by. Imported when
such a target is used."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from buddy.agent.tool import Tool, ToolContext, ToolError, ToolResult, no_access
from buddy.extend.catalogue import ExtensionCatalogue
from buddy.extend.plugins.loader import PluginTools
from buddy.safety.paths import Boundary, Located
from buddy.safety.policy.facts import Facts
from buddy.safety.shell.result import Analysis
from buddy.tasks.dependencies import TaskServices, Workspace
from buddy.tasks.subagents import Delegation
from buddy.tools.ask_user import Questions
from buddy.tools.shell import ShellSettings
from buddy.tools.todo import Plan, WallClock
from buddy.tools.web import WebAccess
from buddy.workspace.elsewhere import TargetFiles, TargetShell
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.files.read_tracking import FileViews
from buddy.workspace.processes.jobs import Jobs
from buddy.workspace.processes.pool import ChildProcesses
from buddy.workspace.search.runner import SearchSettings
from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.remote_files import RemoteFiles
from buddy.workspace.targets.remote_shell import RemoteShell
from buddy.workspace.targets.remote_undo import RemoteSwitch
from buddy.workspace.targets.transport import ConnectionState
from buddy.workspace.undo.log import UndoLog


class TargetParts(msgspec.Struct, frozen=True):
    """The parts the workspaces of targets are made with. `local` is the workspace of this machine; `undo`
    makes the undo log of a target; `analyse` reads a command line; `prompt` returns the system prompt."""

    local: Workspace
    children: ChildProcesses
    undo: Callable[[str, RemoteSwitch], UndoLog]
    analyse: Callable[[str, Boundary], Analysis]
    prompt: Callable[[str, str], str]


class RemoteTarget:
    """One target on another machine: its connection, and the workspaces of the tasks on it."""

    def __init__(self, connection: TargetConnection, local_tools: tuple[str, ...]) -> None:
        self._connection, self._local_tools = connection, local_tools
        self.shown = connection.destination.shown

    @property
    def state(self) -> ConnectionState:
        """Return the state of the connection, without asking the other side."""
        return self._connection.state

    def explain_loss(self) -> str:
        """Return why the connection was lost or could not be opened, "" when it was not."""
        return self._connection.explain_loss()

    def connect(self) -> None:
        """Connect unless it is connected. Blocks; raises `ToolError`."""
        self._connection.ensure()

    def try_out(self) -> None:
        """Connect as ever: nothing stays over there. Blocks; raises `ToolError`."""
        self._connection.ensure()

    def close(self) -> None:
        """End the connection and everything that goes through it. Blocks."""
        self._connection.close()

    def workspace(self, parts: TargetParts) -> Workspace:
        """Return a workspace there, not connected yet."""
        name = self._connection.destination.name
        files = RemoteFiles(self._connection)
        shell = RemoteShell(self._connection, parts.children)
        judge = _RemoteJudge(name, files, parts)
        return replace(
            parts.local,
            system=parts.prompt(name, self.shown),
            facts=judge.facts,
            services=_services(parts, name, files, shell),
            checkpoints=None,
            target=name,
            target_shown=shell.shown,
            files_on=name,
            fit=_Fitting(name, self._local_tools),
        )


def unusable_workspace(name: str, reason: str, parts: TargetParts) -> Workspace:
    """Return the workspace of a target that can't be used: every tool says so."""

    def refuse(tool: Tool) -> Tool:
        return refusing(tool, reason)

    return replace(
        parts.local,
        services=_services(parts, name, None, None),
        checkpoints=None,
        target=name,
        target_shown=name,
        files_on=name,
        fit=refuse,
    )


def refusing(tool: Tool, reason: str) -> Tool:
    """Return a tool with the same declaration that does nothing and says why."""

    async def refuse(_ctx: ToolContext, _arguments: msgspec.Struct) -> ToolResult:
        raise ToolError(reason)

    return replace(
        tool,
        risk="low",
        run=refuse,
        access=no_access,
        preview=None,
        cache_s=0,
        survey=None,
        risk_in_sandbox=None,
        confined=False,
        keeps_undo=False,
        runs_tests=False,
        command=None,
        query=None,
        effect="",
        anywhere=True,
    )


def running_here(tool: Tool, target: str) -> Tool:
    """Return a tool of this machine that says so to a model that works on a target."""

    async def run(ctx: ToolContext, arguments: msgspec.Struct) -> ToolResult:
        result = await tool.run(ctx, arguments)
        return replace(result, text=f"{result.text}\n[{tool.name} ran on this machine, not on {target}]")

    description = f"{tool.description.rstrip()} It runs on the person's computer, not on {target}."
    return replace(tool, description=description, run=run)


_KEPT: frozenset[type] = frozenset(
    {
        *(Approved, ChildProcesses, Delegation, ExtensionCatalogue, FileLocks, Jobs, Plan, PluginTools),
        *(Questions, SearchSettings, ShellSettings, WallClock, WebAccess),
    }
)
"""The services of a task that name no folder of this machine."""


class _Fitting:
    """Returns each tool as it works on a target."""

    def __init__(self, name: str, local_tools: tuple[str, ...]) -> None:
        self._name, self._local_tools = name, local_tools

    def __call__(self, tool: Tool) -> Tool:
        if tool.anywhere:
            return tool
        if any(fnmatch.fnmatchcase(tool.name, wanted) for wanted in self._local_tools):
            return running_here(tool, self._name)
        where = (
            ""
            if tool.source == "built-in"
            else " It belongs to this machine; local_tools of the target lets it run."
        )
        return refusing(
            tool, f"{tool.name} does not work on {self._name}; nothing was done. run_shell does.{where}"
        )


def _services(
    parts: TargetParts, name: str, files: RemoteFiles | None, shell: RemoteShell | None
) -> Callable[[int], TaskServices]:
    """Return a function that makes the services of a task on a target: those of a task here without
    everything that names folders of this machine, so that a tool that was forgotten finds nothing."""
    here = parts.local.services
    undo = parts.undo(name, RemoteSwitch(files)) if files is not None else None

    def of_task(task_id: int, views: FileViews, plan: Plan | None) -> TaskServices:
        local = here(task_id)
        services = {kind: service for kind, service in local.services.items() if kind in _KEPT}
        services[FileViews] = views
        if plan is not None:
            services[Plan] = plan
        if files is not None and shell is not None and undo is not None:
            services |= {TargetFiles: files, TargetShell: shell, UndoLog: undo}
        own_plan = services.get(Plan)
        copied = own_plan.copy() if isinstance(own_plan, Plan) else None
        return TaskServices(
            services=services,
            copy=lambda copy_id: of_task(copy_id, views.copy(), copied),
            changes=tuple,  # not asked for after every call; a stale edit is refused when it is made
            forget_shown=views.forget_shown,
        )

    return lambda task_id: of_task(task_id, FileViews(), None)


class _RemoteJudge:
    """Collects facts about calls on a target: paths are resolved over there, and no command is taken for
    one that only reads, because what its words lead to over there is not known here."""

    def __init__(self, name: str, files: RemoteFiles, parts: TargetParts) -> None:
        self._name, self._files, self._parts = name, files, parts

    def facts(self, tool: Tool, arguments: Any) -> Facts:
        """Collect what the policy needs to know about a call; asks the other machine. Raises `ToolError`."""
        access = tool.access(arguments)
        if not tool.anywhere or (tool.command is None and not (access.reads or access.writes)):
            facts = self._parts.local.facts(tool, arguments)  # it touches neither machine's files
            # It types into a job over there.
            return replace(facts, target=self._name) if tool.anywhere and access.anything else facts
        host = self._files.facts()
        shell: Analysis | None = None
        folder: Located | None = None
        if tool.command is not None:
            boundary = Boundary(root=host.folder, cwd=host.folder, home=host.home)
            folder = self._files.locate(arguments.cwd or ".")
            boundary = replace(boundary, cwd=folder.real)
            shell = as_unknown(self._parts.analyse(tool.command(arguments), boundary))
        return Facts(
            tool=tool.name,
            risk=tool.risk,
            root=host.folder,
            home=host.home,
            reads=tuple(self._files.locate(path) for path in access.reads),
            writes=tuple(self._files.locate(path) for path in access.writes),
            anything=access.anything,
            shell=shell,
            category=tool.category,
            folder=folder,
            effect=tool.effect,
            runs_tests=tool.runs_tests,
            target=self._name,
        )


def as_unknown(analysis: Analysis) -> Analysis:
    """Return an analysis in which nothing is known to only read: links, programs and settings over there were
    not looked at. What makes it worse stays."""
    commands = tuple(replace(command, level="ask") for command in analysis.commands)
    return replace(analysis, level="ask", commands=commands)
