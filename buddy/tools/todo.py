"""The plan of a task, and the time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from buddy.agent.display import Checklist, ChecklistItem, Plain
from buddy.agent.tool import ToolContext, ToolError, ToolResult, no_access, tool

MAX_ITEMS = 50
_OTHER_WORDS = {
    **dict.fromkeys(("todo", "open", "not_started"), "pending"),
    **dict.fromkeys(("in_progress", "doing", "started", "current"), "active"),
    **dict.fromkeys(("completed", "complete", "finished"), "done"),
    **dict.fromkeys(("cancelled", "canceled", "skipped"), "dropped"),
}
_MARKS = {"pending": "[ ]", "active": "[>]", "done": "[x]", "dropped": "[-]"}


class PlanItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
    state: Annotated[
        Literal["pending", "active", "done", "dropped"], msgspec.Meta(extra={"also": _OTHER_WORDS})
    ] = "pending"


class Plan:
    """The plan of one task, replaced as a whole."""

    def __init__(self, items: tuple[PlanItem, ...] = ()) -> None:
        self.items = items

    def copy(self) -> Plan:
        """Return the plan a copy of the conversation starts with."""
        return Plan(self.items)


class WallClock(msgspec.Struct, frozen=True):
    """Local time with its zone."""

    now: Callable[[], datetime]


@tool(
    anywhere=True,
    risk="low",
    core=True,
    category="plan",
    access=no_access,
    aliases=("todo_write", "update_plan", "TodoWrite"),
    argument_aliases={
        **dict.fromkeys(("todos", "plan", "tasks", "steps"), "items"),
        **dict.fromkeys(("content", "step", "task", "title", "description"), "text"),
        "status": "state",
    },
)
async def todo(ctx: ToolContext, items: list[PlanItem]) -> ToolResult:
    """Write the plan of this task: all its steps, again whenever one is done. For work of three steps or
    more; keep one step active."""
    if len(items) > MAX_ITEMS:
        raise ToolError(f"expected at most {MAX_ITEMS} steps, found {len(items)}; write coarser ones")
    plan = ctx.service(Plan)
    plan.items = tuple(items)
    lines = [f"{_MARKS[item.state]} {item.text}" for item in items]
    shown = Checklist(tuple(ChecklistItem(item.text, item.state) for item in items))
    return ToolResult("\n".join(lines) or "the plan is empty", shown)


@tool(
    anywhere=True, risk="low", category="plan", access=no_access, aliases=("now", "get_time", "current_time")
)
async def time(ctx: ToolContext) -> ToolResult:
    """The date, the time and the time zone here."""
    text = ctx.service(WallClock).now().strftime("%A %Y-%m-%d %H:%M:%S %z (%Z)")
    return ToolResult(text, Plain(text))
