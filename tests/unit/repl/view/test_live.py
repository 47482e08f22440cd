"""A file on the screen while it is being written: the live region over arguments that arrive in pieces."""

from __future__ import annotations

import json

import pytest

from buddy.agent import events as ev
from buddy.repl.render.style import UNICODE, Look
from buddy.repl.render.text import line_cells, plain
from buddy.repl.screen.paint_queue import LazyPainter
from buddy.repl.view.live import live_lines, live_room, phase_text
from buddy.repl.view.state import ViewState
from buddy.repl.view.view import fold
from tests.support.events_for_tests import Tape
from tests.support.screen_harness import running_repl

LOOK = Look("default", UNICODE, ansi=True)
CODE = "".join(f"line_{n} = {n}\n" for n in range(1, 40))


def delta(tape: Tape, arguments: str, name: str = "write_file", call: str = "c1") -> ev.TaskEvent:
    return tape.event(ev.ToolCallDelta("r1", call, name, arguments))


def begun(tape: Tape) -> ViewState:
    state = ViewState()
    fold(state, tape.turn())
    fold(state, tape.reply())
    return state


def live(state: ViewState, now: float, columns: int = 40, rows: int = 30) -> list[str]:
    return [plain(line) for line in live_lines(state, now, columns, live_room(rows), LOOK)]


def test_a_file_is_visible_as_it_is_written() -> None:
    tape = Tape()
    state = begun(tape)
    fold(state, delta(tape, json.dumps({"path": "src/a.py", "content": CODE})[:-2]))
    assert live(state, tape.at) == [
        "● writing src/a.py, 39 lines",
        *[f"  line_{n} = {n}" for n in range(34, 40)],
    ]
    assert live(state, tape.at + 20)[0] == "● writing src/a.py, 39 lines, no bytes…"


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        (
            "edit_file",
            '{"path":"a.py","old":"x\\ny',
            ["● editing a.py, 2 lines out", "  - x", "  - y"],
        ),
        (
            "edit_file",
            '{"path":"a.py","old":"x","new":"z',
            ["● editing a.py, 1 line in", "  + z"],
        ),
        ("run_shell", '{"command":"make all', ["● writing a command, 1 line", "  make all"]),
        ("write_file", '{"content":"a', ["● writing a file, 1 line", "  a"]),
        (
            "apply_patch",
            '{"patch":"*** Begin Patch\\n*** Update File: a.py\\n-x\\n',
            ["● patching a.py, 3 lines", "  *** Begin Patch", "  *** Update File: a.py", "  -x"],
        ),
        (
            "grep",
            '{"pattern":"x',
            ["● writing a call to grep, 13 characters", '  {"pattern":"x'],
        ),
        ("", "", ["● writing a call to a tool, 0 characters"]),
        ("write_file", "{'path': 'a", ["● writing a call to write_file, 11 chara…", "  {'path': 'a"]),
    ],
)
def test_each_kind_of_call_says_what_it_is(name: str, arguments: str, shown: list[str]) -> None:
    tape = Tape()
    state = begun(tape)
    fold(state, delta(tape, arguments, name))
    assert live(state, tape.at, columns=42) == shown


def test_the_height_only_grows_until_it_is_full() -> None:
    tape = Tape()
    state = begun(tape)
    heights: list[int] = []
    for sign in json.dumps({"path": "a.py", "content": CODE}):
        fold(state, delta(tape, sign))
        if state.task(1).phase is not None and "writing a.py" in phase_text(state, state.task(1), tape.at):
            heights.append(len(live(state, tape.at)))
    assert heights == sorted(heights)
    assert heights[-1] == 7


@pytest.mark.parametrize("rows", [3, 6, 12, 24, 60])
def test_the_preview_keeps_to_the_rows_and_columns_there_are(rows: int) -> None:
    tape = Tape()
    state = begun(tape)
    fold(state, delta(tape, json.dumps({"path": "漢" * 80, "content": CODE + "漢字" * 500})))
    painter = LazyPainter(LOOK)
    painter.warm()
    lines = live_lines(state, tape.at, 40, live_room(rows), LOOK, colour=painter.code)
    assert len(lines) <= max(rows // 2, 1)
    assert max(map(line_cells, lines)) <= 39


def test_of_two_calls_the_one_begun_last_is_shown_and_pieces_do_not_mix() -> None:
    tape = Tape()
    state = begun(tape)
    for piece in (
        delta(tape, '{"path":"a.py","content":"one', call="c1"),
        delta(tape, '{"path":"b.py","content":"two', call="c2"),
        delta(tape, " more", call="c1"),
        delta(tape, " and two", call="c2"),
    ):
        fold(state, piece)
    assert live(state, tape.at) == ["● writing b.py, 1 line", "  two and two"]


def test_code_is_coloured_by_the_name_of_its_file() -> None:
    tape = Tape()
    state = begun(tape)
    painter = LazyPainter(LOOK)
    fold(state, delta(tape, '{"path":"a.py","content":"def f():'))
    assert [
        style for style, _ in live_lines(state, tape.at, 40, 30, LOOK, colour=painter.code)[1] if style
    ] == []
    painter.warm()
    styled = live_lines(state, tape.at, 40, 30, LOOK, colour=painter.code)[1]
    assert ("syntax.keyword", "def ") in styled or ("syntax.keyword", "def") in styled


async def test_hostile_content_is_inert_for_every_split_and_ends_in_the_final_block() -> None:
    content = "start \x1b]52;c;aGk=\x07 \x1b[31;7m \x9b1m \u202e end\n"
    text = json.dumps({"path": "a\x1b[2Jb.py", "content": content})
    async with running_repl(rows=24) as stage:
        tape = Tape(at=None)
        stage.send(tape.turn(), tape.reply())
        await stage.shows("waiting for the model")
        before = len(stage.terminal.written)
        for cut in range(1, len(text)):
            for piece in (text[:cut], text[cut:]):
                stage.send(delta(tape, piece, call=f"c{cut}"))
                await stage.until(stage.queue.empty)
                stage.repl.screen._frame()  # a frame after every piece
        await stage.shows("writing ab.py, 1 line")
        stage.send(tape.tool("c1", "write_file a.py"), tape.tool_done("c1"), tape.done())
        await stage.shows("write_file a.py")
        await stage.shows_not("writing ab.py")
        written = b"".join(stage.terminal.written[before:])
    for sequence in (b"\x1b]52", b"\x1b[31;7m", b"\xc2\x9b", "\u202e".encode(), b"\x1b[2J"):
        assert sequence not in written
