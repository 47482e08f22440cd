"""The format codex-json: threads, turns and items as `codex exec --json` writes them, one object a line."""

from __future__ import annotations

from typing import Any

from buddy.agent import events as ev
from buddy.agent.display import Checklist, Command, Diff
from buddy.agent.messages import Call, Text, Thinking, UserMessage
from buddy.headless.formats import RunFacts, RunResult, Write, input_of, json_line
from buddy.tasks.task import Task

OWN_SERVER = "buddy"
"""The server of calls that Codex has no kind of item for, such as reading a file."""


class CodexJsonFormat:
    """One JSON object per line, as events happen."""

    def __init__(self, out: Write) -> None:
        self._out = out
        self._count = 0
        self._calls: dict[str, tuple[str, Call]] = {}
        self._plan: dict[str, Any] | None = None

    def start(self, facts: RunFacts, prompt: UserMessage) -> None:
        """Write the start of the thread and of the turn."""
        self._put("thread.started", thread_id=facts.session_id)
        self._put("turn.started")

    def event(self, event: ev.AgentUiEvent) -> None:
        """Write items."""
        match event:
            case ev.ReplyFinished():
                for part in event.message.parts:
                    if isinstance(part, Text | Thinking) and part.text:
                        kind = "agent_message" if isinstance(part, Text) else "reasoning"
                        self._put_item("completed", {"id": self._new_id(), "type": kind, "text": part.text})
            case ev.ToolStarted():
                if event.begun:
                    self._start_call(event.call)
            case ev.ToolFinished():
                self._end_call(event)
            case ev.Notice():
                if event.level != "info":
                    item = {"id": self._new_id(), "type": "error", "message": event.text}
                    self._put_item("completed", item)
            case (
                ev.TurnStarted()
                | ev.SteeringAccepted()
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
                | ev.TurnFinished()
            ):
                pass  # the format has no item for them, or the whole item follows

    def _start_call(self, call: Call) -> None:
        item_id = self._new_id()
        self._calls[call.id] = (item_id, call)
        item = _call_item(item_id, call)
        if item is not None:
            self._put_item("started", item)

    def _end_call(self, event: ev.ToolFinished) -> None:
        started = self._calls.pop(event.call_id, None)
        if started is None:
            return  # it never began
        item_id, call = started
        failed = event.status != "ok"
        match event.display:
            case Checklist(items=items):
                self._put_plan([{"text": one.text, "completed": one.state == "done"} for one in items])
            case Diff(files=files) if not failed:
                kinds = {"add": "add", "delete": "delete"}
                changes = [{"path": one.path, "kind": kinds.get(one.change, "update")} for one in files]
                item = {"id": item_id, "type": "file_change", "changes": changes, "status": "completed"}
                self._put_item("completed", item)
            case display:
                item = _call_item(item_id, call) or {"id": item_id, "type": "file_change", "changes": []}
                ending: dict[str, Any] = {"status": "failed" if failed else "completed"}
                if item["type"] == "command_execution":
                    is_command = isinstance(display, Command)
                    ending["aggregated_output"] = display.output if is_command else event.text
                    ending["exit_code"] = display.exit_code if is_command else None
                elif item["type"] == "mcp_tool_call" and failed:
                    ending["error"] = {"message": event.text}
                elif item["type"] == "mcp_tool_call":
                    content = [{"type": "text", "text": event.text}]
                    ending["result"] = {"content": content, "structured_content": None}
                elif item["type"] == "web_search":
                    ending = {}
                self._put_item("completed", {**item, **ending})

    def _put_plan(self, items: list[dict[str, Any]]) -> None:
        if self._plan is None:
            self._plan = {"id": self._new_id(), "type": "todo_list", "items": items}
            self._put_item("started", self._plan)
        else:
            self._plan = {**self._plan, "items": items}
            self._put_item("updated", self._plan)

    def subagent_event(self, task: Task, event: ev.AgentUiEvent) -> None:
        """Write nothing: the call that started a subagent has its answer."""

    def finish(self, result: RunResult) -> None:
        """Write the end of the turn."""
        if self._plan is not None:
            self._put_item("completed", self._plan)
            self._plan = None
        outcome, usage = result.outcome, result.usage
        structured = result.structured
        problem = structured.problem if structured is not None else ""
        if outcome.outcome != "completed" or problem:
            message = outcome.reason or problem or outcome.outcome
            self._put("turn.failed", error={"message": message})
            return
        self._put(
            "turn.completed",
            usage={
                "input_tokens": usage.input_tokens,
                "cached_input_tokens": usage.cache_read_tokens,
                "cache_write_input_tokens": usage.cache_write_tokens,
                "output_tokens": usage.output_tokens,
                "reasoning_output_tokens": usage.reasoning_tokens,
            },
        )

    def _new_id(self) -> str:
        self._count += 1
        return f"item_{self._count - 1}"

    def _put_item(self, moment: str, item: dict[str, Any]) -> None:
        self._put(f"item.{moment}", item=item)

    def _put(self, kind: str, **fields: Any) -> None:
        self._out(json_line({"type": kind, **fields}))


def _call_item(item_id: str, call: Call) -> dict[str, Any] | None:
    """Return the item of a running call; None for changes and plans, which are written when they are
    done."""
    values = input_of(call.arguments)
    match call.name:
        case "run_shell":
            item = {"type": "command_execution", "command": str(values.get("command", ""))}
            return {"id": item_id, **item, "aggregated_output": "", "status": "in_progress"}
        case "web_search":
            return {"id": item_id, "type": "web_search", "query": str(values.get("query", ""))}
        case "edit_file" | "write_file" | "apply_patch" | "move_file" | "delete_file" | "todo":
            return None
        case name:
            prefix, _, rest = name.partition("__")
            server, _, tool = rest.partition("__")
            is_mcp = prefix == "mcp" and bool(tool)
            return {
                "id": item_id,
                "type": "mcp_tool_call",
                "server": server if is_mcp else OWN_SERVER,
                "tool": tool if is_mcp else name,
                "arguments": values,
                "status": "in_progress",
            }
