"""Tables: columns as wide as they need, narrowed where the terminal is narrow, cells wrapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from buddy.agent.pattern import pattern
from buddy.repl.style import Glyphs, Line
from buddy.repl.width import cells, indented, line_cells, plain, wrap

MIN_COLUMN = 4
WORD = 19
"""Longer words may be broken; the name of a session is not."""
RECORD_RULE = 24

Align = Literal["left", "center", "right"]
_NUMBER = pattern(r"[-+~$\u2212]?\s?[\d][\d,. ]*\s?(?:%|[kMG]?B?|s|ms)\+?")


def table_lines(
    rows: list[list[Line]], width: int, glyphs: Glyphs, *, header: bool, aligns: Sequence[Align] = ()
) -> list[Line]:
    """Rows of cells as lines of at most `width` cells; a rule stands below the header. Where the columns
    have no room each row is a record: a cell a line, with the name of its column."""
    count = max((len(row) for row in rows), default=0)
    if count == 0:
        return []
    filled = [row + [[] for _ in range(count - len(row))] for row in rows]
    sides: list[Align] = list(aligns[:count])
    sides.extend(("left",) * (count - len(aligns)))
    widths = _widths(filled, width - 3 * (count - 1))
    if widths is None:
        return _records(filled, width, glyphs, header=header)
    lines: list[Line] = []
    for index, row in enumerate(filled):
        lines += _row(row, widths, sides, glyphs)
        if header and index == 0:
            cross = f"{glyphs.rule}{glyphs.cross}{glyphs.rule}"
            lines.append([("gutter", cross.join(glyphs.rule * size for size in widths))])
    return lines


def number_columns(rows: Sequence[Sequence[str]]) -> list[Align]:
    """The side of each column: right where all its cells that hold something are numbers."""
    count = max((len(row) for row in rows), default=0)
    columns = [[row[at].strip() for row in rows if at < len(row) and row[at].strip()] for at in range(count)]
    return [
        "right" if column and all(_NUMBER().fullmatch(cell) for cell in column) else "left"
        for column in columns
    ]


def _widths(rows: list[list[Line]], room: int) -> list[int] | None:
    """The widest cell of each column; while they do not fit, the wide columns give way, down to their longest
    word. None when even that is too wide."""
    columns = [[row[index] for row in rows] for index in range(len(rows[0]))]
    widths = [max(max(map(line_cells, column)), 1) for column in columns]
    if sum(widths) <= room:
        return widths
    floors = [
        min(size, max(MIN_COLUMN, min(WORD, max(map(_longest_word, column)))))
        for size, column in zip(widths, columns, strict=True)
    ]
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


def _longest_word(cell: Line) -> int:
    return max((cells(word) for word in plain(cell).split()), default=0)


def _row(row: list[Line], widths: list[int], sides: Sequence[Align], glyphs: Glyphs) -> list[Line]:
    wrapped = [wrap(cell, size) for cell, size in zip(row, widths, strict=True)]
    lines: list[Line] = []
    for index in range(max(len(cell) for cell in wrapped)):
        line: Line = []
        for cell, size, side in zip(wrapped, widths, sides, strict=True):
            part = cell[index] if index < len(cell) else []
            if line:
                line.append(("gutter", f" {glyphs.column} "))
            blanks = size - line_cells(part)
            before = blanks if side == "right" else blanks // 2 if side == "center" else 0
            line += [("", " " * before)] if before else []
            line += [*part, ("", " " * (blanks - before))]
        lines.append(line)
    return lines


def _records(rows: list[list[Line]], width: int, glyphs: Glyphs, *, header: bool) -> list[Line]:
    """Too many columns for the terminal: each cell behind the name of its column, a rule between two rows.
    Cells that hold nothing are left out."""
    names = [plain(cell) for cell in rows[0]] if header else [""] * len(rows[0])
    lines: list[Line] = []
    for row in rows[1:] if header else rows:
        if lines:
            lines.append([("gutter", glyphs.rule * min(width, RECORD_RULE))])
        for name, cell in zip(names, row, strict=True):
            if plain(cell).strip():
                label: Line = [("muted", f"{name}: ")] if name else []
                lines += indented(wrap([*label, *cell], width - 2), [], [("", "  ")])
    return lines
