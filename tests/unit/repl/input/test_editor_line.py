"""Lines and what they mean; when a line answers a request."""

from __future__ import annotations

import pytest

from buddy.agent.display import Plain
from buddy.agent.messages import Call
from buddy.repl.input.approval_line import TypedLine, Waiting, answer_of, refusal_of
from buddy.repl.intents import ApprovalAnswer, Line, NewTask, Prompt, ShellLine, Slash, ToTask, parse_line
from buddy.repl.view.state import InboxRow


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("", None),
        ("  \n ", None),
        ("fix it", Prompt("fix it")),
        ("write tests &", NewTask("write tests")),
        (" write tests &  ", NewTask("write tests")),
        ("a && b", Prompt("a && b")),
        ("this & that", Prompt("this & that")),
        ("Tom &\nJerry &", Prompt("Tom &\nJerry &")),
        ("literal \\&", Prompt("literal &")),
        ("&", Prompt("&")),
        ("@2 use pytest", ToTask(2, "use pytest", aside=False)),
        ("@2? how far", ToTask(2, "how far", aside=True)),
        ("@9 nobody", ToTask(9, "nobody", aside=False)),
        ("@2", Prompt("@2")),
        ("@2.txt is wrong", Prompt("@2.txt is wrong")),
        (f"@{'2' * 5000} nobody", Prompt(f"@{'2' * 5000} nobody")),
        ("/help me", Slash("/help me")),
        ("/usr/bin is a path", Prompt("/usr/bin is a path")),
        ("!ls -l", ShellLine("ls -l", private=False)),
        ("!! env", ShellLine("env", private=True)),
        ("!", None),
        ("!!", None),
        ("exit", Slash("/quit")),
        (":q", Slash("/quit")),
        ("!sleep 5 &", ShellLine("sleep 5 &", private=False)),
    ],
)
def test_a_typed_line_means(text: str, meaning: Line | None) -> None:
    assert parse_line(text, typed=True) == meaning


def test_a_pasted_ampersand_starts_no_task() -> None:
    assert parse_line("sleep 5 &", typed=False) == Prompt("sleep 5 &")


def row(request_id: str = "q7", *, marked_at: float | None = 10.0, rule: str = "git push *") -> InboxRow:
    return InboxRow(
        request_id=request_id,
        number=int(request_id[1:]),
        digest="digest of " + request_id,
        task_id=1,
        call=Call("c", "run_shell", "{}"),
        title="git push",
        risk="high",
        reason="",
        preview=Plain(""),
        rule=rule,
        since=9.0,
        drawn_at=marked_at,
        marked_at=marked_at,
        session=rule,
    )


def typed(text: str, *, begun_at: float = 11.0, pasted: bool = False, took: float = 0.2) -> TypedLine:
    return TypedLine(text, pasted, begun_at, begun_at + took)


def test_one_letter_answers_the_marked_request() -> None:
    answers = {key: answer_of(typed(key), Waiting([row()])) for key in ("y", "a", "p", "n", " y ")}
    assert answers == {
        "y": ApprovalAnswer("q7", "digest of q7", "once"),
        "a": ApprovalAnswer("q7", "digest of q7", "session"),
        "p": ApprovalAnswer("q7", "digest of q7", "rule"),
        "n": ApprovalAnswer("q7", "digest of q7", "denied"),
        " y ": ApprovalAnswer("q7", "digest of q7", "once"),
    }
    assert [answer_of(typed(key), Waiting([row(rule="")])) for key in "pa"] == ["no rule", "no rule"]


@pytest.mark.parametrize("text", ["yes", "Y", "y\ny", "ok", "y please", ""])
def test_any_other_line_is_no_answer(text: str) -> None:
    assert answer_of(typed(text), Waiting([row()])) is None


def test_without_a_request_a_letter_is_a_letter() -> None:
    assert answer_of(typed("y"), Waiting([])) is None


def test_SEC_038_an_answer_begun_for_one_request_does_not_answer_the_next() -> None:
    now_marked = row("q8", marked_at=11.1)
    assert answer_of(typed("y", begun_at=11.0, took=3.0), Waiting([now_marked])) == "too soon"


@pytest.mark.parametrize(("begun_at", "answered"), [(10.05, False), (10.29, False), (10.31, True)])
def test_SEC_039_a_key_soon_after_the_request_does_not_answer(begun_at: float, answered: bool) -> None:
    assert isinstance(answer_of(typed("y", begun_at=begun_at), Waiting([row()])), ApprovalAnswer) is answered
    assert answer_of(typed("y", begun_at=begun_at), Waiting([row(marked_at=None)])) == "too soon"


def test_SEC_040_pasted_text_never_answers() -> None:
    assert answer_of(typed("y", pasted=True), Waiting([row()])) == "pasted"
    assert answer_of(typed("y", took=0.001), Waiting([row()])) == "pasted"


def test_SEC_039_ok_answers_the_marked_request_under_the_same_conditions_as_a_letter() -> None:
    assert answer_of(typed(" /ok "), Waiting([row()])) == ApprovalAnswer("q7", "digest of q7", "once")
    assert (
        answer_of(typed("/ok", begun_at=11.0, took=3.0), Waiting([row("q8", marked_at=11.1)])) == "too soon"
    )
    assert answer_of(typed("/ok", pasted=True), Waiting([row()])) == "pasted"
    assert answer_of(typed("/ok"), Waiting([])) is None, "the command says that nothing waits"


@pytest.mark.parametrize("line", ["/ok all", "/OK  all 10m", "/o all"])
def test_SEC_039_ok_all_says_no_yes_to_what_came_while_it_was_typed(line: str) -> None:
    seen, new, unseen = row("q1"), row("q2", marked_at=11.5), row("q3", marked_at=None)
    assert refusal_of(typed(line, took=3.0), Waiting([seen])) is None
    assert refusal_of(typed(line, took=3.0), Waiting([seen, new])) == "too soon"
    assert refusal_of(typed(line, took=3.0), Waiting([seen, unseen])) == "too soon"


@pytest.mark.parametrize("line", ["/OK", "/o", "/ok 10m", "/ok  1.5h"])
def test_SEC_039_no_spelling_of_ok_says_yes_to_what_came_while_it_was_typed(line: str) -> None:
    waited_as_second = row("q8", marked_at=11.1)
    waited_as_second.drawn_at = 9.0
    assert refusal_of(typed(line, took=3.0), Waiting([waited_as_second])) == "too soon"
    assert refusal_of(typed(line, took=3.0), Waiting([row("q7"), waited_as_second])) is None
    assert refusal_of(typed("/ok 8", took=3.0), Waiting([waited_as_second])) is None, (
        "what has a number was read"
    )


def test_SEC_040_a_pasted_command_answers_nothing_that_waits() -> None:
    commands = ("/ok 1", "/ok all", "/approve all", "/mode auto", "/trust yes")
    assert {refusal_of(typed(one, pasted=True), Waiting([row()])) for one in commands} == {"pasted"}
    assert {refusal_of(typed(one, took=0.001), Waiting([row()])) for one in commands} == {"pasted"}
    assert {refusal_of(typed(one, pasted=True), Waiting([])) for one in commands} == {None}
    others = ("/no 1 pasted words", "/status", "/", "/usr/bin/ok", "the /ok command", "")
    assert {refusal_of(typed(one, pasted=True), Waiting([row()])) for one in others} == {None}
