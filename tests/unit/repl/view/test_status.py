"""The footer: what is shortened and what goes when the terminal is narrow."""

from __future__ import annotations

from itertools import product

import pytest

from buddy.agent import events as ev
from buddy.agent.messages import Usage
from buddy.repl.render.style import ASCII, UNICODE, Look
from buddy.repl.render.text import line_cells, plain
from buddy.repl.view.blocks import NoteBlock
from buddy.repl.view.state import QueueRow, SessionFacts, ViewState
from buddy.repl.view.status import footer_line
from buddy.repl.view.view import fold
from buddy.workspace.sandbox.status import SandboxStatus
from tests.support.events_for_tests import Tape

LOOK = Look("mono", UNICODE, ansi=False)
LONG = "openrouter/anthropic/claude-sonnet-4.5-20250929"


def usage(cost_usd: float = 0.1234, *, known: bool = True) -> ev.TokenUsage:
    total = Usage(12_000, 345, 0, 0, 0, estimated=False)
    return ev.TokenUsage(total, total, 50_000, 100_000, cost_usd, cost_known=known)


def facts_of(
    model: str = "openai/gpt-5.2",
    *,
    used: ev.TokenUsage | None = None,
    extra: tuple[str, ...] = (),
    untrusted: bool = False,
    questions: int = 0,
) -> ViewState:
    state = ViewState()
    rows = tuple(QueueRow("question", 1, "Which?") for _ in range(questions))
    shown = used or usage()
    state.facts = SessionFacts(
        1, "ask", model, SandboxStatus(0, "for this test"), rows, {}, extra, usage=shown, untrusted=untrusted
    )
    return state


def busy(state: ViewState) -> ViewState:
    """With a task that runs and another one whose request waits."""
    tape, other = Tape(), Tape(2)
    for event in (tape.turn(), tape.tool(), tape.asked(), other.turn()):
        fold(state, event)
    return state


def at(state: ViewState, columns: int, look: Look = LOOK, *, beside: bool = False) -> str:
    line = footer_line(state, columns, look, beside=beside)
    assert line_cells(line) < columns
    return plain(line)


def test_names_and_words_are_shortened_before_anything_goes_and_what_is_listed_first_stays_longest() -> None:
    state = busy(facts_of())
    assert [at(state, columns) for columns in (120, 106, 90, 80, 70, 60, 50, 40, 30, 20)] == [
        "1 approval waiting · ask · openai/gpt-5.2 · 50% context · 12.3k tokens · $0.12 "
        "· 1 task running · no sandbox · ? keys",
        "1 approval waiting · ask · gpt-5.2 · 50% context · 12.3k tokens · $0.12 · 1 tas"
        "k running · no sandbox",
        "1 to approve · ask · gpt-5.2 · 50% ctx · 12.3k tok · $0.12 · 1 running · no sbx · ? keys",
        "1 to approve · ask · gpt-5.2 · 50% ctx · 12.3k tok · $0.12 · 1 running · no sbx",
        "1 to approve · ask · gpt-5.2 · 50% ctx · 12.3k tok · $0.12 · no sbx",
        "1 to approve · ask · gpt-5.2 · 50% ctx · $0.12 · no sbx",
        "1 to approve · ask · gpt-5.2 · 50% ctx · no sbx",
        "1 to approve · ask · gpt-5.2 · no sbx",
        "1 to approve · ask · gpt-5.2",
        "1 to approve · ask",
    ]


@pytest.mark.parametrize("look", [LOOK, Look("mono", ASCII, ansi=False)], ids=["unicode", "ascii"])
@pytest.mark.parametrize("model", ["m", "openai/gpt-5.2", LONG, "x" * 200, "漢" * 50], ids=range(5))
def test_mode_model_context_tokens_and_cost_are_there_at_80_columns_whatever_else_is_to_be_said(
    look: Look, model: str
) -> None:
    extras = ((), ("approvals: all",), ("NOT SAVED: No space left on device",))
    money = (usage(), usage(0.0123), usage(0, known=False))
    for extra, used, untrusted, questions in product(extras, money, (False, True), (0, 12)):
        given = busy(facts_of(model, used=used, extra=extra, untrusted=untrusted, questions=questions))
        said = at(given, 80, look).split(f" {look.glyphs.dot} ")
        assert said[1] == "ask", said
        assert said[2].startswith(model.rpartition("/")[2][:9].replace("漢" * 9, "漢" * 4)), said
        assert said[3].startswith("50% c"), said
        assert extra or said[4].startswith("12.3k tok"), said
        assert extra or said[5] in ("$0.12", "$0.0123", "no price"), said
        assert set(said) & {"no sandbox", "no sbx"}, said


def test_a_task_that_waits_for_an_answer_is_not_counted_as_running_too() -> None:
    state, tape = facts_of(), Tape()
    for event in (tape.turn(), tape.tool()):
        fold(state, event)
    assert " · 1 task running · " in at(state, 120)
    fold(state, tape.asked())
    assert at(state, 120).startswith("1 approval waiting · ask · ")
    assert "running" not in at(state, 120)


def test_a_folder_that_is_not_trusted_takes_no_number_away_at_80_columns() -> None:
    assert at(facts_of(untrusted=True), 80) == (
        "ask · gpt-5.2 · 50% ctx · 12.3k tok · $0.12 · no sbx · not trusted · ? keys"
    )
    assert at(facts_of(untrusted=True), 120).endswith(" · no sandbox · not trusted: /trust · ? keys")


def test_a_long_name_of_a_model_is_cut_from_its_maker_on_and_never_in_front_of_its_beginning() -> None:
    assert at(facts_of(LONG), 110).startswith("ask · openrouter/anthropic/claude-sonnet-4.5-…")
    assert at(facts_of(LONG), 90) == (
        "ask · claude-sonnet-4.5-20250929 · 50% context · 12.3k tokens · $0.12 · no sandbox"
    )
    assert at(facts_of(LONG), 80) == (
        "ask · claude-sonnet-4.5-2… · 50% context · 12.3k tokens · $0.12 · no sandbox"
    )


def test_a_name_that_has_to_be_cut_takes_all_the_room_there_is() -> None:
    state = busy(facts_of(LONG, untrusted=True))
    assert at(state, 80) == "1 waiting · ask · claude-so… · 50% ctx · 12.3k tok · $0.12 · 1 running · no sbx"
    assert at(state, 76) == "1 waiting · ask · claude-sonnet-4.5… · 50% ctx · 12.3k tok · $0.12 · no sbx"


def test_what_is_not_saved_stays_and_its_reason_goes_first() -> None:
    state = facts_of(extra=("NOT SAVED: No space left on device", "approvals: all"))
    assert at(state, 80) == "ask · gpt-5.2 · 50% ctx · $0.12 · no sbx · NOT SAVED · approvals: all · ? keys"
    assert at(state, 30) == "NOT SAVED · approvals: all"


def test_a_cost_without_a_known_price_is_no_amount() -> None:
    assert " · no price · " in at(facts_of(used=usage(0, known=False)), 120)
    assert " · $0.12+ · " in at(facts_of(used=usage(0.12, known=False)), 120)


def test_the_numbers_can_be_turned_off_but_for_the_context() -> None:
    quiet = Look("mono", UNICODE, ansi=False, numbers=False)
    assert at(facts_of(), 100, quiet) == "ask · openai/gpt-5.2 · 50% context · no sandbox · ? keys"


def test_RU_A11_no_sandbox_is_no_alarm_and_is_there_in_forty_columns() -> None:
    for columns in (40, 80, 120):
        line = footer_line(busy(facts_of()), columns, LOOK)
        assert [style for style, text in line if text in ("no sandbox", "no sbx")] == ["muted"]


def test_RU_A11_the_first_approval_says_in_words_that_there_is_no_sandbox() -> None:
    state, tape = facts_of(), Tape()
    said = [
        block.text
        for number in range(3)
        for event in (tape.tool(f"c{number}"), tape.asked(f"q{number}", f"c{number}"))
        for block in fold(state, event)
        if isinstance(block, NoteBlock)
    ]
    assert said == ["There is no sandbox here: what you approve runs with all your permissions."]
    state.facts = SessionFacts(1, "ask", "m", SandboxStatus(3), (), {})
    state.warned_of_sandbox = False
    assert not any(
        isinstance(block, NoteBlock)
        for block in [*fold(state, tape.tool("d")), *fold(state, tape.asked("r", "d"))]
    )


def test_the_footer_names_the_branch_and_the_way_to_the_keys_where_there_is_room() -> None:
    state = ViewState()
    state.facts = SessionFacts(1, "ask", "openai/gpt-5.2", SandboxStatus(3), (), {}, branch="main*")
    assert at(state, 80) == "ask · openai/gpt-5.2 · main* · sandboxed · ? keys"
    assert at(state, 44) == "ask · openai/gpt-5.2 · main* · sandboxed"
    assert at(state, 30) == "ask · openai/gpt-5.2 · main*"


def test_the_machine_a_task_works_on_stays_however_narrow_it_gets() -> None:
    state = ViewState()
    state.facts = SessionFacts(
        1, "ask", "openai/gpt-5.2", SandboxStatus(3), (), {}, branch="main*", target="build1 (lost)"
    )
    assert at(state, 80).startswith("ask · on build1 (lost) · openai/gpt-5.2 · ")
    assert "main*" not in at(state, 80)
    assert "sandbox" not in at(state, 80)
    assert "on build1 (lost)" in at(state, 24)
