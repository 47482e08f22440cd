"""Lists of servers: one odd entry costs itself."""

from __future__ import annotations

from typing import Any

import pytest

from buddy.extend.mcp.listings import MAX_TOOLS, clean_lists, find_problem


def cleaned(**lists: Any) -> dict[str, Any]:
    result = dict(lists)
    clean_lists(result)
    return result


def nested(depth: int) -> dict[str, Any]:
    node: dict[str, Any] = {}
    for _ in range(depth):
        node = {"x": node}
    return node


def test_entries_that_are_no_tools_are_left_out() -> None:
    found = cleaned(tools=[None, 3, {}, {"name": 5}, {"name": " "}, {"name": "a", "inputSchema": "x"}])
    assert found == {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}


def test_a_list_is_cut_and_what_is_no_list_stays_for_the_library_to_refuse() -> None:
    assert len(cleaned(tools=[{"name": f"t{at}"} for at in range(MAX_TOOLS + 5)])["tools"]) == MAX_TOOLS
    assert cleaned(tools="x") == {"tools": "x"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({}, ""),
        ({"type": ["null", "object"]}, ""),
        ({"type": "string"}, "type"),
        (nested(30), ""),
        (nested(900), "deep"),
        ({"$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}}}, "x": {"$ref": "#/$defs/A"}}, ""),
        ({"$defs": {"a/b": {}}, "x": {"$ref": "#/$defs/a~1b"}}, ""),
        ({"x": {"$ref": "https://example.com/a.json"}}, "reference"),
        ({"x": {"$ref": "file:///etc/passwd"}}, "reference"),
        ({"x": {"$ref": "#/$defs/Missing"}}, "reference"),
        ({"x": {"$ref": "#"}}, "reference"),
        ({"x": {"$ref": "#/y"}, "y": {"$ref": "#/x"}}, "reference"),
        ({"x": [{"y": {"$ref": "http://a"}}]}, "reference"),
    ],
)
def test_what_makes_a_schema_unusable(schema: dict[str, Any], problem: str) -> None:
    assert find_problem(schema) == problem
