"""Lines as a terminal hands them over: whole, and at once where they were pasted.

The line discipline gives one line to each read, so a paste is several reads without a pause between them. A
person can't end two lines that fast.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

READ_BYTES = 65536
GATHER_S = 0.03
"""Lines that follow each other within this time came in one piece."""


class LineInput:
    """Reads a descriptor. `entered` takes a text and whether it was pasted: several lines are one text,
    unless each of them is a command. `ended` is called for each end of the input; a terminal goes on after
    one (Ctrl+D)."""

    def __init__(
        self, fd: int, encoding: str, entered: Callable[[str, bool], None], ended: Callable[[], None]
    ) -> None:
        self._fd = fd
        self._encoding = encoding
        self._entered = entered
        self._ended = ended
        self._partial = b""
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to read."""
        self._loop = loop
        loop.add_reader(self._fd, self._read)

    def close(self) -> None:
        """Read no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None:
            self._loop.remove_reader(self._fd)

    @property
    def unfinished(self) -> str:
        """Input without a line end so far; Ctrl+D submits it."""
        return self._partial.decode(self._encoding, "replace")

    def forget(self) -> None:
        """An interrupt: what was begun is dropped, as the terminal does with its own part of it."""
        self._partial = b""
        self._lines.clear()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self._hand_over()
            self._ended()
            return
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._lines += (line.decode(self._encoding, "replace").removesuffix("\r") for line in lines)
        if self._lines and self._loop is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(GATHER_S, self._hand_over)

    def _hand_over(self) -> None:
        lines, self._lines = self._lines, []
        pasted = len(lines) > 1
        if pasted and all(line.startswith("/") for line in lines):
            for line in lines:
                self._entered(line, True)
        elif lines:
            self._entered("\n".join(lines), pasted)
