"""Errors of tools have no secrets: neither what the model reads nor what the person sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.agent.display import Display
from buddy.agent.events import Notice, ToolFinished
from buddy.agent.tool import Access, Tool, ToolContext, ToolError, tool
from tests.support.board_session import board_session
from tests.support.laws import calls, says

SECRET = "sk-ant-api03-" + "Ab3dEf7hIj" * 9
CONTENT = f'# settings\napi_key = "{SECRET}"\nname = "one"\nname = "one"\n'


def _no_access(arguments: object) -> Access:
    raise ToolError(f"found {SECRET}")


@tool(risk="low")
async def refuse(_ctx: ToolContext) -> str:
    """Refuse."""
    raise ToolError(f"The file begins:\n{CONTENT}")


@tool(risk="low")
async def crash(_ctx: ToolContext) -> str:
    """Crash."""
    raise ValueError(SECRET)


@tool(risk="low", access=_no_access)
async def unclear(_ctx: ToolContext) -> str:
    """Be unclear about places."""
    return ""


def _no_preview(ctx: ToolContext, arguments: object) -> Display:
    raise ToolError(f"nearest text: {SECRET}")


@tool(risk="high", preview=_no_preview)
async def hide(_ctx: ToolContext) -> str:
    """Have no preview."""
    return ""


async def seen(root: Path, tool: Tool) -> tuple[str, str]:
    """Return the texts the model and the user get about a call."""
    (root / "work").mkdir()
    async with board_session(root, tool) as session:
        events = session.board.reader()
        session.script(calls(("c1", tool.name, "{}")), says("ok"))
        await session.turn(1, "go")
        told = "\n".join(session.texts(1))
        shown = [one.event for one in events.drain() if isinstance(one.event, ToolFinished | Notice)]
    return told, repr(shown)


@pytest.mark.parametrize("refusing", [refuse, crash, unclear, hide], ids=lambda one: one.name)
async def test_ATTACK_F8_an_error_of_any_tool_is_told_without_secrets(tmp_path: Path, refusing: Tool) -> None:
    told, shown = await seen(tmp_path, refusing)

    for text in (told, shown):
        assert SECRET not in text
        assert "redacted" in text
