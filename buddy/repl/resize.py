"""Positions on the screen after a change of width: arithmetic about re-flow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

REPAIR_AFTER_S = 0.3
TOLD_LATE_S = 0.5
"""The same where the terminal tells of a change a quarter of a second late, or more on a busy machine."""


def rows_of(width: int, columns: int) -> int:
    """Terminal rows a line of `width` cells takes."""
    return max(1, -(-width // max(columns, 1)))


def reflowed_rows(widths: Iterable[int], columns: int) -> int:
    """Terminal rows that lines take once the terminal has wrapped them at `columns`."""
    return sum(rows_of(width, columns) for width in widths)


def reflowed_cursor_row(widths: Sequence[int], row: int, column: int, columns: int) -> int:
    """The cursor's row, counted from the first line of the drawing, after the terminal re-wrapped it: the
    rows of all lines above the cursor's, and those the cursor's own line takes before the cursor."""
    return reflowed_rows(widths[:row], columns) + column // max(columns, 1)
