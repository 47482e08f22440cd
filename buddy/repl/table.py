"""Tables: columns as wide as they need, narrowed where the terminal is narrow, cells wrapped."""

from __future__ import annotations

from buddy.repl.style import Glyphs, Line
from buddy.repl.width import line_cells, wrap

MIN_COLUMN = 4


def table_lines(rows: list[list[Line]], width: int, glyphs: Glyphs, *, header: bool) -> list[Line]:
    """Rows of cells as lines of at most `width` cells; a rule stands below the header."""
    count = max((len(row) for row in rows), default=0)
    if count == 0:
        return []
    filled = [row + [[] for _ in range(count - len(row))] for row in rows]
    if count * (MIN_COLUMN + 3) - 3 > width:
        return _stacked(filled, width)
    widths = _widths(filled, width - 3 * (count - 1))
    lines: list[Line] = []
    for index, row in enumerate(filled):
        lines += _row(row, widths, glyphs)
        if header and index == 0:
            cross = f"{glyphs.rule}{glyphs.cross}{glyphs.rule}"
            lines.append([("gutter", cross.join(glyphs.rule * size for size in widths))])
    return lines


def _widths(rows: list[list[Line]], room: int) -> list[int]:
    """The widest cell of each column; while they do not fit, the widest columns give way."""
    widths = [max(max(line_cells(row[column]) for row in rows), 1) for column in range(len(rows[0]))]
    if sum(widths) <= room:
        return widths
    fair = room // len(widths)
    small = sum(size for size in widths if size <= fair)
    wide = [column for column, size in enumerate(widths) if size > fair]
    wanted = sum(widths[column] for column in wide)
    left = room - small
    for column in wide:
        widths[column] = max(MIN_COLUMN, left * widths[column] // wanted)
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return widths


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
