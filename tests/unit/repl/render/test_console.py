"""What rich is given, and what comes of it: cleaned tokens, rows within their width, code below its
indent.
"""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from buddy.repl.render.console import Canvas, plain_row, row_cells
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import UNICODE, Look
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
