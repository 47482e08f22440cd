"""Server-sent events: bytes in, events out. Any fragmentation of the same bytes gives the same events.

Data stays bytes: it is JSON, and the JSON decoder takes bytes. Comments, blank lines, `id:` and `retry:` make
no event; whoever reads the bytes knows that something arrived. Two leniencies for what servers really send: a
last event without its blank line counts (`end`), and a line that is a bare JSON object, without `data:`,
is an event of its own (gateways put their error objects there).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from buddy.llm.loose_json import dumps

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""An event (or a line) longer than this is not a model's answer."""

BOM = b"\xef\xbb\xbf"


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event. `name` is "" unless the server named it; `data` has its lines joined by a line feed."""

    name: str
    data: bytes


class SseError(ValueError):
    """The bytes are no event stream: one sentence."""


class SseParser:
    """Feed it the body as it arrives; call `end` when it ended."""

    __slots__ = ("_after_cr", "_bytes", "_data", "_events", "_name", "_started", "_tail")

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._data: list[bytes] = []
        self._name = ""
        self._bytes = 0
        self._after_cr = False
        self._started = False
        self._events: list[SseEvent] = []

    def feed(self, chunk: bytes) -> Sequence[SseEvent]:
        """The events these bytes complete. Raises `SseError` when one grows beyond `MAX_EVENT_BYTES`."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return ()
        if self._tail:
            self._tail.append(chunk)
            chunk = b"".join(self._tail)
            self._tail.clear()
        self._events = []
        lines = chunk.splitlines()
        self._bytes = sum(map(len, self._data))
        if chunk.endswith(b"\r"):
            self._after_cr = True
        elif not chunk.endswith(b"\n"):
            self._keep(lines.pop())
        for line in lines:
            self._take(line)
        return self._events

    def end(self) -> Sequence[SseEvent]:
        """Return the events left when the body ends without a closing blank line."""
        self._events = []
        if self._tail:
            self._take(b"".join(self._tail))
            self._tail.clear()
        self._dispatch()
        return self._events

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._tail.append(piece)
            self._count(len(piece))

    def _count(self, more: int) -> None:
        self._bytes += more
        if self._bytes > MAX_EVENT_BYTES:
            raise SseError(f"an event of the stream is longer than {MAX_EVENT_BYTES // 1024**2} MB")

    def _take(self, line: bytes) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(BOM)
        if not line:
            self._dispatch()
        elif line.startswith(b"data:"):
            data = line[6:] if line[5:6] == b" " else line[5:]
            self._data.append(data)
            self._count(len(data))
        elif line.startswith(b"event:"):
            self._name = line[6:].decode("utf-8", "replace").strip()
        elif line.startswith(b"error:"):
            # llama.cpp's own field: the reason why its stream ends here.
            self._dispatch()
            self._name = "error"
            reason = line[6:].strip()
            self._data.append(reason if reason.startswith(b"{") else _as_error(reason))
            self._dispatch()
        elif line.startswith(b"{"):
            self._dispatch()
            self._data.append(line)
            self._dispatch()

    def _dispatch(self) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            self._events.append(SseEvent(self._name, data))
            self._data.clear()
        self._name = ""
        self._bytes = 0


def _as_error(reason: bytes) -> bytes:
    return dumps({"error": {"message": reason.decode("utf-8", "replace")}})
