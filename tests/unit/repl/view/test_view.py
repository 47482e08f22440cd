"""Events folded into what is printed and what is live."""

from __future__ import annotations

import pytest

from buddy.agent import events as ev
from buddy.agent.display import Command, Plain
from buddy.agent.messages import Call, Text, UserMessage
from buddy.repl.render.style import UNICODE, Line, Look
from buddy.repl.render.text import line_cells, plain
from buddy.repl.screen.paint_queue import LazyPainter
from buddy.repl.view.blocks import (
    ApprovalAnswered,
    ApprovalAsked,
    Block,
    Markdown,
    NoteBlock,
    TaskHeading,
    Thought,
    ToolCall,
    TurnSummary,
    UserPrompt,
)
from buddy.repl.view.live import inbox_lines, live_lines, live_room, phase_text, queue_lines
from buddy.repl.view.state import NO_SESSION, QueueRow, SessionFacts, ViewState
from buddy.repl.view.view import focus, fold
from buddy.workspace.sandbox.status import NO_SANDBOX
from tests.support.events_for_tests import Tape

LOOK = Look("mono", UNICODE, ansi=False)


def folded(state: ViewState, *events: ev.TaskEvent) -> list[Block]:
    return [block for event in events for block in fold(state, event)]


def live(state: ViewState, now: float, rows: int = 24) -> list[str]:
    return [plain(line).rstrip() for line in live_lines(state, now, 60, live_room(rows), LOOK)]


def test_a_turn_is_printed_as_it_happens() -> None:
    state, tape = ViewState(), Tape()
    blocks = folded(state, tape.turn("fix it"), tape.reply(), tape.text("Looking.\n\nThe fi"))
    assert blocks == [UserPrompt("fix it", "prompt", 0, 0), Markdown("Looking.\n\n")]
    assert live(state, tape.at) == ["", "The fi", "● writing"]
    shown = Command("pytest", "ok", 0, "", 2.0)
    blocks = folded(
        state, tape.text("le."), tape.reply_done(), tape.tool(), tape.tool_done(display=shown), tape.done()
    )
    assert blocks == [
        Markdown("The file."),
        ToolCall(
            Call("c1", "run_shell", "{}"), "run_shell pytest -q", "high", "ok", "", shown, 2.0, False, 0
        ),
        TurnSummary("completed", "", 1, 1, 3.0, 0, 1, ""),
    ]
    assert live(state, tape.at) == []


def not_begun(tape: Tape, count: int, status: str) -> list[ev.TaskEvent]:
    """Calls whose turn never came."""
    calls = [f"n{at}" for at in range(count)]
    return [
        one
        for call in calls
        for one in (tape.tool(call, "run_shell", begun=False), tape.tool_done(call, status=status))
    ]


@pytest.mark.parametrize(
    ("count", "words"), [(997, "997 more calls were not begun"), (1, "1 more call was not begun")]
)
def test_calls_that_were_not_begun_share_a_line(count: int, words: str) -> None:
    state, tape = ViewState(), Tape()
    folded(state, tape.turn(), tape.reply(), tape.reply_done(), tape.tool())
    blocks = folded(
        state,
        tape.tool_done(status="cancelled"),
        *not_begun(tape, count, "cancelled"),
        tape.done("cancelled"),
    )
    assert [type(block) for block in blocks] == [ToolCall, NoteBlock, TurnSummary]
    assert blocks[1] == NoteBlock("hint", words)
    assert isinstance(blocks[2], TurnSummary)
    assert blocks[2].calls == 1


def test_calls_not_begun_for_new_instructions_stand_before_these() -> None:
    state, tape = ViewState(), Tape()
    folded(state, tape.turn(), tape.reply(), tape.reply_done())
    steered = tape.event(ev.SteeringAccepted(UserMessage("u2", (Text("no"),), "steer")))
    blocks = folded(state, *not_begun(tape, 2, "skipped"), steered, tape.done())
    assert blocks[:2] == [NoteBlock("hint", "2 calls were not begun"), UserPrompt("no", "steer", 0, 0)]
    assert len(blocks) == 3


def test_phases_say_what_is_really_happening() -> None:
    state, tape = ViewState(), Tape()

    def phase(after: float) -> str:
        return phase_text(state, state.task(1), tape.at + after)

    folded(state, tape.turn(), tape.reply())
    assert phase(4.2) == "waiting for the model 4 s"
    folded(state, tape.thinking("x" * 76), tape.thinking("y" * 76, after=1.0))
    assert phase(0) == "thinking 38 tok/s"
    assert phase(20) == "thinking 21 s, no bytes for 20 s"
    folded(state, tape.text("so"))
    assert phase(1) == "writing"
    assert phase(75) == "writing, no bytes for 1 m"
    folded(
        state, tape.event(ev.ToolCallDelta("r1", "c1", "write_file", '{"path": "a.py", "text": "one\\ntwo'))
    )
    assert phase(0) == "writing a.py, 2 lines"
    assert live(state, tape.at)[1:] == ["  one", "  two"]
    folded(state, tape.reply_done(), tape.tool(title="pytest"))
    folded(state, tape.event(ev.ToolProgress("c1", "collected 3\ntest_a ok\n")))
    assert phase(12) == "running pytest 12 s (test_a ok)"
    folded(state, tape.tool("c2", "grep"))
    assert phase(3) == "running 2 tools 3 s"
    folded(state, tape.asked())
    assert phase(61) == "waiting for you 1 m"
    folded(state, tape.tool_done("c2"))
    tape.at += 60
    folded(state, tape.event(ev.ApprovalResolved("q1", "once", "you")))
    assert phase(3).startswith("running pytest 3 s")
    folded(state, tape.tool_done())
    folded(state, tape.event(ev.RetryScheduled(1, 5, 5.0, "rate_limit", "too many requests")))
    assert phase(0.5) == "retrying in 5 s · 1 of 5 (429 rate limit)"
    refused = "127.0.0.1:9 refuses connections; is the server up, is base_url right?"
    folded(state, tape.event(ev.RetryScheduled(1, 5, 5.0, "server", refused)))
    assert phase(0.5) == "retrying in 5 s · 1 of 5 (127.0.0.1:9 refuses connections)"
    folded(state, tape.event(ev.RetryScheduled(0, 5, 5.0, "overloaded", "another one was refused")))
    assert phase(0.5) == "waiting 5 s for the end of the overload; /retry now asks at once"
    assert phase(12) == "waiting for the model 7 s"
    broken = "openai answered 502 (server error): a web page came instead of an answer"
    folded(state, tape.event(ev.RetryScheduled(2, 5, 5.0, "server", broken)))
    assert phase(0.5) == "retrying in 5 s · 2 of 5 (openai answered 502)"
    folded(state, tape.done())
    assert phase(0) == "idle"


def test_thinking_is_live_while_it_comes_and_one_line_afterwards() -> None:
    state, tape = ViewState(), Tape()
    folded(state, tape.turn(), tape.reply(), tape.thinking("I should\nlook"))
    assert live(state, tape.at)[1:] == ["  I should", "  look"]
    assert folded(state, tape.text("Yes.", after=3.0)) == [Thought("I should\nlook", 3.0)]
    assert folded(state, tape.reply_done()) == [Markdown("Yes.")]


def test_text_of_another_block_begins_a_new_paragraph() -> None:
    state, tape = ViewState(), Tape()
    blocks = folded(
        state, tape.turn(), tape.reply(), tape.text("one", 0), tape.text("two", 2), tape.reply_done()
    )
    assert blocks[1:] == [Markdown("one"), Markdown("two")]


def test_steering_and_notices_come_after_the_text_before_them() -> None:
    state, tape = ViewState(), Tape()
    folded(state, tape.turn(), tape.reply(), tape.text("half"))
    message = UserMessage("u2", (Text("stop"),), "steer")
    assert folded(state, tape.event(ev.SteeringAccepted(message))) == [
        Markdown("half"),
        UserPrompt("stop", "steer", 0, 0),
    ]
    instructions = UserMessage("u3", (Text("# AGENTS.md\nuse tabs"),), "instructions")
    assert folded(state, tape.event(ev.SteeringAccepted(instructions))) == [
        NoteBlock("hint", "instructions added: # AGENTS.md use tabs")
    ]
    assert folded(state, tape.event(ev.Notice("warning", "low disk"))) == [NoteBlock("warning", "low disk")]
    assert folded(state, tape.event(ev.ContextCompacted(9000, 3000, 4, 9))) == [
        NoteBlock("info", "context compacted: 9.0k to 3.0k tokens, 9 messages shortened")
    ]


@pytest.mark.parametrize(
    ("finish", "text"),
    [
        ("cut", "the answer broke off here"),
        ("filter", "the provider's content filter ended the answer"),
    ],
)
def test_an_answer_that_did_not_end_by_itself_says_so(finish: str, text: str) -> None:
    state, tape = ViewState(), Tape()
    blocks = folded(state, tape.turn(), tape.reply(), tape.text("part"), tape.reply_done(finish=finish))
    assert blocks[1:] == [Markdown("part"), NoteBlock("warning", text)]


def test_a_background_task_is_live_and_prints_only_its_end() -> None:
    state, front, back = ViewState(), Tape(1), Tape(2)
    state.facts = SessionFacts(1, "ask", "m", NO_SANDBOX, (), {2: "tests"})
    folded(state, front.turn(), front.reply(), front.text("front"))
    assert (
        folded(state, back.turn("write tests"), back.reply(), back.text("First.\n\nSec"), back.tool()) == []
    )
    assert live(state, 100.0) == ["", "front", "● 1 · writing", "● 2 tests · running run_shell pytest -q 0 s"]
    assert (
        folded(
            state, back.tool_done(), back.reply(), back.text("All\n\ngreen."), back.reply_done(), back.done()
        )
        == []
    )
    assert live(state, 100.0) == ["", "front", "● 1 · writing"]
    assert folded(state, front.reply_done()) == [
        Markdown("front"),
        TaskHeading(2, "tests"),
        Markdown("All\n\n"),
        Markdown("green."),
        TurnSummary("completed", "", 1, 1, 3.0, 0, 2, "tests"),
    ]


def test_a_task_that_comes_to_the_front_brings_what_it_did() -> None:
    state, back = ViewState(), Tape(2)
    state.task(1)
    folded(state, back.turn("tests"), back.reply(), back.text("First.\n\nSec"))
    facts = SessionFacts(2, "ask", "m", NO_SANDBOX, (), {2: "tests"})
    assert focus(state, facts) == [
        TaskHeading(2, "tests"),
        UserPrompt("tests", "prompt", 0, 2),
        Markdown("First.\n\n"),
    ]
    assert focus(state, facts) == []
    assert folded(state, back.text("ond.\n\n")) == [Markdown("Second.\n\n")]


def test_SEC_041_two_requests_stand_in_two_rows_that_name_their_tasks() -> None:
    state, one, two = ViewState(), Tape(1), Tape(2)
    folded(state, one.turn(), two.turn(), one.tool("c1", "git push"), two.tool("c2", "rm x"))
    assert folded(state, one.asked("q1", "c1")) == [
        ApprovalAsked("q1", 1, 1, "git push", "high", "it pushes", Command("git push", "", None, "", 0.0))
    ]
    assert len(folded(state, two.asked("q2", "c2"))) == 1
    lines = [plain(line).rstrip() for line in inbox_lines(state, 112.0, 70, LOOK)]
    assert lines == [
        "▸ request 1 (task 1) high git push · 12 s",
        "  run this?  y yes · a this session · p always: git push *",
        "  n no (n WORDS says why)",
        "  request 2 (task 2) high rm x · 12 s",
    ]
    narrow = [plain(line).rstrip() for line in inbox_lines(state, 112.0, 56, LOOK)]
    assert narrow[1:3] == [
        "  run this?  y yes · a this session",
        "  p always: git push * · n no (n WORDS says why)",
    ]
    assert folded(state, one.event(ev.ApprovalResolved("q1", "denied", "you"))) == [
        ApprovalAnswered("git push", 1, "denied", "you")
    ]
    assert [row.request_id for row in state.inbox] == ["q2"]


def test_a_request_is_withdrawn_when_its_turn_ends() -> None:
    state, tape = ViewState(), Tape()
    folded(state, tape.turn(), tape.tool(), tape.asked(), tape.done("cancelled", "you cancelled"))
    assert state.inbox == []
    assert folded(state, tape.event(ev.ApprovalResolved("q1", "withdrawn", "turn ended"))) == []


def test_a_long_command_is_shown_with_its_length_and_says_where_the_rest_is() -> None:
    state, tape = ViewState(), Tape()
    folded(state, tape.turn(), tape.tool(title="echo " + "word " * 200), tape.asked())
    text = "\n".join(plain(line) for line in inbox_lines(state, tape.at, 60, LOOK))
    assert "more lines above in the scrollback" in text
    assert len(text.split("\n")) <= 10


def test_the_live_region_stays_within_its_rows_and_columns() -> None:
    state = ViewState()
    for number in range(1, 9):
        tape = Tape(number)
        folded(state, tape.turn(), tape.reply(), tape.text("漢字 words " * 100))
    for rows in (3, 9, 24, 60):
        lines = live_lines(state, 100.0, 50, live_room(rows), LOOK)
        assert len(lines) <= max(rows // 2, 1)
        assert max(map(line_cells, lines)) <= 49
    assert [plain(line) for line in live_lines(state, 100.0, 50, 3, LOOK)][-1] == "and 6 more running tasks"


def test_queued_text_is_listed() -> None:
    state = ViewState()
    rows = tuple(QueueRow("queue", 1, f"do {n}\nand more") for n in range(6))
    state.facts = SessionFacts(1, "ask", "m", NO_SANDBOX, (QueueRow("steer", 2, "stop"), *rows), {})
    assert [plain(line) for line in queue_lines(state, 60, LOOK)] == [
        "→ next @2: stop",
        "→ queued: do 0 and more",
        "→ queued: do 1 and more",
        "→ queued: do 2 and more",
        "  and 3 more",
    ]
    notes = (QueueRow("note", 2, "task 2's answer (count the files of it all)"), QueueRow("note", 1, "! ls"))
    for shown, lines in (
        (
            notes,
            [
                "→ goes with your next prompt: task 2's answer (count the fi…",
                "prompt: ! ls (Backspace drops it)",
            ],
        ),
        (notes[:1], ["→ goes with your next prompt: task 2's… (Backspace drops it)"]),
    ):
        state.facts = SessionFacts(1, "ask", "m", NO_SANDBOX, shown, {})
        drawn = [plain(line) for line in queue_lines(state, 61, LOOK)]
        assert all(line.endswith(end) for line, end in zip(drawn, lines, strict=True)), drawn
    state.facts = NO_SESSION
    assert queue_lines(state, 60, LOOK) == []


def test_events_of_unknown_calls_change_nothing() -> None:
    state, tape = ViewState(), Tape()
    assert (
        folded(state, tape.turn(), tape.tool_done("nobody"), tape.event(ev.ToolProgress("nobody", "x")))[1:]
        == []
    )
    assert folded(state, tape.event(ev.ApprovalResolved("nobody", "once", "you"))) == []
    assert folded(state, tape.tool(), tape.tool_done(display=Plain("x")))[0] == state.folded[-1]


TWENTY = "\n".join(f"word {n} " + "and more of it " * 3 for n in range(20))


def test_RU_A8_the_answer_takes_the_room_there_is_while_it_is_written() -> None:
    state, tape = ViewState(), Tape()
    folded(state, tape.turn(), tape.reply(), tape.text(TWENTY))
    lines = live(state, tape.at, rows=60)
    assert [line.split(" and")[0] for line in lines] == ["", *(f"word {n}" for n in range(20)), "● writing"]


def test_RU_A8_what_is_longer_than_half_the_screen_is_turned_over_like_a_page() -> None:
    state, tape = ViewState(), Tape()
    folded(state, tape.turn(), tape.reply())
    seen: list[list[str]] = []
    for line in TWENTY.split("\n"):
        folded(state, tape.text(line))
        seen.append(live(state, tape.at, rows=22))
        folded(state, tape.text("\n"))
    assert all(len(lines) <= 11 for lines in seen)
    assert all(any(line.startswith(f"word {n}") for line in lines) for n, lines in enumerate(seen))
    tops = [lines[0] for lines in seen]
    assert len(set(tops)) == 4  # three pages were turned, and no line moved in between
    heights = [len(lines) for lines in seen]
    assert heights == sorted(heights)


def test_RU_A8_a_paragraph_without_end_costs_no_more_than_its_end() -> None:
    state, tape = ViewState(), Tape()
    folded(state, tape.turn(), tape.reply(), tape.text("word " * 200_000))
    wrapped: list[int] = []

    def prose(block: Markdown, width: int) -> list[Line]:
        wrapped.append(len(block.text))
        return [[("", block.text)]]

    lines = live_lines(state, tape.at, 100, 20, LOOK, prose=prose)
    assert wrapped == []
    assert len(lines) == 20


def test_RU_A8_the_open_block_is_drawn_as_it_will_be_printed() -> None:
    painter = LazyPainter(LOOK)
    painter.warm()
    for text in (
        "some **bold** and `code` words",
        "- an *item*",
        "| a | b |\n|---|--:|\n| 1 | 2 |",
        "## Title",
    ):
        state, tape = ViewState(), Tape()
        folded(state, tape.turn(), tape.reply(), tape.text(text))
        lines = live_lines(state, tape.at, 60, 20, LOOK, prose=painter.prose)
        (block,) = folded(state, tape.reply_done())
        assert "\n".join(plain(line).rstrip() for line in lines[1:-1]) + "\n" == painter(block, 60)


def test_RU_A8_code_is_readable_before_its_fence_is_closed() -> None:
    painter = LazyPainter(LOOK)
    painter.warm()
    state, tape = ViewState(), Tape()
    folded(state, tape.turn(), tape.reply(), tape.text("```python\n" + "x = 1\n" * 30 + "def f(): ret"))
    lines = live_lines(state, tape.at, 60, 20, LOOK, prose=painter.prose)
    assert [plain(line) for line in lines] == [*["▎ x = 1"] * 6, "▎ def f(): ret", "● writing"]


def test_RU_A10_an_answer_in_front_is_not_broken_by_one_of_the_background() -> None:
    state, front, back = ViewState(), Tape(1), Tape(2)
    state.facts = SessionFacts(1, "ask", "m", NO_SANDBOX, (), {1: "story", 2: "tests"})
    folded(state, front.turn(), front.reply(), front.text("- one\n- two\n"), back.turn(), back.reply())
    assert folded(state, back.text("Green."), back.reply_done(), back.done()) == []
    assert all(isinstance(block, Markdown) for block in folded(state, front.text("- three\n")))
    blocks = folded(state, front.reply_done(), front.done())
    assert [type(block).__name__ for block in blocks] == [
        "Markdown", "TaskHeading", "Markdown", "TurnSummary", "TurnSummary",
    ]  # fmt: skip
    assert blocks[1] == TaskHeading(2, "tests")


def test_RU_A10_without_an_answer_in_front_it_is_printed_at_once() -> None:
    state, front, back = ViewState(), Tape(1), Tape(2)
    folded(state, front.turn(), front.reply(), front.tool(), back.turn(), back.reply(), back.text("Green."))
    blocks = folded(state, back.reply_done(), back.done())
    assert [type(block).__name__ for block in blocks] == ["TaskHeading", "Markdown", "TurnSummary"]


def test_RU_A10_a_task_that_comes_to_the_front_brings_what_waited() -> None:
    state, front, back = ViewState(), Tape(1), Tape(2)
    folded(
        state, front.turn(), front.reply(), front.text("Once"), back.turn(), back.reply(), back.text("Green.")
    )
    assert folded(state, back.reply_done(), back.done()) == []
    blocks = focus(state, SessionFacts(2, "ask", "m", NO_SANDBOX, (), {}))
    assert [type(block).__name__ for block in blocks] == [
        "TaskHeading",
        "Markdown",
        "TurnSummary",
        "TaskHeading",
    ]
    assert folded(state, front.text(" upon a time.\n\n"), front.reply_done()) == []


def test_RU_a_budget_that_stops_a_turn_says_how_to_raise_it() -> None:
    state, tape = ViewState(), Tape()
    stop = "the next request could cost $0.09, $0.001 of the budget is left"
    blocks = folded(state, tape.turn(), tape.event(ev.TurnFinished("limit", stop, "budget", 1, 1.0)))
    (summary,) = (block for block in blocks if isinstance(block, TurnSummary))
    assert summary.reason == f"{stop}; /budget raises it"


def test_RU_A16_a_library_that_is_loaded_is_named() -> None:
    state, tape = ViewState(), Tape()
    folded(state, tape.turn(), tape.event(ev.ReplyStarted("r1", "m")))
    folded(state, tape.event(ev.LibraryLoading("litellm", loaded=False)))
    assert phase_text(state, state.task(1), tape.at + 2) == "loading litellm 2 s"
    folded(state, tape.event(ev.LibraryLoading("litellm", loaded=True)))
    assert phase_text(state, state.task(1), tape.at + 2) == "waiting for the model 2 s"
