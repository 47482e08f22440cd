"""Record of the printed blocks, and their positions on the screen after a change of width."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prompt_toolkit.data_structures import Size

from buddy.repl.render.text import ansi_cells, without_drawing
from buddy.repl.view.blocks import Block, gap_before

REPAIR_AFTER_S = 0.3
TOLD_LATE_S = 0.5
"""The same where the terminal tells of a change a quarter of a second late, or more on a busy machine."""


def rows_of(width: int, columns: int) -> int:
    """Return the terminal rows a line of `width` cells takes."""
    return max(1, -(-width // max(columns, 1)))


def reflowed_rows(widths: Iterable[int], columns: int) -> int:
    """Return the terminal rows that lines take once the terminal has wrapped them at `columns`."""
    return sum(rows_of(width, columns) for width in widths)


def reflowed_cursor_row(widths: Sequence[int], row: int, column: int, columns: int) -> int:
    """Return the cursor's row, counted from the first line of the drawing, after the terminal re-wrapped it:
    the rows of all lines above the cursor's, and those the cursor's own line takes before the cursor."""
    return reflowed_rows(widths[:row], columns) + column // max(columns, 1)


KEPT_BLOCKS = 300
DRAWS = "\x1b_G"
"""The beginning of kitty's graphics commands."""
NARROWEST = 24
"""No block is drawn for fewer columns. In a terminal that has less for a moment its lines are wrapped by the
terminal, which puts them together again when it is widened; drawn narrow they would stay so as soon as they
have left the screen."""

Paint = Callable[[Block, int], str]
"""Draws a block for a number of columns."""


def wraps_again(environ: Mapping[str, str]) -> bool:
    """Tell whether the terminal re-wraps its lines when its width changes, as all but a few old ones do."""
    return not (environ.get("XTERM_VERSION") or environ.get("STY") or environ.get("TERM") == "linux")


class Reflow(NamedTuple):
    """The terminal's behaviour on a size change. `is_told_late`: the size may have changed again by the time
    it is reported: tmux re-wraps its rows at once, but reports it at most four times a second."""

    wraps_again: bool = True
    is_told_late: bool = False


def reflow_of(environ: Mapping[str, str]) -> Reflow:
    """Return the behaviour of the terminal in this environment."""
    return Reflow(wraps_again(environ), bool(environ.get("TMUX")))


class _Drawn(NamedTuple):
    block: Block
    columns: int
    gap: bool


class PrintedBlocks:
    """The last blocks, and `rows`: how many rows at the end of them are on the screen, at least."""

    def __init__(self, paint: Paint, narrowest: int = NARROWEST) -> None:
        self._paint = paint
        self._narrowest = narrowest
        self._drawn: deque[_Drawn] = deque(maxlen=KEPT_BLOCKS)
        self.rows = 0
        self.has_graphics = False
        """Pictures were drawn that stay when the rows below them are erased."""

    def add(self, block: Block, columns: int) -> str:
        """Return a block's text for this width, with the gap before it; "" for one that shows nothing."""
        columns = max(columns, self._narrowest)
        text = self._paint(block, columns)
        if not text:
            return ""
        self.has_graphics = self.has_graphics or DRAWS in text
        gap = gap_before(self._drawn[-1].block if self._drawn else None, block)
        self._drawn.append(_Drawn(block, columns, gap))
        return "\n" + text if gap else text

    def wrote(self, text: str) -> None:
        """Record text of blocks that has reached the screen."""
        self.rows += text.count("\n")

    def leave_room(self, rows: int) -> None:
        """Record that only `rows` rows are above the application: the others are out of reach."""
        self.rows = min(self.rows, max(rows, 0))

    def clear(self) -> None:
        """Forget all blocks: none is on the screen or drawn again."""
        self._drawn.clear()
        self.rows = 0

    def rewrap(self, before: Size, after: Size, application: Sequence[int]) -> bool:
        """Follow a terminal that has another size and has re-wrapped everything, the rows of the application
        too: what stands at its end stays on the screen, with the empty rows below. Whether the application
        did."""
        empty = max(before.rows - self.rows - len(application), 0)
        kept = rows = 0
        for width in self._widths_from_the_end():
            kept += rows_of(width, before.columns)
            if kept > self.rows:
                break
            rows += rows_of(width, after.columns)
        room = after.rows - reflowed_rows(application, after.columns)
        self.rows = max(min(rows, room - empty), 0)
        return room >= 0

    def again(self, columns: int) -> tuple[int, str]:
        """Redraw for a new width: return the number of rows to remove at the end, as the terminal has wrapped
        them, and the text that replaces them. This covers only blocks wholly on the screen, from the first
        one drawn for another width."""
        target = max(columns, self._narrowest)
        kept = list(self._drawn)
        first, taken = len(kept), 0
        wanted: tuple[int, int] = (first, 0)
        while first:
            first -= 1
            taken += reflowed_rows(map(ansi_cells, self._lines(kept[first])), columns)
            if taken > self.rows:
                break
            if kept[first].columns != target:
                wanted = (first, taken)
        first, taken = wanted
        for at in range(first, len(kept)):
            self._drawn[at] = kept[at]._replace(columns=target)
        lines = [line for one in list(self._drawn)[first:] for line in self._lines(one)]
        self.rows += reflowed_rows(map(ansi_cells, lines), columns) - taken
        return taken, "".join(line + "\n" for line in lines)

    def last(self, columns: int, room: int) -> list[str]:
        """Return the last lines of it, drawn for a width, that take at most `room` rows."""
        lines: list[str] = []
        for one in reversed(self._drawn):
            cut: list[str] = []
            for line in reversed(self._lines(one._replace(columns=max(columns, self._narrowest)))):
                room -= rows_of(ansi_cells(line), columns)
                if room < 0:
                    # A picture is drawn up from its last row: without the first it would cover what follows.
                    return [*map(without_drawing, cut), *lines]
                cut.insert(0, line)
            lines[:0] = cut
        return lines

    def standing(self, columns: int, room: int) -> int:
        """Count the rows that the last lines occupy as they were drawn, wrapped at a width; at most `room`
        lines count."""
        widths = self._widths_from_the_end()
        return reflowed_rows((width for width, _ in zip(widths, range(room), strict=False)), columns)

    def record_redraw(self, columns: int, lines: Sequence[str]) -> None:
        """Record the last lines as drawn for this width."""
        self.rows = reflowed_rows(map(ansi_cells, lines), columns)
        columns, rows = max(columns, self._narrowest), len(lines)
        for at in range(len(self._drawn) - 1, -1, -1):
            if rows <= 0:
                return
            self._drawn[at] = self._drawn[at]._replace(columns=columns)
            rows -= len(self._lines(self._drawn[at]))

    def _lines(self, one: _Drawn) -> list[str]:
        text = self._paint(one.block, one.columns).split("\n")[:-1]
        return ["", *text] if one.gap else text

    def _widths_from_the_end(self) -> Iterator[int]:
        for one in reversed(self._drawn):
            yield from map(ansi_cells, reversed(self._lines(one)))
