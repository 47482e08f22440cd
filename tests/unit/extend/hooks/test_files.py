"""Hooks as settings files hold them, and as they should not."""

from __future__ import annotations

import json

import pytest

from buddy.extend.hooks.files import HooksFile, WrongMatcher, compile_matcher, matches, read_definitions

FILE = HooksFile("/home/me/.claude/settings.json", "~/.claude/settings.json", "user", confined=False)


def problems(content: object) -> list[str]:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    found, _off = read_definitions(FILE, data)
    return [one.problem for one in found]


def test_a_hook_is_read_with_matcher_and_time_limit() -> None:
    entry = {"type": "command", "command": "./x", "timeout": 5}
    content = {"hooks": {"PreToolUse": [{"matcher": "Bash|Edit", "hooks": [entry]}]}, "permissions": {}}
    (definition,), off = read_definitions(FILE, json.dumps(content).encode())
    assert definition.hook is not None
    assert (definition.hook.matcher, definition.hook.timeout_s, definition.hook.title) == (
        "Bash|Edit",
        5,
        "./x",
    )
    assert not off


def test_the_same_hook_has_the_same_digest_and_another_one_another() -> None:
    def digest(**entry: object) -> str:
        content = {"hooks": {"Stop": [{"hooks": [{"type": "command", **entry}]}]}}
        return read_definitions(FILE, json.dumps(content).encode())[0][0].digest

    assert digest(command="a", timeout=5) == digest(timeout=5, command="a")
    assert len({digest(command="a"), digest(command="b"), digest(command="a", timeout=5)}) == 3


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "no valid JSON"),
        (b"\xff\xfe", "no valid JSON"),
        ([], "expected a JSON object"),
        ({"hooks": []}, 'expected "hooks": {EVENT: [...]}'),
        ({"hooks": {"Sometimes": []}}, "no event of buddy"),
        ({"hooks": {"Stop": ["x"]}}, 'expected {"matcher"'),
        ({"hooks": {"Stop": [{"matcher": 3}]}}, 'expected a text as "matcher"'),
        ({"hooks": {"Stop": [{"matcher": "(", "hooks": []}]}}, "no regular expression"),
        ({"hooks": {"Stop": [{"hooks": [3]}]}}, 'expected a text as "command"'),
        ({"hooks": {"Stop": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]}}, "not supported"),
        ({"hooks": {"Stop": [{"hooks": [{"command": "a\x00b"}]}]}}, 'expected a text as "command"'),
    ],
)
def test_a_wrong_definition_says_what_was_expected(content: object, problem: str) -> None:
    assert any(problem in found for found in problems(content))


def test_a_flood_of_definitions_is_bounded() -> None:
    many = [{"hooks": [{"command": str(number)} for number in range(5_000)]}]
    found, _off = read_definitions(FILE, json.dumps({"hooks": {"Stop": many}}).encode())
    assert len(found) == 201
    assert "4800 more definitions" in found[-1].problem


def test_matchers_are_names_or_patterns() -> None:
    assert matches("", ("anything",))
    assert matches("*", ("x",))
    assert matches(".*", ())  # Stop and UserPromptSubmit have no subject
    assert matches("Edit|Write", ("Write", "write_file"))
    assert matches("Edit, Write", ("Write",))
    assert not matches("Edit", ("MultiEdit",))
    assert matches("mcp__.*__write", ("mcp__fs__write_file",))
    assert matches("^Notebook", ("NotebookEdit",))
    assert not matches("(a+)+$", ("a" * 5_000 + "b",))
    with pytest.raises(WrongMatcher):
        compile_matcher("(?!x)")
