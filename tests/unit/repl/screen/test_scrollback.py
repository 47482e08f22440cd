"""The printed blocks that are certainly on the screen, after everything a terminal does with it."""

from __future__ import annotations

import pytest
from prompt_toolkit.data_structures import Size

from buddy.repl.render.text import split_at
from buddy.repl.screen.scrollback import PrintedBlocks, wraps_again
from buddy.repl.view.blocks import Block, NoteBlock


def drawn(block: Block, columns: int) -> str:
    """A note's words, cut at the width less one; a note without words shows nothing."""
    assert isinstance(block, NoteBlock)
    rest, lines = block.text, ""
    while rest:
        line, rest = split_at(rest, columns - 1)
        lines += f"{line}\n"
    return lines


def printed(
    *texts: str, columns: int = 21, rows: int = 10, application: int = 3, narrowest: int = 1
) -> PrintedBlocks:
    made = PrintedBlocks(drawn, narrowest)
    for text in texts:
        made.wrote(made.add(NoteBlock("info", text), columns))
    made.leave_room(rows - application)
    return made


def size(columns: int, rows: int) -> Size:
    return Size(rows=rows, columns=columns)


def test_only_as_many_rows_as_are_above_the_application_are_on_the_screen() -> None:
    assert printed("a", "b", "").rows == 2
    assert printed(*"abcdefghi").rows == 7
    made = printed(*"abcdefghi", application=8)
    made.leave_room(7)  # the application is small again; what it pushed up does not come back
    assert made.rows == 2


def test_a_block_that_wraps_is_taken_off_as_the_terminal_wrapped_it_and_drawn_again() -> None:
    made = printed("x" * 15, "y" * 20, rows=5)
    assert made.rewrap(size(21, 5), size(11, 8), [20, 2, 3])
    assert made.rows == 4
    assert made.again(11) == (4, "x" * 10 + "\n" + "x" * 5 + "\n" + "y" * 10 + "\n" + "y" * 10 + "\n")
    assert made.again(11) == (0, "")
    assert made.rows == 4


def test_a_block_of_which_a_row_has_scrolled_away_stays_as_it_is() -> None:
    made = printed("x" * 20, "y" * 20, "z", rows=7)
    made.rewrap(size(21, 7), size(11, 7), [20, 1, 1])
    assert made.rows == 2  # of five; one row was empty, the application takes four
    assert made.again(11) == (1, "z\n")
    made.rewrap(size(11, 7), size(21, 7), [10, 1, 1])
    assert made.rows == 1


def test_in_a_terminal_too_narrow_to_read_a_block_stays_as_wide_as_it_was_drawn() -> None:
    made = printed("x" * 30, "y" * 20, columns=41, rows=10, narrowest=24)
    assert made.rewrap(size(41, 10), size(6, 30), [20, 1, 1])
    assert made.rows == 9
    assert made.again(6) == (9, "x" * 23 + "\n" + "x" * 7 + "\n" + "y" * 20 + "\n"), "for 24 columns, once"
    assert made.rows == 4 + 2 + 4
    assert made.again(6) == (0, "")
    made.rewrap(size(6, 30), size(41, 30), [5, 1, 1])
    assert made.again(41) == (3, "x" * 30 + "\n" + "y" * 20 + "\n"), "and wide again with the terminal"
    assert made.last(6, 7) == ["x" * 7, "y" * 20], "as many lines as their rows leave room for"


def test_a_height_that_changes_draws_nothing_again() -> None:
    made = printed(*"abcdefghi")
    made.rewrap(size(21, 10), size(21, 6), [20, 1, 1])
    assert made.rows == 3
    assert made.again(21) == (0, "")


KITTY = "\x1b_Ga=d,d=I,i=7,q=2\x1b\\"
DRAWN = f"\x1b7{KITTY}\x1b[2A\x1b_Ga=T;AAAA\x1b\\\x1b8"


def test_a_picture_that_is_cut_is_taken_away_and_not_drawn_over_what_follows() -> None:
    made = PrintedBlocks(lambda block, _columns: f"title\n\n\n{DRAWN}\n" if block.text == "p" else "x\n", 1)
    assert not made.has_graphics
    for text in "xpx":
        made.wrote(made.add(NoteBlock("info", text), 21))
    assert made.has_graphics
    assert made.last(21, 20) == ["x", "title", "", "", DRAWN, "x"]
    assert made.last(21, 5) == ["title", "", "", DRAWN, "x"]
    assert made.last(21, 3) == ["", f"\x1b7{KITTY}\x1b8", "x"]


def test_where_the_application_itself_did_not_fit_that_is_said() -> None:
    made = printed(*"abcdefghi")
    assert not made.rewrap(size(21, 10), size(2, 3), [20, 1, 1])
    assert made.rows == 0


def test_what_was_cleared_is_not_drawn_again() -> None:
    made = printed("x" * 20)
    made.clear()
    assert made.again(11) == (0, "")
    assert made.last(11, 5) == []


@pytest.mark.parametrize("environ", [{"TERM": "linux"}, {"XTERM_VERSION": "XTerm(390)"}, {"STY": "1.pts"}])
def test_some_terminals_do_not_wrap_lines_again(environ: dict[str, str]) -> None:
    assert not wraps_again(environ)
    assert wraps_again({"TERM": "xterm-256color"})
