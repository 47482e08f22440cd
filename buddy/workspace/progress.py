"""Output on its way to the screen while a command runs: bounded in rate and in size."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable

from buddy.agent.counting import counted
from buddy.workspace.output import from_character

INTERVAL_S = 0.05
MAX_PIECE_BYTES = 4096


class ProgressFeed:
    """Passes output on as text, at most every 50 ms and at most 4 kB at a time; what is too much for that is
    left out with a line that says so."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = bytearray()
        self._skipped = 0
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        """Take what was just read."""
        self._waiting += data
        excess = len(self._waiting) - MAX_PIECE_BYTES
        if excess > 0:
            del self._waiting[:excess]
            self._skipped += excess
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._flush)

    def _flush(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        note = ""
        if self._skipped:
            # The decoder may hold half a character of what is now left out.
            self._decoder.reset()
            self._waiting = bytearray(from_character(bytes(self._waiting)))
            note = f"\n[… {counted(self._skipped, 'byte')} not shown …]\n"
            self._skipped = 0
        text = note + self._decoder.decode(bytes(self._waiting))
        self._waiting.clear()
        if text:
            self._show(text)

    def close(self) -> None:
        """Pass on what waits; nothing more will come."""
        if self._timer is not None:
            self._timer.cancel()
        self._flush()
        rest = self._decoder.decode(b"", final=True)
        if rest:
            self._show(rest)
