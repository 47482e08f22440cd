"""Arguments and tool names as a hostile model would write them: told back to it, never a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import Access, Tool, ToolContext, ToolError, ToolRegistry, ToolResult, tool
from buddy.safety.paths import Boundary
from buddy.safety.policy.facts import facts_of


def reading_tool() -> Tool:
    @tool(risk="low", access=lambda given: Access(reads=(given.path,)))
    async def read_thing(_ctx: ToolContext, path: str, count: int = 1) -> ToolResult:
        """Read."""
        return ToolResult(path * count)

    return read_thing


@pytest.mark.parametrize(
    "text",
    [
        '{"path": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"path": "a", "count": ' + "9" * 5000 + "}",
        '{"path": "a", "count": NaN}',
        '{"path": "a", "count": Infinity}',
        '{"path": "a", "path": "b"}',
        '{"path": "a"',
        "[]",
        '"x"',
    ],
)
def test_SEC_098_json_that_is_too_deep_too_big_or_ambiguous_is_a_tool_error(text: str) -> None:
    with pytest.raises(ArgumentsError):
        reading_tool().decode(text)


def test_SEC_098_a_lone_surrogate_in_a_path_is_a_tool_error(tmp_path: Path) -> None:
    given = reading_tool()
    boundary = Boundary(str(tmp_path), str(tmp_path), str(tmp_path))
    with pytest.raises((ArgumentsError, ToolError)):
        facts_of(given, given.decode('{"path": "a\\ud800"}'), boundary)


@pytest.mark.parametrize("name", ["constructor", "__class__", "", "x" * 10_000, "read_things", "\x1b[2J"])
def test_SEC_099_a_tool_nobody_has_is_told_to_the_model(name: str) -> None:
    registry = ToolRegistry((reading_tool(),))

    assert registry.get(name) is None
    answer = registry.unknown(name)
    assert answer.endswith("Available: read_thing")
    assert len(answer) < 300
    assert "\x1b" not in answer


@pytest.mark.parametrize("value", ["[]", "3", "null", "{}", '["a"]', "true"])
def test_SEC_100_a_path_that_is_no_text_is_a_tool_error(value: str) -> None:
    with pytest.raises(ArgumentsError, match=r"expected path \(required\), count \(optional\)"):
        reading_tool().decode(f'{{"path": {value}}}')
