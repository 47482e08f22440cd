"""Tables: columns as wide as they need, narrowed where the terminal is narrow, cells wrapped."""

from __future__ import annotations

from buddy.repl.style import Glyphs, Line
from buddy.repl.width import cells, line_cells, plain, wrap

MIN_COLUMN = 4
WORD = 19
"""Longer words may be broken; the name of a session is not."""


def table_lines(rows: list[list[Line]], width: int, glyphs: Glyphs, *, header: bool) -> list[Line]:
    """Rows of cells as lines of at most `width` cells; a rule stands below the header."""
    count = max((len(row) for row in rows), default=0)
    if count == 0:
        return []
    filled = [row + [[] for _ in range(count - len(row))] for row in rows]
    widths = _widths(filled, width - 3 * (count - 1))
    if widths is None:
        return _stacked(filled, width)
    lines: list[Line] = []
    for index, row in enumerate(filled):
        lines += _row(row, widths, glyphs)
        if header and index == 0:
            cross = f"{glyphs.rule}{glyphs.cross}{glyphs.rule}"
            lines.append([("gutter", cross.join(glyphs.rule * size for size in widths))])
    return lines


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


def _row(row: list[Line], widths: list[int], glyphs: Glyphs) -> list[Line]:
    wrapped = [wrap(cell, size) for cell, size in zip(row, widths, strict=True)]
    lines: list[Line] = []
    for index in range(max(len(cell) for cell in wrapped)):
        line: Line = []
        for cell, size in zip(wrapped, widths, strict=True):
            part = cell[index] if index < len(cell) else []
            if line:
                line.append(("gutter", f" {glyphs.column} "))
            line += [*part, ("", " " * (size - line_cells(part)))]
        lines.append(line)
    return lines


def _stacked(rows: list[list[Line]], width: int) -> list[Line]:
    """Too many columns for the terminal: one cell below the other."""
    lines: list[Line] = []
    for index, row in enumerate(rows):
        if index:
            lines.append([])
        for cell in row:
            lines += wrap(cell, width)
    return lines
