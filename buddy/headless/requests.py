"""Control requests of the program that drives buddy, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from buddy import __version__
from buddy.agent.tool import ToolError
from buddy.app.session import Session
from buddy.headless.control import ControlChannel
from buddy.headless.formats import RunFacts, server_state
from buddy.headless.input_lines import InputError, as_object
from buddy.headless.program_hooks import read_hooks
from buddy.headless.program_servers import ProgramServers
from buddy.headless.stream_format import PROTOCOL
from buddy.headless.task_names import JOB_PREFIX, task_number
from buddy.safety.policy.decide import mode_by_name
from buddy.tasks.task import changed_paths, changes_since
from buddy.workspace.undo.log import UndoEntry, UndoLog

UNSUPPORTED = (
    *("appendSubagentSystemPrompt", "excludeDynamicSections", "managedSettings", "planModeInstructions"),
    *("plugins", "sdkMcpServerConfigs", "skills", "toolAliases"),
)
"""Fields of `initialize` that would change what the model may do or reads, and that buddy does not have."""
KNOWN = frozenset(
    {
        *("subtype", "hooks", "agents", "jsonSchema", "systemPrompt", "appendSystemPrompt", "sdkMcpServers"),
        "forwardSubagentText",  # the messages of subagents are always written
        *("sdkMcpServerManifests", "systemPromptSnapshot"),  # both only save time
        *UNSUPPORTED,
    }
)
"""Fields of `initialize` that are carried out, refused or without a consequence. Any other is reported."""


class Requests(msgspec.Struct, frozen=True):
    """Answers the requests of a program. `positions` are the lengths of the history before the turns of its
    messages, by their uuid; `interrupt` ends the running turn; `warn` writes a sentence for the user."""

    session: Session
    task_id: int
    facts: Callable[[], RunFacts]
    control: ControlChannel
    servers: ProgramServers
    positions: Mapping[str, int]
    interrupt: Callable[[], None]
    warn: Callable[[str], None]

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out a request and return its answer. Raises `InputError`, `TaskError`, `ConfigError`,
        `ToolError` and `ValueError`."""
        session = self.session
        match request.get("subtype"):
            case "initialize":
                return await self._initialize(request)
            case "interrupt":
                self.interrupt()
                return {"still_queued": []}
            case "set_permission_mode":
                return self._set_mode(str(request.get("mode")))
            case "set_model":
                session.board.change_model(self.task_id, str(request.get("model") or ""))
                return {}
            case "mcp_status":
                return {"mcpServers": server_states(session)}
            case "mcp_message":
                name, message = str(request.get("server_name")), as_object(request.get("message"))
                if not self.servers.take(name, message):
                    raise InputError(f"there is no server {name[:60]!r}")
                return {}
            case "get_context_usage":
                return self._context_usage()
            case "stop_task":
                return await self._stop_task(str(request.get("task_id")))
            case "rewind_files":
                return await self._rewind(
                    str(request.get("user_message_id")), is_trial=request.get("dry_run") is True
                )
            case kind:
                raise InputError(f"{str(kind)[:60]!r} is not supported")

    async def _initialize(self, request: dict[str, Any]) -> dict[str, Any]:
        """Register hooks and describe the session. A guard that would silently be missing is an error."""
        for name in UNSUPPORTED:
            if request.get(name):
                raise InputError(f"initialize: {name} is not supported")
        ignored = sorted(name for name, value in request.items() if name not in KNOWN and value)
        if ignored:
            self.warn(f"initialize: unknown fields are ignored: {', '.join(ignored)}")
        session = self.session
        for hook in read_hooks(request.get("hooks"), self.control):
            session.extensions.hooks.add(hook)
        await session.extensions.refresh()
        catalogue = session.extensions.catalogue
        model = self.facts().model
        invocable = [*catalogue.of_kind("command"), *catalogue.of_kind("skill")]
        return {
            "commands": [
                {"name": one.name, "description": one.description, "argumentHint": one.hint}
                for one in invocable
                if one.state == "active"
            ],
            "agents": [
                {"name": one.name, "description": one.description}
                for one in catalogue.of_kind("agent")
                if one.state == "active"
            ],
            "output_style": "default",
            "available_output_styles": ["default"],
            "models": [{"value": model, "displayName": model, "description": ""}],
            "account": {},
            "hook_on_failure_supported": True,
            "hooks_applied": True,
            "ignored_fields": ignored,
            "claude_code_version": f"{PROTOCOL} (buddy {__version__})",
        }

    def _set_mode(self, name: str) -> dict[str, Any]:
        mode = mode_by_name(name)
        if mode is None:
            raise InputError(f"there is no permission mode {name[:60]!r}")
        self.session.policy.set_mode(mode)
        self.session.board.inbox.reconsider()
        return {"mode": name}

    def _context_usage(self) -> dict[str, Any]:
        task = self.session.board.task(self.task_id)
        used, limit = task.meter.context_tokens, task.meter.window.limit
        return {
            "totalTokens": used,
            "maxTokens": limit,
            "rawMaxTokens": limit,
            "percentage": round(used * 100 / max(1, limit)),
            "model": self.facts().model,
            "categories": [],
            "gridRows": [],
            "memoryFiles": [],
            "mcpTools": [],
            "agents": [],
            "isAutoCompactEnabled": True,
            "apiUsage": None,
        }

    async def _stop_task(self, name: str) -> dict[str, Any]:
        """End a subagent or a background command by the id its events have."""
        number = task_number(name)
        board = self.session.board
        if name.startswith(JOB_PREFIX) and number is not None:
            await self.session.jobs.stop(number)
        elif number is None or number not in board.tasks or not board.task(number).parent:
            raise InputError(f"there is no task {name[:60]!r}")
        else:
            board.cancel(number, "stopped by the program")
        return {}

    async def _rewind(self, uuid: str, *, is_trial: bool) -> dict[str, Any]:
        """Undo the changes since a message, newest first; the conversation stays."""
        session, task = self.session, self.session.board.task(self.task_id)
        if uuid not in self.positions:
            known = "send messages with a uuid, or pass --replay-user-messages, and use the uuid of one"
            return {"canRewind": False, "error": f"there is no message {uuid[:60]!r} of this run; {known}"}
        if task.running:
            return {"canRewind": False, "error": "the turn is running; interrupt it first"}
        try:
            log = session.undo_of(self.task_id)
        except ToolError as error:
            return {"canRewind": False, "error": str(error)}
        entries = await asyncio.to_thread(log.entries, self.task_id)
        changes = changes_since(task, self.positions[uuid], entries)
        added, removed = await asyncio.to_thread(_count_lines, session, log, changes)
        done: list[UndoEntry] = []
        try:
            while not is_trial and len(done) < len(changes):
                undone = await asyncio.to_thread(log.undo, session.locks, self.task_id, merging=True)
                done.append(undone)
        except ToolError as error:
            problem = f"{error} {len(done)} of {len(changes)} changes were undone"
            return {"canRewind": False, "error": problem, "filesChanged": changed_paths(done)}
        return {
            "canRewind": True,
            "filesChanged": changed_paths(changes),
            "insertions": added,
            "deletions": removed,
        }


def server_states(session: Session) -> list[dict[str, Any]]:
    """Return the MCP servers of a session with their state in Claude's words."""
    if session.mcp is None:
        return []
    return [
        {
            "name": name,
            "status": server_state(server.state),
            **({"error": server.reason} if server.reason else {}),
            "scope": server.definition.scope,
            "tools": [{"name": tool.name} for tool in session.mcp.tools_of(name)],
        }
        for name, server in session.mcp.servers.items()
    ]


def _count_lines(session: Session, log: UndoLog, changes: tuple[UndoEntry, ...]) -> tuple[int, int]:
    """Return how many lines undoing the changes adds and removes."""
    from buddy.tools.files.task_diff import diff_of  # only needed here

    files = diff_of(log, changes, session.launch.boundary.cwd).files
    return sum(file.removed for file in files), sum(file.added for file in files)
