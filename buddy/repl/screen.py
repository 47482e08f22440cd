"""The one writer of the terminal: frames, finished blocks, live repaints, resize repair.

One inline application stands at the bottom: what is live, a rule, the input, the footer. Finished blocks go
above it in a single frame: erase the application, write the block, draw the application again. Repaints are
paced; keys are not, they draw at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence

from prompt_toolkit.application.run_in_terminal import in_terminal

from buddy.repl.blocks import Block, gap_before
from buddy.repl.inline import InlineApplication
from buddy.repl.output import CLEAR_DOWN, FrameOutput
from buddy.repl.resize import REPAIR_AFTER_S, reflowed_rows
from buddy.repl.style import FRAMES_PER_S
from buddy.repl.width import ansi_cells

FRAME_S = 1 / FRAMES_PER_S
FRAME_SHARE = 4
LONGEST_PACE_S = 0.2
"""Frames take a quarter of the time at most: where one takes long (fifty tasks, a busy machine) they come
less often, so that keys do not wait behind them; five times a second in any case."""
PAINT_BUDGET_S = 0.02
CATCH_UP_S = 0.003
KEPT_BLOCKS = 300
HOLD_S = 0.012
"""What was asked for goes before showing it: a frame is 1 to 5 ms of the 20 a cancelled stream may live."""

Paint = Callable[[Block, int], str]
"""Draws a block for a number of columns."""


class Screen:
    """What is on the terminal. `prepare`, before each paced frame, says how many rows the live part takes and
    whether it changes by itself; `drawn` follows each frame; `lending` is before another program's turn."""

    def __init__(
        self,
        application: InlineApplication,
        output: FrameOutput,
        paint: Paint,
        *,
        is_stalled: Callable[[], bool],
        prepare: Callable[[], tuple[int, bool]],
        drawn: Callable[[], None],
        lending: Callable[[], None] = lambda: None,
    ) -> None:
        self._app: InlineApplication = application
        self._output = output
        self._paint = paint
        self._is_stalled = is_stalled
        self._prepare = prepare
        self._drawn = drawn
        self._lending = lending
        self._pending: deque[Block] = deque()
        self._blocks: deque[Block] = deque(maxlen=KEPT_BLOCKS)
        self._raw: list[str] = []
        self._is_held, self._pace = False, FRAME_S
        self._timer: asyncio.TimerHandle | None = None
        self._clock: asyncio.TimerHandle | None = None
        self._repair_timer: asyncio.TimerHandle | None = None
        self._last_frame, self._live_rows = 0.0, 0
        self._columns = output.get_size().columns
        application.may_draw = lambda: not (self._is_held or is_stalled())
        application.on_resize = self.resized

    def show(self, blocks: Sequence[Block]) -> None:
        """Print blocks above the prompt, and draw what is live."""
        self._pending.extend(blocks)
        self.touch()

    def touch(self) -> None:
        """Something live changed: draw it with the next frame."""
        if self._timer is None and self._app.loop is not None:
            self._plan(self._last_frame + self._pace - time.monotonic())

    def _plan(self, delay: float) -> None:
        if self._app.loop is not None and not self._app.loop.is_closed():
            self._timer = self._app.loop.call_later(max(delay, 0), self._frame)

    def _frame(self) -> None:
        self._timer = None
        if self._is_held or self._app.is_away or self._is_stalled() or not self._app.is_running:
            return
        begun = time.monotonic()
        rows, ticks = self._prepare()
        shrank, self._live_rows = rows < self._live_rows, rows
        with self._output.frame():
            if self._pending or self._raw or shrank:
                self._commit()
            else:
                self._app.draw()
        self._last_frame = time.monotonic()
        self._pace = min(max(FRAME_S, FRAME_SHARE * (self._last_frame - begun)), LONGEST_PACE_S)
        self._drawn()
        if self._pending:
            self._plan(CATCH_UP_S)
        self._keep_ticking(ticks)

    def hold(self) -> None:
        """Draw nothing for a moment: what was just asked for is more urgent."""
        if self._app.loop is not None and not self._is_held:
            self._is_held = True
            self._app.loop.call_later(HOLD_S, self._release)

    def _release(self) -> None:
        self._is_held = False
        self.touch()

    def flush(self) -> None:
        """Print everything that waits to be printed: the program is about to leave."""
        while self._pending and self._app.is_running and not (self._app.is_away or self._is_stalled()):
            with self._output.frame():
                self._commit()

    def _commit(self) -> None:
        """Erase, write, draw. As many blocks as fit the time a key may wait; the rest with the next frame."""
        text = self._painted()
        self._app.erase()
        for sequence in self._raw:
            self._output.write_raw(sequence)
        self._raw.clear()
        self._output.write_raw(text.replace("\n", "\r\n"))
        self._app.draw()

    def _painted(self) -> str:
        columns = self._output.get_size().columns
        deadline = time.monotonic() + PAINT_BUDGET_S
        parts: list[str] = []
        while self._pending and (not parts or time.monotonic() < deadline):
            parts.append(self._one(self._pending.popleft(), columns))
        return "".join(parts)

    def _one(self, block: Block, columns: int) -> str:
        text = self._paint(block, columns)
        if not text:
            return ""
        gap = gap_before(self._blocks[-1] if self._blocks else None, block)
        self._blocks.append(block)
        return "\n" + text if gap else text

    def _keep_ticking(self, ticks: bool) -> None:
        """Clocks in the live region go on while something runs."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        if ticks and self._app.loop is not None:
            self._clock = self._app.loop.call_later(1.0, self.touch)

    def write(self, sequence: str) -> None:
        """A control sequence (a title, the bell) with the next frame."""
        self._output.write_raw(sequence)
        self.touch()

    def resized(self) -> None:
        """Take the application off by the old geometry, draw it by the new one; tidy up when it is over."""
        if not self._app.is_running or self._app.is_away or self._is_stalled():
            self._columns = self._output.get_size().columns
            return
        columns = self._output.get_size().columns
        with self._output.frame():
            if columns < self._columns:
                self._app.correct_for_reflow(columns)
            self._app.erase()
            self._prepare()
            self._app.draw()
        previous, self._columns = self._columns, columns
        if self._repair_timer is not None:
            self._repair_timer.cancel()
        if self._app.loop is not None:
            self._repair_timer = self._app.loop.call_later(REPAIR_AFTER_S, self.repair, previous)

    def repair(self, drawn_for: int | None = None) -> None:
        """Draw the last screenful again from its sources, at the width the terminal has now. `drawn_for`:
        the columns the blocks on the screen were drawn for."""
        self._repair_timer = None
        if not self._app.is_running or self._app.is_away or self._is_stalled():
            return
        size = self._output.get_size()
        rows, _ticks = self._prepare()
        self._live_rows = rows
        with self._output.frame():
            self._app.erase()
            room = max(size.rows - self._app.wanted_height(), 0)
            lines = self._last_lines(size.columns, room)
            self._output.write_raw(self._clear(size.rows, size.columns, drawn_for or size.columns, room))
            self._output.write_raw("".join(line + "\r\n" for line in lines))
            self._app.draw()
        self._drawn()

    def _last_lines(self, columns: int, room: int) -> list[str]:
        lines: list[str] = []
        blocks = list(self._blocks)
        for index in range(len(blocks) - 1, -1, -1):
            if len(lines) >= room:
                break
            before = blocks[index - 1] if index else None
            painted = self._paint(blocks[index], columns).split("\n")[:-1]
            lines = ([""] if gap_before(before, blocks[index]) else []) + painted + lines
        return lines[-room:] if room else []

    def _clear(self, rows: int, columns: int, drawn_for: int, room: int) -> str:
        """From the top of the screen where all of it is ours; else from where our first block begins: what
        the shell printed before stays."""
        ours = reflowed_rows(map(ansi_cells, self._last_lines(drawn_for, rows)), columns)
        if ours >= room:
            return "\x1b[H" + "\r\x1b[2K\x1b[B" * (rows - 1) + "\r\x1b[2K\x1b[H"
        return (f"\x1b[{ours}A" if ours else "") + "\r" + CLEAR_DOWN

    def clear(self) -> None:
        """Empty the screen; the scrollback and the conversation stay."""
        rows = self._output.get_size().rows
        self._blocks.clear()
        self._raw.append("\x1b[H" + "\r\x1b[2K\x1b[B" * (rows - 1) + "\r\x1b[2K\x1b[H")
        self.touch()

    @contextlib.asynccontextmanager
    async def lent(self) -> AsyncGenerator[None]:
        """Another program has the terminal inside: an editor, a pager, the shell after a suspend."""
        self._lending()
        async with in_terminal():
            try:
                yield
            finally:
                self._output.forget_modes()
        self._live_rows = 0
        self.touch()

    def close(self) -> None:
        """No more frames."""
        for timer in (self._timer, self._clock, self._repair_timer):
            if timer is not None:
                timer.cancel()
