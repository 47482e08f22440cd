"""The format stream-json: one object a line, in the shape of Claude's protocol."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from buddy import __version__
from buddy.agent import events as ev
from buddy.agent.budget import add_usage
from buddy.agent.messages import NO_USAGE, AssistantMessage, Usage, UserMessage, calls_of
from buddy.extend.tool_names import claude_call, claude_name
from buddy.headless.formats import (
    RunFacts,
    RunResult,
    Write,
    assistant_object,
    event_fields,
    json_line,
    result_message,
    result_object,
    usage_object,
)
from buddy.headless.task_names import task_name
from buddy.safety.policy.decide import CLAUDE_NAMES
from buddy.safety.sanitise import one_line
from buddy.tasks.task import Task

PROTOCOL = "2.1.0"
"""The version of Claude's protocol that the objects follow; programs compare it."""
SUMMARY_CHARS = 2_000


class PartialMessages:
    """The parts of one reply at a time as they arrive: started and stopped blocks, and their deltas."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[str, str], int] = {}
        self._open: int | None = None

    def start(self, event: ev.ReplyStarted) -> list[dict[str, Any]]:
        """Return the start of a reply."""
        self._blocks.clear()
        self._open = None
        message: dict[str, Any] = {
            "id": event.reply_id,
            "type": "message",
            "role": "assistant",
            "model": event.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_object(NO_USAGE),
        }
        return [{"type": "message_start", "message": message}]

    def text(self, event: ev.TextDelta | ev.ThinkingDelta) -> list[dict[str, Any]]:
        """Return more text or thinking."""
        kind = "text" if isinstance(event, ev.TextDelta) else "thinking"
        empty = {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})
        events = self._open_block((kind, str(event.block)), empty)
        return [*events, self._delta({"type": f"{kind}_delta", kind: event.text})]

    def call(self, call_id: str, name: str, arguments: str) -> list[dict[str, Any]]:
        """Return more arguments of a call."""
        block: dict[str, Any] = {"type": "tool_use", "id": call_id, "name": claude_name(name), "input": {}}
        events = self._open_block(("call", call_id), block)
        return [*events, self._delta({"type": "input_json_delta", "partial_json": arguments})]

    def finish(self, message: AssistantMessage, stop_reason: str | None) -> list[dict[str, Any]]:
        """Return the rest of a reply; calls that did not arrive in parts come whole."""
        events: list[dict[str, Any]] = []
        for call in calls_of(message):
            if ("call", call.id) not in self._blocks:
                events += self.call(call.id, call.name, call.arguments)
        events += self._stop()
        delta = {"stop_reason": stop_reason, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": usage_object(message.usage)})
        return [*events, {"type": "message_stop"}]

    def _open_block(self, key: tuple[str, str], block: dict[str, Any]) -> list[dict[str, Any]]:
        index = self._blocks.get(key)
        if index is not None and index == self._open:
            return []
        events = self._stop()
        # Parts of two calls may alternate: a block that was stopped goes on under its own index.
        if index is None:
            index = self._blocks[key] = len(self._blocks)
            events.append({"type": "content_block_start", "index": index, "content_block": block})
        self._open = index
        return events

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._open, "delta": delta}

    def _stop(self) -> list[dict[str, Any]]:
        if self._open is None:
            return []
        index, self._open = self._open, None
        return [{"type": "content_block_stop", "index": index}]


class ModelUsage:
    """Tokens and costs by model, over all turns and subagents of a run."""

    def __init__(self) -> None:
        self._usage: dict[str, Usage] = {}
        self._costs: dict[str, float] = {}
        self._seen: dict[int, float] = {}
        self._models: dict[int, str] = {}

    def add(self, task_id: int, event: ev.AgentUiEvent, name: str = "") -> None:
        """Count the reply of a task, and its costs. `name` stands for the model; "": the provider's name."""
        if isinstance(event, ev.ReplyFinished):
            model = name or event.message.model
            self._models[task_id] = model
            self._usage[model] = add_usage(self._usage.get(model, NO_USAGE), event.message.usage)
        elif isinstance(event, ev.TokenUsage) and (model := self._models.get(task_id, "")):
            cost = event.cost_usd - self._seen.get(task_id, 0.0)
            self._seen[task_id] = event.cost_usd
            self._costs[model] = self._costs.get(model, 0.0) + cost

    def as_object(self) -> dict[str, Any]:
        """Return the counts in Claude's shape."""
        rows: dict[str, Any] = {}
        for model, usage in self._usage.items():
            counts = usage_object(usage)
            rows[model] = {
                "inputTokens": counts["input_tokens"],
                "outputTokens": counts["output_tokens"],
                "cacheReadInputTokens": counts["cache_read_input_tokens"],
                "cacheCreationInputTokens": counts["cache_creation_input_tokens"],
                "webSearchRequests": 0,
                "costUSD": round(self._costs.get(model, 0.0), 6),
            }
        return rows


class StreamJsonFormat:
    """One JSON object per line, as events happen. `marks` are fields of every object, for a reader of several
    runs at once."""

    def __init__(
        self,
        out: Write,
        *,
        partial: bool,
        now: Callable[[], float] = time.monotonic,
        marks: Mapping[str, int] | None = None,
    ) -> None:
        self._out = out
        self._marks = marks or {}
        self._now = now
        self._partial = PartialMessages() if partial else None
        self._session_id = ""
        self._model = ""
        self._stop_reason: str | None = None
        self._provider_s = 0.0
        self._models = ModelUsage()
        self._subagents: dict[int, Task] = {}

    def start(self, facts: RunFacts, prompt: UserMessage) -> None:
        """Write the `system/init` object."""
        self._session_id = facts.session_id
        self._model = facts.model
        self._stop_reason = None
        self._provider_s = 0.0
        self._put(
            {
                "type": "system",
                "subtype": "init",
                "cwd": facts.cwd,
                "model": facts.model,
                "tools": sorted({claude_name(name) for name in facts.tools}),
                "mcp_servers": [{"name": name, "status": state} for name, state in facts.servers],
                "permissionMode": CLAUDE_NAMES[facts.permission_mode],
                "slash_commands": list(facts.commands),
                "skills": list(facts.skills),
                "agents": list(facts.agents),
                "plugins": [],
                "apiKeySource": "user",
                "output_style": "default",
                "claude_code_version": f"{PROTOCOL} (buddy {__version__})",
            }
        )

    def event(self, event: ev.AgentUiEvent) -> None:
        """Write messages as content blocks, and their parts when requested."""
        self._models.add(0, event, self._model)
        match event:
            case ev.ReplyFinished():
                reply = _reply_object(event.message)
                self._stop_reason = reply["stop_reason"]
                self._provider_s += event.timing.total_s
                self._put({"type": "assistant", "message": reply, "parent_tool_use_id": None})
                if self._partial is not None:
                    self._put_parts(self._partial.finish(event.message, reply["stop_reason"]))
            case ev.ToolFinished():
                self._put({"type": "user", "message": result_message(event), "parent_tool_use_id": None})
            case ev.TurnFinished():
                if event.receipt is not None:
                    receipt = msgspec.to_builtins(event.receipt)
                    self._put({"type": "system", "subtype": "receipt", "receipt": receipt})
            case ev.ContextCompacted():
                self._put({"type": "system", "subtype": "compact_boundary", **event_fields(event)})
            case ev.Notice() | ev.RetryScheduled():
                self._put({"type": "system", "subtype": "notice", **event_fields(event)})
            case ev.ReplyStarted():
                if self._partial is not None:
                    self._put_parts(self._partial.start(event))
            case ev.TextDelta() | ev.ThinkingDelta():
                if self._partial is not None:
                    self._put_parts(self._partial.text(event))
            case ev.ToolCallDelta():
                if self._partial is not None:
                    self._put_parts(self._partial.call(event.call_id, event.name, event.arguments))
            case ev.ToolStarted() | ev.ToolProgress():
                pass  # the reply has the call, the result its output
            case ev.TurnStarted() | ev.SteeringAccepted() | ev.TokenUsage() | ev.LibraryLoading():
                pass
            case ev.ApprovalRequested() | ev.ApprovalResolved():
                pass  # a program that answers is asked over the control channel

    def _put_parts(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            self._put({"type": "stream_event", "event": event, "parent_tool_use_id": None})

    def subagent_event(self, task: Task, event: ev.AgentUiEvent) -> None:
        """Write the messages of a subagent with the call that started it, and the state of its task."""
        self._models.add(task.task_id, event)
        if not task.parent:
            return
        call_id = task.parent_call or None
        match event:
            case ev.TurnStarted():
                self._subagents[task.task_id] = task
                self._put_task(task, "task_started", task_type="local_agent")
            case ev.ReplyFinished():
                message = _reply_object(event.message)
                self._put({"type": "assistant", "message": message, "parent_tool_use_id": call_id})
            case ev.ToolStarted():
                self._put_task(
                    task,
                    "task_progress",
                    last_tool_name=claude_name(event.call.name),
                    usage=self._usage_of(task),
                )
            case ev.ToolFinished():
                self._put({"type": "user", "message": result_message(event), "parent_tool_use_id": call_id})
            case ev.TurnFinished():
                self._subagents.pop(task.task_id, None)
                words = {"completed": "completed", "cancelled": "stopped"}
                self._put_end(task, words.get(event.outcome, "failed"))
            case (
                ev.SteeringAccepted()
                | ev.ReplyStarted()
                | ev.ThinkingDelta()
                | ev.TextDelta()
                | ev.ToolCallDelta()
                | ev.ToolProgress()
                | ev.ApprovalRequested()
                | ev.ApprovalResolved()
                | ev.TokenUsage()
                | ev.RetryScheduled()
                | ev.LibraryLoading()
                | ev.ContextCompacted()
                | ev.Notice()
            ):
                pass  # parts and notices of a subagent are its own

    def _put_task(self, task: Task, subtype: str, **fields: Any) -> None:
        self._put(
            {
                "type": "system",
                "subtype": subtype,
                "task_id": task_name(task.task_id),
                "tool_use_id": task.parent_call or None,
                "description": one_line(task.title, 200),
                **fields,
            }
        )

    def _put_end(self, task: Task, status: str) -> None:
        summary = task.last_answer()[:SUMMARY_CHARS]
        self._put_task(
            task,
            "task_notification",
            status=status,
            output_file="",
            summary=summary,
            usage=self._usage_of(task),
        )

    def _usage_of(self, task: Task) -> dict[str, int]:
        tokens = task.meter.total
        return {
            "total_tokens": tokens.input_tokens + tokens.output_tokens,
            "tool_uses": sum(len(calls_of(reply)) for reply in _replies(task)),
            "duration_ms": round((self._now() - task.started_at) * 1000),
        }

    def finish(self, result: RunResult) -> None:
        """Write the result object. A subagent that still runs was ended with the turn."""
        for task in self._subagents.values():
            self._put_end(task, "stopped")
        self._subagents.clear()
        self._put(
            {
                **result_object(result, self._session_id),
                "permission_denials": [_denial_object(denial) for denial in result.denials],
                "duration_api_ms": round(self._provider_s * 1000),
                "stop_reason": self._stop_reason,
                "errors": [result.outcome.reason] if result.outcome.reason else [],
                "modelUsage": self._models.as_object(),
            }
        )

    def put(self, data: dict[str, Any]) -> None:
        """Write an object that belongs to no turn."""
        self._out(json_line(data))

    def _put(self, data: dict[str, Any]) -> None:
        self._out(json_line({**data, **self._marks, "session_id": self._session_id, "uuid": _new_uuid()}))


def _reply_object(message: AssistantMessage) -> dict[str, Any]:
    """Return a reply with its calls in Claude's words, as hooks and requests for approval have them."""
    reply = assistant_object(message)
    for block in reply["content"]:
        if block["type"] == "tool_use":
            block["name"], block["input"] = claude_call(block["name"], block["input"])
    return reply


def _denial_object(denial: Mapping[str, Any]) -> dict[str, Any]:
    name, values = claude_call(denial["tool_name"], denial["tool_input"])
    return {**denial, "tool_name": name, "tool_input": values}


def _replies(task: Task) -> list[AssistantMessage]:
    return [message for message in task.history if isinstance(message, AssistantMessage)]


def _new_uuid() -> str:
    text = os.urandom(16).hex()
    return "-".join((text[:8], text[8:12], f"4{text[13:16]}", f"a{text[17:20]}", text[20:]))
