"""Tables: columns as wide as they need, narrowed where the terminal is narrow, cells wrapped. rich draws
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.box import Box
from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from buddy.agent.pattern import pattern
from buddy.repl.canvas import Canvas, Row
from buddy.repl.style import Glyphs, Line

MIN_COLUMN = 4
WORD = 19
"""Longer words are broken before a table becomes records; the name of a session is not."""
RECORD_RULE = 24

Align = Literal["left", "center", "right"]
_NUMBER = pattern(
    r"[-+~\u2212]?\s?[$\u20ac\u00a3]?\s?[-+\u2212]?\d[\d,. ]*\s?(?:%|[kMG]?B?|s|ms|\u20ac|\u00a3)\+?"
)
_NO_NUMBER = ("", "-", "\u2013", "\u2014", "n/a")
"""Cells that say that there is no number."""


def table_rows(
    canvas: Canvas,
    rows: list[list[Line]],
    width: int,
    *,
    header: bool,
    aligns: Sequence[Align] = (),
    spaced: bool = False,
) -> list[Row]:
    """Rows of cells, drawn at most `width` cells wide; a rule stands below the header. Where the columns have
    no room each row is a record: a cell a line, with the name of its column. `spaced`: rows stand apart where
    one of them takes several lines."""
    count = max((len(row) for row in rows), default=0)
    if count == 0:
        return []
    cells = [[*map(canvas.text, row), *(Text() for _ in range(count - len(row)))] for row in rows]
    widths = _widths(cells, width - 3 * (count - 1))
    if widths is None:
        return _records(canvas, cells, width, header=header)
    body = cells[1:] if header else cells
    wraps = any(cell.cell_len > size for row in body for cell, size in zip(row, widths, strict=True))
    table = RichTable(
        box=_box(canvas.look.glyphs),
        show_lines=spaced and wraps,
        show_edge=False,
        pad_edge=False,
        show_header=header,
        border_style=canvas.style("gutter"),
        header_style="",
        footer_style="",
    )
    for at, size in enumerate(widths):
        side = aligns[at] if at < len(aligns) else "left"
        name = cells[0][at] if header else ""
        table.add_column(name, width=size, justify=side, overflow="fold")
    for row in body:
        table.add_row(*row)
    return canvas.render(table, width)


def number_columns(rows: Sequence[Sequence[str]]) -> list[Align]:
    """The side of each column: right where all its cells that hold something are numbers."""
    count = max((len(row) for row in rows), default=0)
    columns = [[row[at].strip() for row in rows if at < len(row)] for at in range(count)]
    columns = [[cell for cell in column if cell not in _NO_NUMBER] for column in columns]
    return [
        "right" if column and all(_NUMBER().fullmatch(cell) for cell in column) else "left"
        for column in columns
    ]


def _box(glyphs: Glyphs) -> Box:
    body = f"  {glyphs.column} \n"
    head = f" {glyphs.rule}{glyphs.cross} \n"
    return Box(f"    \n{body}{head}{body}{body}    \n{body}    \n")


def _widths(rows: list[list[Text]], room: int) -> list[int] | None:
    """The widest cell of each column; while they do not fit, the wide columns give way, down to their longest
    word, columns of short cells last. None when even that is too wide. (rich breaks the words of wide columns
    before it narrows them all.)"""
    columns = [[row[index] for row in rows] for index in range(len(rows[0]))]
    widths = [max(max(cell.cell_len for cell in column), 1) for column in columns]
    if sum(widths) <= room:
        return widths
    words = [min(size, max(map(_longest_word, column))) for size, column in zip(widths, columns, strict=True)]
    broken = [min(size, max(MIN_COLUMN, min(WORD, word))) for size, word in zip(widths, words, strict=True)]
    floors = words if sum(words) <= room else broken
    in_one_line = [size if size <= WORD else floor for size, floor in zip(widths, floors, strict=True)]
    if sum(in_one_line) <= room:
        floors = in_one_line
    left = room - sum(floors)
    if left < 0:
        return None
    fitted = floors
    while left > 0:
        # A cell more for the column that has the smallest share of what it wants.
        wanting = [at for at, size in enumerate(fitted) if size < widths[at]]
        narrow = min(wanting, key=lambda at: (fitted[at] / widths[at], at))
        fitted[narrow] += 1
        left -= 1
    return fitted


def _longest_word(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split()), default=0)


def _records(canvas: Canvas, rows: list[list[Text]], width: int, *, header: bool) -> list[Row]:
    """Too many columns for the terminal: each cell behind the name of its column, a rule between two rows.
    Cells that hold nothing are left out."""
    names = [cell.plain for cell in rows[0]] if header else [""] * len(rows[0])
    drawn: list[Row] = []
    for row in rows[1:] if header else rows:
        if drawn:
            drawn += canvas.wrap([("gutter", canvas.look.glyphs.rule * min(width, RECORD_RULE))], width)
        for name, cell in zip(names, row, strict=True):
            if cell.plain.strip():
                label = (f"{name}: " if name else "", canvas.style("muted"))
                labelled = canvas.wrap_text(Text.assemble(label, cell, end=""), width - 2)
                drawn += canvas.behind([], [("", "  ")], labelled)
    return drawn
