"""Calls, tables and headings as a person reads them: short where they look, whole where they went wrong."""

from __future__ import annotations

import pytest

from buddy.agent import events as ev
from buddy.agent.display import Command, Display, FileList, Plain
from buddy.agent.messages import AssistantMessage, Call, Message, Text, ToolMessage
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import ASCII, THEMES, UNICODE, Look, choose_look
from buddy.repl.view.blocks import Block, Expanded, Lookups, Markdown, TableBlock, ToolCall, TurnSummary
from buddy.repl.view.replay import blocks_of
from buddy.repl.view.state import ViewState
from buddy.repl.view.view import fold
from tests.support.events_for_tests import Tape

PLAIN = Painter(Look("mono", UNICODE, ansi=False))
COLOR = Painter(Look("dark", UNICODE, ansi=True))
NUMBERED = "\n".join(f"row {n}" for n in range(1, 21))


def drawn(block: Block, columns: int = 60, painter: Painter = PLAIN) -> list[str]:
    return painter.ansi(block, columns).split("\n")[:-1]


def call(
    display: Display, *, name: str = "run_shell", title: str = "run_shell x", status: str = "ok"
) -> ToolCall:
    return ToolCall(Call("c", name, "{}"), title, "low", status, "", display, 0.2, cached=False, task_id=0)


def started(tape: Tape, call_id: str, name: str, about: str) -> ev.TaskEvent:
    return tape.event(ev.ToolStarted(Call(call_id, name, "{}"), "low", f"{name} {about}", begun=True))


def ended(tape: Tape, call_id: str, display: Display, status: str = "ok") -> ev.TaskEvent:
    return tape.event(ev.ToolFinished(call_id, status, "no such file", display, 0.1, cached=False))


def page(path: str, lines: int = 9) -> Plain:
    return Plain(f"{path}: lines 1–{lines} of {lines}", "\n".join("x" * lines))


def printed(*events: ev.TaskEvent) -> list[str]:
    state = ViewState()
    return [line for event in events for block in fold(state, event) for line in drawn(block)]


def test_RU_A2_a_failing_command_shows_its_exit_code_and_its_last_lines() -> None:
    block = call(Command("x", NUMBERED + "\nls: no such file", 2, "", 0.1), status="error")
    assert drawn(block) == [
        "✗ run_shell x · exit 2",
        "│ … 15 more lines (Ctrl+O)",
        *(f"│ row {n}" for n in range(16, 21)),
        "│ ls: no such file",
    ]


def test_RU_A2_a_command_that_went_well_shows_its_first_and_last_lines() -> None:
    block = call(Command("x", NUMBERED, 0, "", 0.1))
    assert drawn(block) == [
        "✓ run_shell x",
        "│ row 1",
        "│ row 2",
        "│ … 14 more lines (Ctrl+O)",
        *(f"│ row {n}" for n in range(17, 21)),
    ]


def test_RU_A2_the_persons_own_command_is_never_folded() -> None:
    one = call(Command("x", NUMBERED, 0, "", 0.1), name="shell", title="! x")
    own = ToolCall(**{name: getattr(one, name) for name in one.__struct_fields__} | {"is_own": True})
    assert drawn(own)[1:] == [f"│ row {n}" for n in range(1, 21)]
    assert not PLAIN.is_folded(own, 60)


def test_RU_B18_a_terminal_without_keys_names_the_command_that_unfolds() -> None:
    painter = Painter(Look("mono", ASCII, ansi=False, unfold="/more"))
    assert any(
        "14 more lines (/more)" in line
        for line in drawn(call(Command("x", NUMBERED, 0, "", 0.1)), 60, painter)
    )


@pytest.mark.parametrize(
    ("name", "about", "display", "line"),
    [
        ("read_file", "main.py", page("main.py"), "read main.py · 9 lines"),
        ("read_file", "main.py", page("main.py", 1), "read main.py · 1 line"),
        ("list_files", "src", FileList("src: 2 entries", ("a", "b"), 2), "list src · 2 entries"),
        ("find_files", "*.py", FileList("3 files", ("a", "b", "c"), 3), "find *.py · 3 files"),
        (
            "grep",
            "TODO",
            Plain("2 matches in 1 file", "a:1: TODO\na:2: TODO"),
            "search TODO · 2 matches in 1 file",
        ),
    ],
)
def test_RU_A4_a_lookup_is_one_line(name: str, about: str, display: Display, line: str) -> None:
    block = call(display, name=name, title=f"{name} {about}")
    assert drawn(block) == [line]
    assert len(drawn(Expanded(block))) > 1 or "1 line" in line


def test_RU_A4_lookups_of_one_reply_are_one_line_in_the_order_of_the_calls() -> None:
    tape = Tape()
    names = [f"f{n}.py" for n in range(6)]
    begun = [started(tape, name, "read_file", name) for name in names]
    done = [ended(tape, name, page(name)) for name in reversed(names)]
    assert printed(*begun, *done, tape.reply()) == ["read 6 files · f0.py, f1.py, f2.py, f3.py, f4.py, f5.py"]


def test_RU_A4_lookups_that_run_one_after_the_other_are_one_line_too() -> None:
    tape = Tape()
    lines = printed(
        started(tape, "a", "read_file", "a.py"),
        ended(tape, "a", page("a.py")),
        started(tape, "b", "read_file", "b.py"),
        ended(tape, "b", page("b.py")),
        started(tape, "c", "grep", "TODO"),
        ended(tape, "c", Plain("1 match in 1 file", "a:1: TODO")),
        tape.text("Done."),
    )
    assert lines == ["read 2 files · a.py, b.py", "search TODO · 1 match in 1 file"]


def test_RU_A4_lookups_of_two_replies_are_two_lines() -> None:
    tape = Tape()
    lines = printed(
        *(started(tape, "a", "read_file", "a.py"), ended(tape, "a", page("a.py")), tape.reply()),
        *(started(tape, "b", "read_file", "b.py"), ended(tape, "b", page("b.py")), tape.done()),
    )
    assert lines == ["read a.py · 9 lines", "read b.py · 9 lines", "done · 3 s · 2 calls"]


def test_RU_A4_a_lookup_that_failed_says_why_on_its_own() -> None:
    tape = Tape()
    lines = printed(
        *(started(tape, name, "read_file", name) for name in "abc"),
        *(ended(tape, "b", Plain(""), "error"), ended(tape, "c", page("c")), ended(tape, "a", page("a"))),
        tape.reply(),
    )
    assert lines == ["read a · 9 lines", "✗ read_file b · error", "│ no such file", "read c · 9 lines"]


def test_RU_A4_a_command_after_lookups_is_printed_behind_them() -> None:
    tape = Tape()
    lines = printed(
        *(started(tape, "a", "read_file", "a"), started(tape, "b", "run_shell", "make")),
        *(ended(tape, "b", Command("make", "ok", 0, "", 0.1)), ended(tape, "a", page("a"))),
    )
    assert lines == ["read a · 9 lines", "✓ run_shell make", "│ ok"]


def test_RU_A4_a_call_id_that_comes_twice_hides_nothing() -> None:
    tape = Tape()
    lines = printed(
        *(started(tape, "x", "run_shell", "one"), started(tape, "x", "run_shell", "two")),
        ended(tape, "x", Command("two", "ok", 0, "", 0.1)),
        *(started(tape, "y", "run_shell", "three"), ended(tape, "y", Command("three", "ok", 0, "", 0.1))),
    )
    assert [line for line in lines if "run_shell" in line] == ["✓ run_shell two", "✓ run_shell three"]


def test_RU_A4_unfolded_lookups_show_each_call() -> None:
    reads = tuple(call(page(name, 2), name="read_file", title=f"read_file {name}") for name in ("a", "b"))
    assert drawn(Expanded(Lookups(reads)))[::3] == [
        "✓ read_file a · a: lines 1–2 of 2",
        "✓ read_file b · b: lines 1–2 of 2",
    ]
    assert PLAIN.is_folded(Lookups(reads), 60)


def test_RU_A4_a_resumed_conversation_has_its_lookups_in_one_line() -> None:
    asked = tuple(Call(f"c{n}", "read_file", f'{{"path": "f{n}.py"}}') for n in range(3))
    history: list[Message] = [
        AssistantMessage("r", (Text("I look."), *asked), "m", "chat", "calls", None),
        *(ToolMessage(f"t{n}", f"c{n}", "read_file", "1 x\n[f: lines 1–1 of 1]", "ok") for n in range(3)),
    ]
    assert [line for block in blocks_of(history, 0) for line in drawn(block)] == [
        "I look.",
        "read 3 files · f0.py, f1.py, f2.py",
    ]


@pytest.mark.parametrize(
    ("refused", "failed", "line"),
    [
        (0, 0, "done · 3 s · 2 calls"),
        (1, 0, "done · 3 s · 2 calls, 1 refused"),
        (0, 2, "done · 3 s · 2 calls, 2 failed"),
        (1, 1, "done · 3 s · 2 calls, 1 refused, 1 failed"),
    ],
)
def test_RU_B4_the_end_of_a_turn_counts_refused_and_failed_calls(
    refused: int, failed: int, line: str
) -> None:
    block = TurnSummary("completed", "", 1, 2, 3.0, 0, 1, "", refused, failed)
    assert drawn(block) == [line]
    (coloured,) = drawn(block, 60, COLOR)
    assert coloured.startswith("\x1b[2mdone")  # the colour of an alarm is for what went wrong alone
    assert ("\x1b[0;31m, 1 refused" in coloured) == bool(refused)
    assert (f"33m, {failed} failed" in coloured) == bool(failed)


def test_RU_B4_the_view_counts_how_calls_ended() -> None:
    tape = Tape()
    lines = printed(
        *(tape.turn(), tape.tool("a"), tape.tool("b"), tape.tool("c")),
        *(tape.tool_done("a", status="denied"), tape.tool_done("b", status="error"), tape.tool_done("c")),
        tape.done(),
    )
    assert lines[-1] == "done · 3 s · 3 calls, 1 refused, 1 failed"
    again = printed(tape.turn(), tape.tool("d"), tape.tool_done("d"), tape.done())
    assert again[-1] == "done · 3 s · 1 call"


def test_RU_5_6_one_token_is_one_token() -> None:
    assert drawn(TurnSummary("completed", "", 1, 0, 3.0, 1, 1, "")) == ["done · 3 s · 1 token"]
    assert drawn(TurnSummary("completed", "", 1, 0, 3.0, 1200, 1, "")) == ["done · 3 s · 1.2k tokens"]


WIDE = """| id | created | updated | owner | state |
|----|---------|---------|-------|-------|
| 1 | 2026-01-04 | 2026-02-04 | person-number-one | open |
| 2 | 2026-01-05 | 2026-02-05 | person-number-two | |
"""


def test_RU_B11_a_table_without_room_becomes_labelled_records() -> None:
    assert drawn(Markdown(WIDE), 36) == [
        "id: 1",
        "created: 2026-01-04",
        "updated: 2026-02-04",
        "owner: person-number-one",
        "state: open",
        "─" * 24,
        "id: 2",
        "created: 2026-01-05",
        "updated: 2026-02-05",
        "owner: person-number-two",
    ]


def test_RU_5_18_columns_stand_as_the_table_marks_them() -> None:
    source = "| name | size | mark |\n|:--|--:|:-:|\n| a | 1 | x |\n| long | 1000 | yyyyy |\n"
    assert drawn(Markdown(source)) == [
        "name │ size │ mark",
        "─────┼──────┼──────",
        "a    │    1 │   x",
        "long │ 1000 │ yyyyy",
    ]


def test_RU_5_18_numbers_of_buddys_own_tables_stand_right() -> None:
    table = TableBlock(
        ("model", "tokens", "cost"), (("a", "950", "$0.10"), ("b", "12.3k", ""), ("c", "1,200", "$12.00"))
    )
    assert drawn(table) == [
        "model │ tokens │   cost",
        "──────┼────────┼───────",
        "a     │    950 │  $0.10",
        "b     │  12.3k │",
        "c     │  1,200 │ $12.00",
    ]


def test_the_three_levels_of_headings_differ_without_colour() -> None:
    levels = [drawn(Markdown("#" * level + " Title"), 60, COLOR) for level in (1, 2, 3)]
    assert levels == [["\x1b[1;4mTitle\x1b[m"], ["\x1b[1mTitle\x1b[m"], ["\x1b[1;3mTitle\x1b[m"]]
    mono = Painter(Look("mono", UNICODE, ansi=True))
    assert [drawn(Markdown("#" * level + " Title"), 60, mono) for level in (1, 2, 3)] == levels


@pytest.mark.parametrize("theme", ["default", "dark", "light"])
def test_RU_5_9_links_are_underlined_in_the_default_colour(theme: str) -> None:
    assert THEMES[theme]["link"] == "underline"
    assert not any("ansiblue" in rule.split() for rule in THEMES["dark"].values())


def test_RU_5_3_an_unknown_ground_gets_no_colour_that_vanishes_on_black_or_white() -> None:
    used = {word for rule in THEMES["default"].values() for word in rule.split() if word.startswith("ansi")}
    assert used == {"ansired", "ansigreen", "ansimagenta"}


@pytest.mark.parametrize(
    ("term", "sty", "italics"),
    [("xterm-256color", "", True), ("tmux-256color", "", True), ("screen", "", False),
     ("screen-256color", "", False), ("xterm", "123.pts-1", False)],
)  # fmt: skip
def test_RU_5_17_gnu_screen_gets_no_italics(term: str, sty: str, *, italics: bool) -> None:
    environ = {"TERM": term, "STY": sty}
    look = choose_look(environ=environ, color="always", theme="dark", encoding="utf-8", is_terminal=True)
    text = "".join(drawn(Markdown("*slanted* and\n\n### small\n\n"), 60, Painter(look)))
    text += "".join(drawn(Markdown("# a comment", fence=None), 60, Painter(look)))
    assert any("italic" in rule.split() for rule in look.rules().values()) is italics
    assert ("\x1b[3m" in text) is italics
