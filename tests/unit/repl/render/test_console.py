"""The input of rich and its output: cleaned tokens, rows within their width, code below its
indent.
"""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from buddy.repl.render.console import Canvas, Row, plain_row, row_cells, sgr_change
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import UNICODE, Line, Look
from buddy.repl.render.table import table_rows
from buddy.repl.view.blocks import Fence, Markdown, TableBlock

LOOKS = [Look(theme, UNICODE, ansi=True, depth="256") for theme in ("default", "dark", "light", "mono")]
PLAIN = Canvas(Look("mono", UNICODE, ansi=False))


def drawn(block: Markdown | TableBlock, width: int) -> list[str]:
    return Painter(PLAIN.look).ansi(block, width).split("\n")[:-1]


@pytest.mark.parametrize("entity", ["&#27;[2J", "&#x9b;2J", "&#x202E;", "&#x200b;"])
@pytest.mark.parametrize(
    "form", ["{}", "`{}`", "# {}", "- {}", "> {}", "| a |\n|---|\n| {} |", "[x]({})", "![{}](x)"]
)
def test_every_token_is_cleaned_after_the_parser_decoded_it(entity: str, form: str) -> None:
    text = "".join(drawn(Markdown(form.format(entity) + "\n"), 60))
    assert not [hex(ord(c)) for c in text if ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u200b"]


@pytest.mark.parametrize("width", [24, 25, 80, 120, 500])
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.theme)
def test_no_row_is_wider_than_its_room(look: Look, width: int) -> None:
    painter = Painter(look)
    words = "漢字テスト word 🇩🇪 e\u0301 " * 30
    table = f"| a | b | c |\n|---|:-:|--:|\n| {words} | x | 1,204 |\n"
    for block in (
        Markdown(f"# {words}\n\n1. {words}\n   - {words}\n\n> > {words}\n\n{table}"),
        Markdown("", fence=Fence("python", f"{' ' * 40}s = '{words}'", "", "whole")),
        TableBlock(("id", "what"), (("1", words),)),
    ):
        assert max(map(row_cells, painter.rows(block, width))) <= width


def test_text_is_never_read_as_markup_of_richs() -> None:
    text = "[red]x[/red] :smile: [link=http://e]y[/link] [@click=quit]z[/]"
    assert plain_row(PLAIN.wrap([("", text)], 200)[0]) == text
    assert [plain_row(row).rstrip() for row in table_rows(PLAIN, [[[("", text)]]], 200, header=False)] == [
        text
    ]
    assert drawn(Markdown("`[red]` and [bold]"), 80) == ["[red] and [bold]"]


def test_inline_html_is_text() -> None:
    assert drawn(Markdown("a List<String> and <b>bold</b>\n\n<div>block</div>\n"), 60) == [
        "a List<String> and <b>bold</b>",
        "",
        "<div>block</div>",
    ]


def test_a_picture_stands_where_it_was_written() -> None:
    assert drawn(Markdown("before ![alt](a.png) after"), 60) == ["before [image: alt (a.png)] after"]


def test_code_that_is_too_wide_goes_on_below_its_first_word() -> None:
    fence = Fence("", "    if one and two and three:\n        pass", "", "whole")
    assert drawn(Markdown("", fence=fence), 24) == [
        "▎     if one and two",
        "▎     and three:",
        "▎         pass",
    ]
    deep = Fence("", " " * 60 + "deep words", "", "whole")
    assert drawn(Markdown("", fence=deep), 24)[-1:] == ["▎           deep words"]


def test_numbers_stand_right_where_the_table_does_not_say_otherwise() -> None:
    assert drawn(Markdown("| n | m |\n|---|:--|\n| 5 | 5 |\n| 1,204 | 10 |\n"), 40) == [
        "    n │ m",
        "──────┼───",
        "    5 │ 5",
        "1,204 │ 10",
    ]


def test_a_row_ends_with_its_last_sign() -> None:
    rows = PLAIN.wrap([("bold", "a  "), ("", "   ")], 20)
    assert PLAIN.ansi(rows) == "a\n"
    assert cell_len("漢") == 2


def cells(text: str) -> list[list[tuple[object, ...]]]:
    """The cells of a terminal that shows this text; the colour of what nobody sees is left out."""
    screen = pyte.Screen(60, 12)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    rows = [[screen.buffer[y][x] for x in range(60)] for y in range(12)]
    return [[seen(cell) for cell in row] for row in rows]


def seen(cell: pyte.screens.Char) -> tuple[object, ...]:
    if cell.data == " ":
        shown = cell.underscore or cell.reverse or cell.strikethrough
        return (" ", cell.bg, cell.underscore, cell.reverse, cell.strikethrough, cell.fg if shown else "")
    return tuple(cell)


def in_full(canvas: Canvas, row: Row) -> str:
    """A row whose every segment says its whole style."""
    styles = (segment.style or Style.null() for segment in row)
    codes = (style.render("x", color_system=ColorSystem.TRUECOLOR).partition("x")[0] for style in styles)
    return (
        "".join(f"\x1b[m{code}{segment.text}" for code, segment in zip(codes, row, strict=True)) + "\x1b[m\n"
    )


NAMES = ("", "muted", "bold", "dim", "italic", "underline", "strike", "reverse", "heading.1", "url",
         "risk.high", "code", "syntax.comment", "syntax.class", "added.line", "removed.word")  # fmt: skip
TEXTS = ("a", "  ", "b ", " c", "漢")


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.theme)
@given(st.lists(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(TEXTS)), max_size=8), max_size=6))
def test_few_bytes_show_the_same_cells(look: Look, lines: list[Line]) -> None:
    canvas = Canvas(look)
    rows = [[Segment(text, canvas.style(names)) for names, text in [*line, ("", "|")]] for line in lines]
    written = canvas.ansi(rows)
    full = "".join(in_full(canvas, row) for row in rows)
    assert cells(written) == cells(full)
    assert len(written) <= len(full)


def test_a_style_changes_by_what_differs() -> None:
    assert sgr_change("38;5;219", "38;5;153") == "\x1b[38;5;153m"
    assert sgr_change("1;31", "31") == "\x1b[22m"
    assert sgr_change("1;36", "2;36") == "\x1b[22;2m"
    assert sgr_change("3;38;5;246", "") == "\x1b[m"
    assert sgr_change("", "1;36") == "\x1b[1;36m"
    assert sgr_change("1;4;48;2;1;2;3", "1;4;33") == "\x1b[49;33m"


def test_a_blank_keeps_the_colour_before_it() -> None:
    canvas = Canvas(Look("dark", UNICODE, ansi=True, depth="256"))
    line: Line = [("url", "a"), ("", " "), ("url", "b"), ("underline", " "), ("", "c")]
    assert canvas.ansi(canvas.wrap(line, 20)) == "\x1b[38;5;246ma b\x1b[0;4m \x1b[mc\n"
