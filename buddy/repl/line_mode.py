"""The REPL of a dumb terminal: plain lines in, plain lines out, no escape sequence, no live region.

Text appears block by block as it is finished. Requests for approval are announced and answered as everywhere:
by a line that is exactly y, a, p or n, or by a command.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable

from buddy.agent.events import TaskEvent
from buddy.repl.approvals import REFUSALS, TypedLine, answer_of
from buddy.repl.blocks import Block, gap_before
from buddy.repl.intents import Answer, Cancel, Intent, parse_line
from buddy.repl.lazy_paint import LazyPainter
from buddy.repl.leaving import Ending, signals_end
from buddy.repl.output import terminal_size
from buddy.repl.style import Look
from buddy.repl.view import focus, fold
from buddy.repl.view_state import DeskFacts, ViewState

READ_BYTES = 65536


class LineRepl:
    """Reads lines from one descriptor, writes blocks to another."""

    def __init__(
        self,
        *,
        look: Look,
        stdin: int,
        stdout: int,
        encoding: str,
        desk: Callable[[], DeskFacts],
        act: Callable[[Intent], None],
        clock: Callable[[], float],
    ) -> None:
        self.state = ViewState()
        self.state.desk = desk()
        self._stdin = stdin
        self._stdout = stdout
        self._encoding = encoding
        self._desk = desk
        self._act = act
        self._clock = clock
        self._paint = LazyPainter(look)
        self._prompt = look.glyphs.prompt + " "
        self._before: Block | None = None
        self._ended: asyncio.Future[Ending] | None = None
        self._partial = b""

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> Ending:
        """Until the input ends or `end` is called."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        loop.add_reader(self._stdin, self._read)
        show = loop.create_task(self._show(events))
        show.add_done_callback(self._source_ended)
        try:
            with signals_end(loop, self.end, lambda: None, lambda: None):
                self._write(self._prompt)
                return await self._ended
        finally:
            loop.remove_reader(self._stdin)
            show.cancel()
            await asyncio.gather(show, return_exceptions=True)

    def end(self, ending: Ending) -> None:
        """Leave; the first reason counts."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(ending)

    def print(self, *blocks: Block) -> None:
        """Print blocks, and the prompt again after them."""
        columns = terminal_size(self._stdout).columns
        text = ""
        for block in blocks:
            painted = self._paint(block, columns)
            if painted:
                text += ("\n" if gap_before(self._before, block) else "") + painted
                self._before = block
        if text:
            self._write("\n" + text + self._prompt)

    async def _show(self, events: AsyncIterator[list[TaskEvent]]) -> None:
        async for batch in events:
            blocks = focus(self.state, self._desk())
            for event in batch:
                blocks += fold(self.state, event)
            for row in self.state.inbox:
                row.drawn_at = row.drawn_at if row.drawn_at is not None else self._clock()
            self.print(*blocks)
            self._mark()

    def _mark(self) -> None:
        """The oldest request is the marked one as soon as it is announced as such."""
        row = self.state.marked()
        if row is not None and row.marked_at is None:
            row.marked_at = self._clock()
            rule = ", p = always" if row.rule else ""
            self._write(f"\n[waiting for you] y = once, a = this session{rule}, n = no\n{self._prompt}")

    def _source_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)

    def _read(self) -> None:
        try:
            data = os.read(self._stdin, READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self.end("left")
            return
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._line(line.decode(self._encoding, "replace"), several=len(lines) > 1)

    def _line(self, text: str, *, several: bool) -> None:
        # The terminal hands over whole lines: nobody knows when one was begun. Its arrival is taken, so a
        # request has to be on the screen that long before Enter; several lines at once were pasted.
        now = self._clock()
        match answer_of(TypedLine(text, several, now, now + 1.0), self.state.marked()):
            case "too soon" | "pasted" | "no rule" as why:
                self._write(REFUSALS[why] + "\n" + self._prompt)
            case Answer() as answer:
                self._act(answer)
            case None:
                line = parse_line(text, self.state.desk.names, typed=not several)
                if line is not None:
                    self._act(line)
                self._write(self._prompt)

    def cancel(self) -> None:
        """What an interrupt does: end the turn in front."""
        self._act(Cancel())

    def _write(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        try:
            while data:
                data = data[os.write(self._stdout, data) :]
        except OSError:  # the terminal or the pipe is gone
            self.end("gone")
