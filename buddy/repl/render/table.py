"""Tables: columns as wide as they need, narrowed where the terminal is narrow, cells wrapped.

rich wraps the cells; the table around them is put together here. A table of rich's asks for every cell again
how wide it is and renders it on its own: a small table, of which an answer may hold hundreds, took 2 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from rich.cells import cell_len
from rich.segment import Segment

from buddy.agent.lazy_regex import pattern
from buddy.repl.render.console import Canvas, Row, row_cells
from buddy.repl.render.style import Line
from buddy.repl.render.text import plain

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
    """Return rows of cells, drawn at most `width` cells wide; a rule stands below the header. Where the
    columns have no room each row is a record: a cell a line, with the name of its column. `spaced`: rows
    stand apart where one of them takes several lines."""
    count = max((len(row) for row in rows), default=0)
    if count == 0:
        return []
    nothing: Line = []
    cells = [[*row, *[nothing] * (count - len(row))] for row in rows]
    texts = [list(map(plain, row)) for row in cells]
    widths = _widths(texts, width - 3 * (count - 1))
    if widths is None:
        return _records(canvas, cells, width, header=header)
    glyphs, gutter = canvas.look.glyphs, canvas.style("gutter")
    between = [Segment(" "), Segment(glyphs.column, gutter), Segment(" ")]
    sides: list[Align] = [aligns[at] if at < len(aligns) else "left" for at in range(count)]
    body = texts[1:] if header else texts
    wraps = any(cell_len(cell) > size for row in body for cell, size in zip(row, widths, strict=True))
    drawn: list[Row] = []
    for at, row in enumerate(cells):
        is_header = header and at == 0
        if spaced and wraps and at > header:
            apart: list[Row] = [[] for _ in widths]
            drawn.append(_join(apart, widths, sides, between))
        wrapped = [canvas.wrap(cell, size) for cell, size in zip(row, widths, strict=True)]
        height = max(map(len, wrapped))
        for parts in wrapped:  # names stand right above the rule
            blank: list[Row] = [[] for _ in range(height - len(parts))]
            parts[:] = [*blank, *parts] if is_header else [*parts, *blank]
        drawn += [_join(parts, widths, sides, between) for parts in zip(*wrapped, strict=True)]
        if is_header:
            rule = f"{glyphs.rule}{glyphs.cross}{glyphs.rule}".join(glyphs.rule * size for size in widths)
            drawn.append([Segment(rule, gutter)])
    return drawn


def _join(parts: Iterable[Row], widths: Sequence[int], sides: Sequence[Align], between: Row) -> Row:
    line: Row = []
    for part, size, side in zip(parts, widths, sides, strict=True):
        line += [*(between if line else ()), *_align(part, size, side)]
    return line


def _align(part: Row, size: int, side: Align) -> Row:
    """Return a row of a cell, filled up to the width of its column. Blanks at its end do not count."""
    row = list(part)
    if side != "left":
        while row and not row[-1].text.strip(" "):
            row.pop()
        row[-1:] = [Segment(text.rstrip(" "), style) for text, style, _control in row[-1:]]
    left = size - row_cells(row)
    before = {"left": 0, "center": left // 2, "right": left}[side]
    return [Segment(" " * before), *row, Segment(" " * (left - before))]


def number_columns(rows: Sequence[Sequence[str]]) -> list[Align]:
    """Return the side of each column: right where all its cells that hold something are numbers."""
    count = max((len(row) for row in rows), default=0)
    columns = [[row[at].strip() for row in rows if at < len(row)] for at in range(count)]
    columns = [[cell for cell in column if cell not in _NO_NUMBER] for column in columns]
    return [
        "right" if column and all(_NUMBER().fullmatch(cell) for cell in column) else "left"
        for column in columns
    ]


def _widths(rows: list[list[str]], room: int) -> list[int] | None:
    """Return the widest cell of each column; while they do not fit, the wide columns give way, down to their
    longest word, columns of short cells last. None when even that is too wide."""
    columns = [[row[index] for row in rows] for index in range(len(rows[0]))]
    widths = [max(*map(cell_len, column), 1) for column in columns]
    if sum(widths) <= room:
        return widths
    words = [min(size, max(map(_longest_word, column))) for size, column in zip(widths, columns, strict=True)]
    broken = [min(size, max(MIN_COLUMN, min(WORD, word))) for size, word in zip(widths, words, strict=True)]
    floors = words if sum(words) <= room else broken
    left = room - sum(floors)
    if left < 0:
        return None
    fitted = list(floors)
    for at in sorted(range(len(widths)), key=lambda at: widths[at]):
        # The shortest cells stay in one line first: figures in two are hard to read.
        if widths[at] <= WORD and widths[at] - fitted[at] <= left:
            left -= widths[at] - fitted[at]
            fitted[at] = widths[at]
    while left > 0:
        # A cell more for the column that has the smallest share of what it wants.
        wanting = [at for at, size in enumerate(fitted) if size < widths[at]]
        narrow = min(wanting, key=lambda at: (fitted[at] / widths[at], at))
        fitted[narrow] += 1
        left -= 1
    return fitted


def _longest_word(cell: str) -> int:
    return max(map(cell_len, cell.split()), default=0)


def _records(canvas: Canvas, rows: list[list[Line]], width: int, *, header: bool) -> list[Row]:
    """Too many columns for the terminal: each cell behind the name of its column, a rule between two rows.
    Cells that hold nothing are left out."""
    names = [plain(cell) for cell in rows[0]] if header else [""] * len(rows[0])
    drawn: list[Row] = []
    for row in rows[1:] if header else rows:
        if drawn:
            drawn += canvas.wrap([("gutter", canvas.look.glyphs.rule * min(width, RECORD_RULE))], width)
        for name, cell in zip(names, row, strict=True):
            if plain(cell).strip():
                label = ("muted", f"{name}: " if name else "")
                drawn += canvas.behind([], [("", "  ")], canvas.wrap([label, *cell], width - 2))
    return drawn
