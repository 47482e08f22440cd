"""The declarations of the built-in tools in each lane: text for the model is product text.

UPDATE_GOLDEN=1 writes the golden files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from buddy.agent.provider import ModelRequest, ToolDefinition
from buddy.agent.tool import ToolRegistry
from buddy.llm.direct.anthropic import AnthropicWire
from buddy.llm.direct.openai import ChatWire
from buddy.llm.litellm_lane import messages as litellm_messages
from buddy.llm.quirks import anthropic_quirks, chat_quirks
from buddy.tools.builtin import BUILTIN_TOOLS

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "schemas"
TOOLS = ToolRegistry(BUILTIN_TOOLS).list_definitions()
LANES = ("chat", "anthropic", "litellm")


def sent(lane: str, tools: tuple[ToolDefinition, ...] = TOOLS) -> Any:
    """The tools as the lane sends them, None when it leaves the field out."""
    request = ModelRequest("some-model", "", (), tools)
    match lane:
        case "chat":
            body = ChatWire(chat_quirks("api.openai.com", "gpt-4.1"), "gpt-4.1").body(request)
        case "anthropic":
            model = "claude-sonnet-4-5"
            body = AnthropicWire(anthropic_quirks("api.anthropic.com", model), model).body(request)
        case _:
            return litellm_messages.tools(tools) or None
    return json.loads(body).get("tools")


def records(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema of an object within a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from records(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from records(value)


@pytest.mark.parametrize("lane", LANES)
def test_the_built_in_tools_as_a_lane_sends_them(lane: str) -> None:
    text = json.dumps(sent(lane), indent=1, ensure_ascii=False) + "\n"
    golden = GOLDEN / f"{lane}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text(), "if the change is meant: UPDATE_GOLDEN=1, then read the difference"


@pytest.mark.parametrize("lane", LANES)
def test_without_tools_the_field_is_left_out(lane: str) -> None:
    assert sent(lane, ()) is None


def test_tools_are_sorted_so_that_the_prefix_of_requests_stays_the_same() -> None:
    names = [tool.name for tool in TOOLS]
    assert names == sorted(names)
    assert len(names) == len(BUILTIN_TOOLS)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_schema_is_short_and_refers_to_nothing(tool: ToolDefinition) -> None:
    assert tool.description.strip()
    assert tool.parameters["type"] == "object"
    assert not any("additionalProperties" in record for record in records(tool.parameters))
    assert "$ref" not in json.dumps(tool.parameters)
