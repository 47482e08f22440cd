"""Pacing of an editor that does not read: while what buddy writes is stuck, little more is read from it."""

from __future__ import annotations

import asyncio

MAX_LINES = 1_000
"""Lines that are still read while nothing can be written: an editor may write much before it reads."""


class Outflow:
    """The state of buddy's side of the wire."""

    def __init__(self) -> None:
        self._waiting = 0
        self._lines = 0
        self._free = asyncio.Event()
        self._free.set()

    def begin(self) -> None:
        """Note that a write waits for the editor."""
        self._waiting += 1
        self._free.clear()

    def end(self) -> None:
        """Note that such a write is through, or failed."""
        self._waiting -= 1
        if not self._waiting:
            self._lines = 0
            self._free.set()

    async def admit_line(self) -> None:
        """Wait until another line may be read."""
        if not self._waiting:
            return
        self._lines += 1
        if self._lines > MAX_LINES:
            await self._free.wait()


class PacedWriter(asyncio.StreamWriter):
    """Writes lines, and tells where they get stuck."""

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        protocol: asyncio.BaseProtocol,
        loop: asyncio.AbstractEventLoop,
        outflow: Outflow,
    ) -> None:
        super().__init__(transport, protocol, None, loop)
        self._outflow = outflow

    async def drain(self) -> None:
        """Wait until the editor has read enough."""
        self._outflow.begin()
        try:
            await super().drain()
        finally:
            self._outflow.end()
