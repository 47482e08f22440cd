"""A person who types into a running buddy, a key at a time, and looks that it shows."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.support.terminal import Terminal


def resident_kb(pid: int) -> int:
    """Return the memory a process uses."""
    for line in Path(f"/proc/{pid}/status").read_text().split("\n"):
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


class Typist:
    """Types a key at a time, looks that it shows, and how much memory the program has then."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.typed = ""
        self.seconds: list[float] = []
        self.peak_kb = 0

    @property
    def usual_slowest_s(self) -> float:
        """Return the time the third slowest key took to show: the machine itself may have stood still."""
        return max(sorted(self.seconds)[:-2], default=0.0)

    async def key(self) -> None:
        """Type the next letter and wait until it shows."""
        letter = "abcdefghijklmnopqrstuvwxyz"[len(self.typed) % 26]
        begin = time.monotonic()
        self.terminal.keys(letter)
        self.typed += letter
        await self.terminal.until(lambda: self.terminal.input_line() == self.typed, f"typed {self.typed}")
        self.seconds.append(time.monotonic() - begin)
        self.peak_kb = max(self.peak_kb, resident_kb(self.terminal.process.pid))

    async def keys_while(self, busy: asyncio.Task[None]) -> None:
        """Type as long as something goes on, twenty keys at least."""
        while not busy.done() or len(self.typed) < 20:
            await self.key()
            await asyncio.sleep(0.01)
        await busy
