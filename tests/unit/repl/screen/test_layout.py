"""The rows around the input: shared cells, and who gives way where there is no room."""

from __future__ import annotations

from buddy.repl.render.style import Line
from buddy.repl.screen.layout import DrawnLines, row_of, share_rows
from tests.support.screen_harness import resize, running_repl


def shown(line: Line, columns: int) -> list[str]:
    row = row_of(line, columns)
    return [row[x].char for x in range(max(row, default=-1) + 1)]


def test_a_wide_character_takes_two_cells_and_a_combining_one_none() -> None:
    assert shown([("", "a界e\u0301b")], 20) == ["a", "界", "", "e\u0301", "b"]
    assert shown([("", "界\u0301")], 20) == ["界\u0301", ""]
    assert shown([("", "\u0301a")], 20) == ["a"], "nothing stands before it"


def test_a_line_ends_at_the_edge_and_a_wide_character_is_not_halved() -> None:
    assert shown([("bold", "abc"), ("", "def")], 4) == ["a", "b", "c", "d"]
    assert shown([("", "ab界")], 3) == ["a", "b"]


def test_rows_are_drawn_anew_only_when_lines_or_width_change() -> None:
    lines: list[Line] = [[("", "one")], [("", "two")]]
    drawn = DrawnLines(lambda: lines)
    first = drawn.rows(10)
    assert drawn.rows(10) is first
    assert drawn.rows(9) is not first
    lines[1] = [("", "three")]
    assert [row[0].char for row in drawn.rows(9)] == ["o", "t"]


def test_the_menu_gives_way_first_then_the_input_never_the_search_line() -> None:
    assert share_rows((3, 1, 8), 20) == (3, 1, 8)
    assert share_rows((3, 1, 8), 6) == (3, 1, 2)
    assert share_rows((9, 1, 8), 6) == (5, 1, 0)
    assert share_rows((9, 1, 8), 1) == (1, 0, 0)


async def test_a_long_text_in_a_small_terminal_leaves_the_footer_and_the_cursor_visible() -> None:
    async with running_repl(columns=30, rows=8) as stage:
        stage.type("\n".join(f"line {number}" for number in range(30)))
        await stage.shows("line 29")
        rows = stage.terminal.rows()
        assert rows[0].startswith("─")
        assert rows[-1].startswith("ask")
        resize(stage, 30, 3)
        await stage.until(lambda: len(stage.terminal.rows()) == 3 and "line 29" in stage.terminal.rows()[1])


async def test_key_help_goes_with_its_question_mark() -> None:
    async with running_repl(columns=60, rows=12) as stage:
        stage.type("?")
        await stage.shows("Enter")
        stage.type("\x7f")
        await stage.shows_not("steer while")
        stage.type("task &")
        await stage.shows("new task")
