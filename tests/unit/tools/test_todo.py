"""The plan a model keeps of its task, and the time it is told."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from buddy.agent.display import Checklist, ChecklistItem, Plain
from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import Tool, ToolContext, ToolError, ToolResult
from buddy.tools.todo import MAX_ITEMS, Plan, PlanItem, WallClock, time, todo

AT = datetime(2026, 3, 29, 1, 59, 59, tzinfo=timezone(timedelta(hours=2), "CEST"))


async def call(tool: Tool, plan: Plan, **arguments: object) -> ToolResult:
    context = ToolContext(
        1, "c", lambda _text: None, asyncio.Event(), {Plan: plan, WallClock: WallClock(lambda: AT)}
    )
    return await tool.run(context, tool.decode(json.dumps(arguments)))


async def test_a_plan_is_kept_whole_and_shown_as_a_checklist() -> None:
    plan = Plan()
    items = [
        {"text": "look", "state": "done"},
        {"text": "mend", "state": "active"},
        {"text": "test"},
        {"text": "ask", "state": "dropped"},
    ]
    result = await call(todo, plan, items=items)
    assert result.text == "[x] look\n[>] mend\n[ ] test\n[-] ask"
    assert result.display == Checklist(
        (
            ChecklistItem("look", "done"),
            ChecklistItem("mend", "active"),
            ChecklistItem("test", "pending"),
            ChecklistItem("ask", "dropped"),
        )
    )
    await call(todo, plan, items=[{"text": "only this"}])
    assert plan.items == (PlanItem("only this"),)
    assert (await call(todo, plan, items=[])).text == "the plan is empty"


@pytest.mark.parametrize(
    ("word", "state"),
    [("in_progress", "active"), ("completed", "done"), ("cancelled", "dropped"), ("not_started", "pending")],
)
async def test_the_words_of_other_programs_are_taken(word: str, state: str) -> None:
    plan = Plan()
    await call(todo, plan, todos=[{"content": "x", "status": word}])
    assert [(item.text, item.state) for item in plan.items] == [("x", state)]


async def test_a_text_alone_is_a_plan_of_one_step() -> None:
    plan = Plan((PlanItem("old"),))
    await call(todo, plan, items="x")
    assert plan.items == (PlanItem("x"),)
    await call(todo, plan, items='{"text": "y", "state": "done"}')
    assert plan.items == (PlanItem("y", "done"),)


async def test_a_plan_that_is_too_fine_or_malformed_leaves_the_old_one() -> None:
    plan = Plan((PlanItem("old"),))
    with pytest.raises(ToolError, match=f"at most {MAX_ITEMS} steps, found {MAX_ITEMS + 1}; write coarser"):
        await call(todo, plan, items=[{"text": "x"}] * (MAX_ITEMS + 1))
    for items in (
        [{"text": ""}],
        [{"text": "x" * 401}],
        [{"text": "x", "state": "soon"}],
        [{"what": "x"}],
        [["x"]],
        [5],
        5,
        '[{"text": "x"',
        '{"what": "x"}',
    ):
        with pytest.raises(ArgumentsError):
            await call(todo, plan, items=items)
    assert plan.items == (PlanItem("old"),)


async def test_a_copied_conversation_has_a_plan_of_its_own() -> None:
    plan = Plan((PlanItem("old"),))
    twin = plan.copy()
    await call(todo, twin, items=[{"text": "new"}])
    assert (plan.items, twin.items) == ((PlanItem("old"),), (PlanItem("new"),))


async def test_the_time_is_told_with_its_day_and_zone() -> None:
    result = await call(time, Plan())
    assert result.text == "Sunday 2026-03-29 01:59:59 +0200 (CEST)"
    assert result.display == Plain(result.text)
    utc = WallClock(lambda: AT.astimezone(UTC))
    context = ToolContext(1, "c", lambda _text: None, asyncio.Event(), {WallClock: utc})
    assert (await time.run(context, time.decode("{}"))).text == "Saturday 2026-03-28 23:59:59 +0000 (UTC)"
