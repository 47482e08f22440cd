"""The one writer of the terminal: frames, finished blocks, live repaints, resize repair."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from prompt_toolkit.application.run_in_terminal import in_terminal

from buddy.repl.render.style import FRAMES_PER_S
from buddy.repl.screen.application import InlineApplication
from buddy.repl.screen.output import FrameOutput, clear_screen, up_and_clear
from buddy.repl.screen.paint_queue import PaintAhead
from buddy.repl.screen.scrollback import (
    REPAIR_AFTER_S,
    TOLD_LATE_S,
    Paint,
    PrintedBlocks,
    Reflow,
    reflowed_rows,
)
from buddy.repl.view.blocks import Block


class Countdown:
    """Calls `over` so many seconds after it was started last."""

    def __init__(self, over: Callable[[], None]) -> None:
        self._over = over
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        """Tell whether the countdown is running."""
        return self._timer is not None

    def start(self, loop: asyncio.AbstractEventLoop | None, seconds: float) -> None:
        """Restart the countdown; without a loop do nothing."""
        self.stop()
        if loop is not None and not loop.is_closed():
            self._timer = loop.call_later(max(seconds, 0), self._end)

    def _end(self) -> None:
        self._timer = None
        self._over()

    def stop(self) -> None:
        """Cancel the countdown."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


FRAME_S = 1 / FRAMES_PER_S
FRAME_SHARE = 4
LONGEST_PACE_S = 0.2
"""Frames take a quarter of the time at most: where one takes long (fifty tasks, a busy machine) they come
less often, so that keys do not wait behind them; five times a second in any case."""
HOLD_S = 0.012
"""What was asked for goes before showing it: a frame is 1 to 5 ms of the 20 a cancelled stream may live."""


class Screen:
    """The terminal screen and its frames. `prepare`, called before each paced frame, returns how many rows
    the live part takes and whether it changes by itself; `drawn` is called after each frame, `lending` before
    another program gets the terminal."""

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
        reflow: Reflow = Reflow(),  # noqa: B008 - a record that nobody changes
    ) -> None:
        self._app, self._output = application, output
        self._ahead = PaintAhead(paint, self.touch)
        self.waiting: Iterable[Block] = self._ahead.waiting  # what is not printed yet
        self._printed, self._reflow = PrintedBlocks(self._ahead), reflow
        self._settling = Countdown(self._refit)
        self._next, self._held, self._clock = map(Countdown, (self._frame, self.touch, self.touch))
        self._is_stalled, self._prepare, self._drawn, self._lending = is_stalled, prepare, drawn, lending
        self._raw: list[str] = []
        self._pace, self._last_frame, self._live_rows = FRAME_S, 0.0, 0
        self._is_misfit = self._is_unknown = self._is_foreign = False
        self._size = self._told = output.get_size()
        application.may_draw = lambda: not (self._held.is_on or self._settling.is_on or is_stalled())
        application.on_resize = self.resize

    def show(self, blocks: Sequence[Block]) -> None:
        """Print blocks above the prompt, and draw what is live."""
        self._ahead.add(blocks)
        self.touch()

    @property
    def _is_ours(self) -> bool:
        """Tell whether the application runs, the terminal accepts output, and no other program has it."""
        return self._app.is_running and not (self._app.is_away or self._is_stalled())

    def touch(self) -> None:
        """Draw a change of the live part with the next frame."""
        if not self._next.is_on:
            self._next.start(self._app.loop, self._last_frame + self._pace - time.monotonic())

    def _frame(self) -> None:
        if self._held.is_on or self._settling.is_on or not self._is_ours or self._grew_stale():
            return
        begun = time.monotonic()
        is_ready = self._ahead.is_ready(self._size.columns)
        rows, ticks = self._prepare()
        shrank, self._live_rows = rows < self._live_rows, rows
        with self._output.frame():
            if is_ready or self._raw or shrank:
                self._commit(self._ahead.take())
            else:
                self._app.draw()
        self._last_frame = time.monotonic()
        self._pace = min(max(FRAME_S, FRAME_SHARE * (self._last_frame - begun)), LONGEST_PACE_S)
        self._drawn()
        self._ahead.go_on(self._size.columns)
        self._clock.stop()
        if ticks:  # clocks in the live region go on while something runs
            self._clock.start(self._app.loop, 1.0)

    def hold(self) -> None:
        """Draw nothing for a moment: what was just asked for is more urgent."""
        if not self._held.is_on:
            self._held.start(self._app.loop, HOLD_S)

    def flush(self) -> None:
        """Print all waiting blocks: the program is about to exit."""
        blocks = self._ahead.take(unpainted=True)
        if blocks and self._is_ours:
            with self._output.frame():
                self._commit(blocks)

    def _commit(self, blocks: Sequence[Block]) -> None:
        """Erase the application, write the blocks, draw it again."""
        text = "".join(self._printed.add(block, self._size.columns) for block in blocks)
        self._ahead.forget(blocks)
        self._settle()
        self._app.erase()
        self._output.write_raw("".join(self._raw) + text.replace("\n", self._output.line_end()))
        self._raw.clear()
        self._app.draw()
        self._printed.wrote(text)
        self._settle()

    def _settle(self) -> None:
        """Account for an application that was taller for a while: what it pushed up does not come back."""
        self._printed.leave_room(self._size.rows - self._app.take_tallest())

    def write(self, sequence: str) -> None:
        """Write a control sequence with the next frame."""
        self._output.write_raw(sequence)
        self.touch()

    def _grew_stale(self) -> bool:
        """Tell whether the size changed without a signal yet, and handle the change: after a blocked event
        loop, timers run before the signal."""
        if is_stale := self._output.get_size() != self._told:
            self.resize()
        return is_stale

    def resize(self) -> None:
        """Erase the application by the old geometry and draw it by the new one; repair when resizing ends."""
        self._told = self._output.get_size()
        self._is_misfit = self._settling.is_on or self._reflow.is_told_late
        if not self._is_misfit:
            self._fit()
        elif not self._reflow.is_told_late:
            rows = reflowed_rows(self._app.drawn_widths(), self._told.columns)
            self._is_unknown |= rows > self._told.rows
        self._settling.start(self._app.loop, TOLD_LATE_S if self._reflow.is_told_late else REPAIR_AFTER_S)

    def _fit(self) -> None:
        before, self._size = self._size, self._output.get_size()
        if not self._is_ours:
            self._printed.leave_room(0)
            return
        self._printed.leave_room(before.rows - self._app.take_tallest())
        widths = self._app.drawn_widths()
        with self._output.frame():
            if self._reflow.wraps_again and self._size.columns < before.columns:
                self._app.correct_for_reflow(self._size.columns)
            self._app.erase()
            self._prepare()
            self._app.draw()
        fits = self._printed.rewrap(before, self._size, widths)
        self._is_unknown |= not (self._reflow.wraps_again and fits)
        self._settle()

    def _refit(self) -> None:
        """Draw again what is wholly on the screen, at the width of now; all of it where that is not known."""
        if self._grew_stale():
            return
        if self._is_misfit:
            self._fit()
        self.touch()
        if self._is_unknown:
            self.repair()
            return
        if not self._is_ours:
            return
        self._live_rows, _ticks = self._prepare()
        self._settle()
        with self._output.frame():
            self._app.erase()
            taken, text = self._printed.again(self._size.columns)
            self._output.write_raw(up_and_clear(taken) + text.replace("\n", self._output.line_end()))
            self._app.draw()
        self._settle()
        self._drawn()

    def repair(self) -> None:
        """Draw the last screenful again from its sources, whatever stands there."""
        self._is_unknown = True
        if not self._is_ours or self._settling.is_on:
            return
        self._live_rows, _ticks = self._prepare()
        columns, rows = self._size.columns, self._size.rows
        with self._output.frame():
            self._app.erase()
            room = max(rows - self._app.wanted_height(), 0)
            lines = self._printed.last(columns, room)
            ours = self._printed.standing(columns, rows)
            if ours < room and self._is_foreign and not self._printed.rows:
                lines, ours = [], 0  # the shell printed below it: it stands as it was
            self._output.write_raw(up_and_clear(ours) if ours < room else self._clear_all())
            self._output.write_raw("".join(line + self._output.line_end() for line in lines))
            self._app.draw()
        self._printed.record_redraw(columns, lines)
        self._is_unknown = False
        self._is_foreign = self._is_foreign and not lines
        self._settle()
        self._drawn()

    def clear(self) -> None:
        """Empty the screen; the scrollback and the conversation stay."""
        self._printed.clear()
        self._raw.append(self._clear_all())
        self.touch()

    def _clear_all(self) -> str:
        return clear_screen(self._size.rows, has_graphics=self._printed.has_graphics)

    @contextlib.asynccontextmanager
    async def lent(self) -> AsyncGenerator[None]:
        """Lend the terminal to another program: an editor, a pager, the shell after a suspend."""
        self._lending()
        async with in_terminal():
            try:
                yield
            finally:
                self._output.forget_modes()
                self._size = self._told = self._output.get_size()
                self._printed.leave_room(0)
                self._is_foreign = True
        self._live_rows = 0
        self.touch()

    def close(self) -> None:
        """Stop drawing frames."""
        for one in (self._ahead, self._next, self._settling, self._held, self._clock):
            one.stop()
