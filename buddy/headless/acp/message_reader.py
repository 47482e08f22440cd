"""The editor's side of the wire, without lines that would end the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec


class _Message(msgspec.Struct):
    """The part of a message that the protocol's package relies on."""

    id: int | float | str | None = None
    method: Any = None
    error: dict[str, Any] | None = None


class MessageReader(asyncio.StreamReader):
    """Reads lines; skips and reports one that is no JSON-RPC message, on which the package would crash."""

    def __init__(self, report: Callable[[str], None], *, limit: int) -> None:
        super().__init__(limit=limit)
        self._report = report
        self._is_partial = False

    async def readuntil(self, separator: Any = b"\n") -> bytes:
        """Return the next line that holds a message, or what is blank. A line over the limit passes in
        pieces, which nothing here can judge."""
        while True:
            try:
                line = await super().readuntil(separator)
            except asyncio.LimitOverrunError:
                self._is_partial = True
                raise
            if self._is_partial or not line.strip() or _is_message(line):
                self._is_partial = False
                return line
            self._report("buddy: a line of the editor is no JSON-RPC message; it was skipped\n")


def _is_message(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=_Message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
