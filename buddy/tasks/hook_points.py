"""The points of a turn where hooks run, and the effect of their verdicts. Without hooks for an event a point
costs one look into a set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from buddy.agent.events import Notice
from buddy.agent.messages import Call, Text, UserMessage, typed_text
from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import ForeignArguments, Tool, ToolError, ToolResult
from buddy.extend.hooks.protocol import NO_VERDICT, HookEvent, HookPoint, HookVerdict
from buddy.extend.tool_names import claude_input, claude_names
from buddy.safety.policy.facts import Facts, HookOpinion
from buddy.tasks.dependencies import BoardParts
from buddy.tasks.task import Task, TaskError

MOST_CONTINUATIONS = 8
"""How often hooks may send a turn back to work that wanted to stop."""
GENERAL_AGENT = "general-purpose"


class Judged(msgspec.Struct, frozen=True):
    """A call as hooks leave it for the policy: perhaps with other arguments, perhaps with an opinion."""

    call: Call
    arguments: msgspec.Struct
    opinion: HookOpinion | None = None


_PATH_FIELDS = ("file_path", "path", "notebook_path")


class TaskHooks:
    """The hook points of one task's turn. `tell` shows a notice to the person."""

    def __init__(self, parts: BoardParts, task: Task, tell: Callable[[Notice], None]) -> None:
        self._parts = parts
        self._task = task
        self._tell = tell
        self._continued = 0

    def handles(self, event: HookEvent) -> bool:
        """Tell whether any hook exists for an event."""
        return self._parts.hooks is not None and self._parts.hooks.handles(event)

    async def before_turn(self, prompts: Sequence[UserMessage]) -> tuple[UserMessage, ...]:
        """Return the messages a turn starts with: context of hooks first. Raises `TaskError` where a hook
        refuses the prompt."""
        context = await self._session_context()
        if self._task.parent and not self._task.history and self.handles("SubagentStart"):
            verdict = await self._dispatch("SubagentStart", self._agent_fields(), (self._agent_name,))
            context += verdict.context
        kept: list[UserMessage] = []
        for message in prompts:
            verdict = await self._submit(message)
            if verdict.decision == "deny" or verdict.stops:
                raise TaskError(f"a hook refused the prompt: {verdict.stop_reason or verdict.reason}")
            context += verdict.context
            kept.append(message)
        return (*self._as_messages(context), *kept)

    async def _session_context(self) -> list[str]:
        """Run SessionStart before the first turn of a session; return its context."""
        hooks = self._parts.hooks
        if hooks is None or not hooks.handles("SessionStart") or not hooks.take_session_start():
            return []
        source = "resume" if self._task.history else "startup"
        return list((await self._dispatch("SessionStart", {"source": source}, (source,))).context)

    async def accept(self, texts: tuple[UserMessage, ...]) -> tuple[UserMessage, ...]:
        """Return text that was sent while the turn ran, without what a hook refuses."""
        if not texts or not self.handles("UserPromptSubmit"):
            return texts
        accepted: list[UserMessage] = []
        for message in texts:
            verdict = await self._submit(message)
            if verdict.decision == "deny" or verdict.stops:
                self._task.in_delivery = [text for text in self._task.in_delivery if text.id != message.id]
                self._warn(f"a hook refused {typed_text(message)[:60]!r}: {verdict.reason}")
                continue
            accepted += (*self._as_messages(verdict.context), message)
        return tuple(accepted)

    async def before_call(self, call: Call, tool: Tool, arguments: msgspec.Struct) -> Judged:
        """Run PreToolUse. A patch is shown once for each file it changes, so that a hook that guards a file
        hears of it."""
        if not self.handles("PreToolUse"):
            return Judged(call, arguments)
        verdicts = [
            await self._dispatch("PreToolUse", fields, claude_names(tool.name), call.id)
            for fields in self._call_fields(tool, arguments)
        ]
        denied = next((verdict for verdict in verdicts if verdict.decision == "deny"), None)
        asked = next((verdict for verdict in verdicts if verdict.decision == "ask"), None)
        if denied is not None:
            return Judged(call, arguments, HookOpinion("deny", f"a hook denied it: {denied.reason}"))
        opinion = HookOpinion("ask", asked.reason) if asked is not None else None
        changed = verdicts[-1].updated_input if len(verdicts) == 1 else None
        if changed is None:
            return Judged(call, arguments, opinion)
        text = msgspec.json.encode(changed).decode()
        try:
            arguments = tool.decode(text)
        except (ArgumentsError, ToolError) as error:
            reason = f"a hook changed its input to what {tool.name} does not take: {error}"
            return Judged(call, arguments, HookOpinion("deny", reason))
        self._warn(f"a hook changed the input of {tool.name}")
        return Judged(msgspec.structs.replace(call, arguments=text), arguments, opinion)

    async def before_request(self, call: Call, tool: Tool, arguments: msgspec.Struct, reason: str) -> str:
        """Run PermissionRequest and Notification before the person is asked; return why a hook denies the
        call, "" where none does. A hook can't answer yes: that is the person's."""
        if self.handles("Notification"):
            fields = {
                "message": f"buddy needs your permission to use {claude_names(tool.name)[0]}",
                "notification_type": "permission_prompt",
            }
            await self._dispatch("Notification", fields, ("permission_prompt",), call.id)
        if not self.handles("PermissionRequest"):
            return ""
        for fields in self._call_fields(tool, arguments):
            verdict = await self._dispatch(
                "PermissionRequest", {**fields, "reason": reason}, claude_names(tool.name), call.id
            )
            if verdict.decision == "deny":
                return f"a hook denied it: {verdict.reason}"
        return ""

    async def after_call(
        self, call: Call, tool: Tool, arguments: msgspec.Struct, result: ToolResult
    ) -> ToolResult:
        """Run PostToolUse, or PostToolUseFailure for a failure; their words stand below the result."""
        event: HookEvent = "PostToolUse" if result.ok else "PostToolUseFailure"
        if not self.handles(event):
            return result
        words = await self._words_after(event, call, tool, arguments, result.text)
        return msgspec.structs.replace(result, text=f"{result.text}{words}") if words else result

    async def after_failure(
        self, call: Call, tool: Tool, arguments: msgspec.Struct, error: ToolError
    ) -> ToolError:
        """Run PostToolUseFailure for a call that raised; return the error with the hooks' words."""
        if not self.handles("PostToolUseFailure"):
            return error
        words = await self._words_after("PostToolUseFailure", call, tool, arguments, str(error))
        return ToolError(f"{error}{words}") if words else error

    async def before_stop(self) -> tuple[UserMessage, ...]:
        """Run Stop, or SubagentStop; a hook that blocks sends the model back to work with its reason."""
        event: HookEvent = "SubagentStop" if self._task.parent else "Stop"
        if not self.handles(event):
            return ()
        fields: dict[str, Any] = {
            "stop_hook_active": self._continued > 0,
            "last_assistant_message": self._task.last_answer(),
        }
        if self._task.parent:
            fields |= self._agent_fields()
        verdict = await self._dispatch(event, fields, (self._agent_name,) if self._task.parent else ())
        if verdict.decision != "deny" or verdict.stops:
            return ()
        self._continued += 1
        if self._continued > MOST_CONTINUATIONS:
            self._warn(f"{event} hooks kept the turn going {MOST_CONTINUATIONS} times; it stops now")
            return ()
        return self._as_messages([verdict.reason], origin_event=event)

    async def before_compaction(self, trigger: str, words: str = "") -> str:
        """Run PreCompact; return why a hook forbids it, "" where none does."""
        if not self.handles("PreCompact"):
            return ""
        fields = {"trigger": trigger, "custom_instructions": words}
        verdict = await self._dispatch("PreCompact", fields, (trigger,))
        return (verdict.reason or "a hook") if verdict.decision == "deny" else ""

    async def after_compaction(self, trigger: str) -> None:
        """Run PostCompact."""
        if self.handles("PostCompact"):
            await self._dispatch("PostCompact", {"trigger": trigger}, (trigger,))

    async def _submit(self, message: UserMessage) -> HookVerdict:
        is_prompt = message.origin in ("prompt", "steer", "follow_up") and not self._task.parent
        if not is_prompt or not self.handles("UserPromptSubmit"):
            return NO_VERDICT
        return await self._dispatch("UserPromptSubmit", {"prompt": typed_text(message)})

    async def _words_after(
        self, event: HookEvent, call: Call, tool: Tool, arguments: msgspec.Struct, text: str
    ) -> str:
        failed = event == "PostToolUseFailure"
        words: list[str] = []
        for fields in self._call_fields(tool, arguments, is_over=True):
            outcome = {"error": text} if failed else {"tool_response": _response(tool, fields, text)}
            verdict = await self._dispatch(event, {**fields, **outcome}, claude_names(tool.name), call.id)
            words += [verdict.reason] if verdict.decision == "deny" else []
            words += verdict.context
        return "".join(f"\n[from a {event} hook: {self._parts.redact_text(text)}]" for text in words)

    def _call_fields(
        self, tool: Tool, arguments: msgspec.Struct, *, is_over: bool = False
    ) -> list[dict[str, Any]]:
        """Return the input fields of a call. On a target they name it. A hook runs on this machine: one that
        formats the changed file must not find another file of that name here, so its path then names the
        machine as well."""
        several, workspace = call_fields(tool, arguments), self._task.workspace
        target, access = workspace.target, tool.access(arguments)
        if not target or not tool.anywhere:
            return several
        if not workspace.files_on and (access.reads or access.writes):
            return several  # a file of this machine
        for fields in several:
            fields["target"] = target
            if is_over and workspace.files_on:
                values = fields["tool_input"]
                paths = {key: f"{target}:{values[key]}" for key in _PATH_FIELDS if values.get(key)}
                fields["tool_input"] = {**values, **paths}
        return several

    async def _dispatch(
        self, event: HookEvent, fields: Mapping[str, Any], subjects: tuple[str, ...] = (), call_id: str = ""
    ) -> HookVerdict:
        if self._parts.hooks is None:
            return NO_VERDICT
        task = self._task
        point = HookPoint(event, fields, task.workspace.boundary, subjects, task.task_id, call_id)
        verdict = await self._parts.hooks.dispatch(point, task.cancelled)
        for message in verdict.messages:
            self._warn(message)
        if verdict.stops and task.running:
            task.reason = f"stopped by a hook: {verdict.stop_reason or event}"
            task.cancelled.set()
        return verdict

    def _warn(self, text: str) -> None:
        self._tell(Notice("warning", text))

    @property
    def _agent_name(self) -> str:
        return self._task.profile.name if self._task.profile else GENERAL_AGENT

    def _agent_fields(self) -> dict[str, str]:
        return {"agent_id": str(self._task.task_id), "agent_type": self._agent_name}

    def _as_messages(self, words: Sequence[str], origin_event: str = "") -> tuple[UserMessage, ...]:
        parts = self._parts
        heading = f"[a {origin_event} hook]" if origin_event else "[context from a hook]"
        return tuple(
            UserMessage(
                parts.clock.new_id(), (Text(f"{heading}\n{parts.redact_text(text)}"),), "instructions"
            )
            for text in words
        )


def call_fields(tool: Tool, arguments: msgspec.Struct) -> list[dict[str, Any]]:
    """Return the input fields of a call: one set for each file of a patch, else one."""
    own = arguments.values if isinstance(arguments, ForeignArguments) else msgspec.to_builtins(arguments)
    values = claude_input(tool.name, own)
    name = claude_names(tool.name)[0]
    paths = tool.access(arguments).writes if tool.hooked_per_file else ()
    several = [{**values, "file_path": path} for path in paths] or [values]
    return [{"tool_name": name, "tool_input": one} for one in several]


def _response(tool: Tool, fields: Mapping[str, Any], text: str) -> dict[str, Any]:
    if tool.command is not None:
        return {"stdout": text, "stderr": "", "interrupted": False}
    path = fields["tool_input"].get("file_path", "")
    return {"content": text, "success": True, **({"filePath": path} if path else {})}


def with_opinion(facts: Facts, opinion: HookOpinion | None) -> Facts:
    """Return the facts with a hook's opinion; of two opinions the stricter one stays."""
    if opinion is None or (facts.hook is not None and opinion.decision == "ask"):
        return facts
    return msgspec.structs.replace(facts, hook=opinion)
