"""Answers of hooks: exit codes, JSON, garbage, and what several of them come to."""

from __future__ import annotations

import json

import pytest

from buddy.extend.hooks.protocol import (
    EVENTS,
    NO_VERDICT,
    CommandHook,
    Hook,
    HookEvent,
    HookVerdict,
    merge_verdicts,
    verdict_of_exit,
    verdict_of_output,
    verdict_without_answer,
)


def hook(event: HookEvent) -> Hook:
    return Hook(event, CommandHook("./check"))


@pytest.mark.parametrize("event", EVENTS)
def test_no_answer_of_a_hook_allows_anything(event: HookEvent) -> None:
    for word in ("allow", "approve", "yes", True, None, 1, {"behavior": "allow"}):
        fields = {
            "decision": word,
            "hookSpecificOutput": {"permissionDecision": word, "decision": word, "additionalContext": 3},
        }
        assert verdict_of_output(hook(event), json.dumps(fields)) == NO_VERDICT


def test_exit_codes_mean_what_they_mean_elsewhere() -> None:
    assert verdict_of_exit(hook("PreToolUse"), 2, "", "no\x1b[2J") == HookVerdict(
        decision="deny", reason="no"
    )
    assert verdict_of_exit(hook("PreToolUse"), 0, "formatted 3 files", "") == NO_VERDICT
    assert verdict_of_exit(hook("UserPromptSubmit"), 0, "Monday", "").context == ("Monday",)
    (warning,) = verdict_of_exit(hook("PreToolUse"), 1, "", "oops").messages
    assert "exit code 1: oops" in warning
    assert verdict_of_exit(hook("SessionEnd"), 2, "", "no").decision == ""


def test_the_fields_of_an_answer() -> None:
    fields = {
        "continue": False,
        "stopReason": "enough",
        "systemMessage": "look\nhere",
        "hookSpecificOutput": {
            "permissionDecision": "ask",
            "permissionDecisionReason": "odd",
            "updatedInput": {"command": "ls"},
            "additionalContext": "c",
        },
    }
    assert verdict_of_output(hook("PreToolUse"), json.dumps(fields)) == HookVerdict(
        decision="ask",
        reason="odd",
        updated_input={"command": "ls"},
        context=("c",),
        messages=("look here",),
        stops=True,
        stop_reason="enough",
    )
    assert verdict_of_output(hook("PostToolUse"), json.dumps(fields)).updated_input is None


@pytest.mark.parametrize(
    "output",
    ["{", "{" * 100_000, '{"decision": ', "\x00\xff", "[1]", "null", '{"hookSpecificOutput": [1]}', "\ud800"],
)
def test_garbage_is_no_decision(output: str) -> None:
    assert verdict_of_output(hook("PreToolUse"), output).decision == ""


def test_what_is_too_long_is_cut_or_left_out() -> None:
    large = {
        "hookSpecificOutput": {"updatedInput": {"x": "y" * 2_000_000}, "additionalContext": "z" * 50_000}
    }
    verdict = verdict_of_output(hook("PreToolUse"), json.dumps(large))
    assert verdict.updated_input is None
    assert "too long" in verdict.messages[0]
    assert len(verdict.context[0]) < 11_000


def test_a_hook_without_an_answer_asks_only_where_it_guards_something() -> None:
    for event in EVENTS:
        verdict = verdict_without_answer(hook(event), "it was ended after 1 s")
        assert verdict.decision == ("ask" if event in ("PreToolUse", "PermissionRequest") else "")


def test_deny_wins_and_everything_else_adds_up() -> None:
    merged = merge_verdicts(
        [
            HookVerdict(decision="ask", reason="a", updated_input={"x": 1}, context=("1",)),
            NO_VERDICT,
            HookVerdict(decision="deny", reason="b", messages=("m",)),
            HookVerdict(decision="deny", reason="b", context=("2",), stops=True, stop_reason="s"),
        ]
    )
    assert merged == HookVerdict("deny", "b", {"x": 1}, ("1", "2"), ("m",), stops=True, stop_reason="s")
