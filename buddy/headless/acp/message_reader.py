"""The editor's side of the wire, without lines that would end the connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.headless.acp.outflow import Outflow

TOO_LONG = "buddy/message_too_long"
"""The method of the request that stands for one whose line was too long: it is refused with the reason."""
_EDGE_BYTES = 2_000
_FIELD = pattern(rb'[{,]\s*"(jsonrpc|id|method)"\s*:\s*("[^"\\]{0,200}"|-?\d{1,18}|null)')


class _Message(msgspec.Struct):
    """The part of a message that the protocol's package relies on."""

    id: int | float | str | None = None
    method: Any = None
    error: dict[str, Any] | None = None


class MessageReader(asyncio.StreamReader):
    """Reads lines; skips and reports one that is no JSON-RPC message, on which the package would crash, and
    one that is longer than `limit`, which is never held whole."""

    def __init__(self, report: Callable[[str], None], outflow: Outflow, *, limit: int) -> None:
        super().__init__(limit=limit)
        self._outflow = outflow
        self._report = report
        self._limit_bytes = limit

    async def readuntil(self, separator: Any = b"\n") -> bytes:
        """Return the next line that holds a message, or what is blank. For a line over the limit, return a
        message that makes it fail: a refused request, or an answer with an error."""
        while True:
            await self._outflow.admit_line()
            try:
                line = await super().readuntil(separator)
            except asyncio.LimitOverrunError as error:
                line = await self._skip_line(error.consumed, separator)
                self._report(f"buddy: a line of the editor has more than {self._limit_bytes:,} bytes\n")
                if not line:
                    continue
            if not line.strip() or _is_message(line):
                return line
            self._report("buddy: a line of the editor is no JSON-RPC message; it was skipped\n")

    async def _skip_line(self, available: int, separator: Any) -> bytes:
        """Drop a line in pieces; return what stands for it, b"" for nothing."""
        head = tail = b""
        while True:
            piece = await self.readexactly(available)
            head += piece[: _EDGE_BYTES - len(head)]
            tail = (tail + piece)[-_EDGE_BYTES:]
            try:
                rest = await super().readuntil(separator)
                break
            except asyncio.LimitOverrunError as error:
                available = error.consumed
        return _stand_in(head, (tail + rest)[-_EDGE_BYTES:], self._limit_bytes)


def _stand_in(head: bytes, tail: bytes, limit: int) -> bytes:
    fields = _fields_at_start(head)
    if "id" not in fields:
        fields |= _fields_at_end(tail)
    if "id" not in fields:
        return b""
    words = f"this message is longer than {limit:,} bytes, which is more than buddy reads"
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": fields["id"]}
    if "method" in fields:
        message |= {"method": f"_{TOO_LONG}", "params": {"details": words}}
    else:
        message["error"] = {"code": -32600, "message": words}
    return json.dumps(message).encode() + b"\n"


def _fields_at_start(head: bytes) -> dict[str, Any]:
    """Return the fields that stand before the long one."""
    fields: dict[str, Any] = {}
    at = len(head) - len(head.lstrip())
    while (found := _FIELD().match(head, at)) is not None:
        fields[found[1].decode()] = json.loads(found[2])
        at = found.end() + len(head[found.end() :]) - len(head[found.end() :].lstrip())
    return fields


def _fields_at_end(tail: bytes) -> dict[str, Any]:
    """Return the fields that stand behind the long one: those that reach to the last brace."""
    fields: dict[str, Any] = {}
    end = tail.rstrip()
    if not end.endswith(b"}"):
        return fields
    end = end[:-1].rstrip()
    for found in reversed(list(_FIELD().finditer(end))):
        if found.end() != len(end):
            break
        fields[found[1].decode()] = json.loads(found[2])
        end = end[: found.start()].rstrip()
    return fields


def _is_message(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=_Message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
