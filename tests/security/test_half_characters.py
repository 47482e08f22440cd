"""Half characters (lone surrogates) in what a model writes: an error in words, sent nowhere."""

from __future__ import annotations

import pytest

from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import ToolError
from buddy.extend.mcp.tools import decode_values
from buddy.workspace.search.walk import glob_matcher

SCHEMA = {"properties": {"a": {"type": "string"}, "b": {"type": "object"}}}


@pytest.mark.parametrize(
    "text",
    [
        r'{"a": "\ud800"}',
        r'{"a": "x\udfff"}',
        r'{"b": {"deep": ["\ud800"]}}',
        r'{"b": {"\ud800": 1}}',
        r'{"\udc80": 1}',
        r'{"a": "\udc00\ud800"}',
        r'{"b": "{\"deep\": \"\\ud800\"}"}',
    ],
)
def test_ATTACK7_half_a_character_is_not_sent_to_a_server(text: str) -> None:
    with pytest.raises(ArgumentsError, match="half a character"):
        decode_values(text, SCHEMA)


def test_a_whole_pair_is_one_character() -> None:
    assert decode_values(r'{"a": "\ud83d\ude00"}', SCHEMA) == {"a": "😀"}


@pytest.mark.parametrize("pattern", ["a\ud800*", "\udfff", "src/{a,\ud800}", "[\ud800]"])
def test_ATTACK_8_7_a_pattern_for_names_with_half_a_character_is_an_error(pattern: str) -> None:
    with pytest.raises(ToolError, match="half a character"):
        glob_matcher(pattern)


def test_names_that_are_no_text_are_still_found() -> None:
    assert glob_matcher("*\udcff*")("a\udcff.txt")
