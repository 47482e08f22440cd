"""Output to a dumb terminal: whole lines, and a prompt that is written once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from buddy.repl.blocks import ApprovalAsked, Block, Expanded, gap_before
from buddy.repl.lazy_paint import LazyPainter
from buddy.repl.output import TerminalWriter, encoded, terminal_size
from buddy.repl.style import Look


class LineOutput:
    """Writes blocks and the prompt. `on_gone`: the terminal or the pipe takes nothing any more."""

    def __init__(self, fd: int, encoding: str, look: Look, on_gone: Callable[[], None]) -> None:
        self._fd = fd
        self._encoding = encoding
        self._terminal = TerminalWriter(fd, on_gone)
        self._prompt = look.glyphs.prompt + " "
        self._before: Block | None = None
        self.paint = LazyPainter(look)
        self.at_prompt = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on a terminal that was stopped (Ctrl+S) holds up nothing but what is written to it."""
        self._terminal.attach(loop, lambda: None)

    def close(self) -> None:
        """Write what is left, then nothing more."""
        self.leave_prompt()
        self._terminal.close()

    @property
    def columns(self) -> int:
        """Width of the terminal."""
        return terminal_size(self._fd).columns

    def blocks(self, *blocks: Block) -> bool:
        """Write blocks; whether there was something to see."""
        text = ""
        for block in blocks:
            shown = Expanded(block) if isinstance(block, ApprovalAsked) else block  # no key unfolds it here
            painted = self.paint(shown, self.columns)
            if painted:
                text += ("\n" if gap_before(self._before, block) else "") + painted
                self._before = block
        if text:
            self.say(text)
        return bool(text)

    def say(self, text: str) -> None:
        """Write whole lines."""
        self.leave_prompt()
        self._write(text)

    def ask(self, begun: str = "") -> None:
        """Write the prompt, if it does not stand there, and what was handed over of the line behind it."""
        if not self.at_prompt:
            self.at_prompt = True
            self._write(self._prompt + begun)

    def leave_prompt(self) -> None:
        """End the line the prompt stands in."""
        if self.at_prompt:
            self.at_prompt = False
            self._write("\n")

    def line_ended(self) -> None:
        """The terminal itself has gone to a new line: something was entered, or another program wrote."""
        self.at_prompt = False
        self._before = None

    def _write(self, text: str) -> None:
        self._terminal.write(encoded(text, self._encoding))
