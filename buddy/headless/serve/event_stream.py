"""`GET /events`: the log as server-sent events, to one reader.

A reader that is up to date is live: new records go straight into its connection, the same bytes for all
readers, instead of by a task, two timers and an HTTP state machine for each reader and frame. One that has
fallen behind gets a `reset` record, after which it loads the session again. One that does not read at all is
disconnected, because its connection holds memory. None ever holds up the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec

from buddy.headless.serve.event_log import EventLog, LivePush, LogReader
from buddy.headless.serve.guard import Receive, Scope, Send, send_error

MAX_READERS = 200
CHUNK_BYTES = 64_000
LIVE_BYTES = 64_000
"""Bytes that a connection may hold back; then the server waits for it, as for any other answer."""
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),  # a proxy in front passes events on at once
]
RETRY = b"retry: 1000\n\n"
HEARTBEAT = b": still here\n\n"


class PageLimits(msgspec.Struct, frozen=True):
    """Seconds: between heartbeats of a quiet stream; until a reader that takes nothing is disconnected; for a
    body to arrive; for the first request of a connection."""

    heartbeat_s: float = 15.0
    stalled_s: float = 30.0
    body_s: float = 20.0
    first_request_s: float = 20.0


class PageEvents:
    """The endpoint. `warn` takes a sentence for the user."""

    def __init__(self, log: EventLog, warn: Callable[[str], None], limits: PageLimits) -> None:
        self._log = log
        self._warn = warn
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events from after `Last-Event-ID`, or from now on, until the reader or the session goes."""
        if len(self._log.readers) >= MAX_READERS:
            await send_error(send, 503, f"{MAX_READERS} readers are connected already")
            return
        sent = [value for name, value in scope["headers"] if name == b"last-event-id"]
        last_id = sent[-1].decode("latin-1") if sent else ""
        reader = self._log.follow(last_id)
        why = "" if reader else "the id is of another run, or too old"
        reader = reader or cast(LogReader, self._log.follow(""))
        watching = asyncio.create_task(_wait_until_gone(receive, reader))
        push = _push_to(scope)
        try:
            async with asyncio.timeout(self._limits.stalled_s):
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                await send(_body(RETRY + (self._reset(reader, why) if why else b"")))
            while not watching.done():
                if reader.is_behind:
                    chunk = self._reset(reader, "this reader was too slow")
                else:
                    chunk = reader.take(CHUNK_BYTES) or await self._wait(reader, push)
                async with asyncio.timeout(self._limits.stalled_s):
                    await send(_body(chunk))
                if self._log.is_closed and reader.position == self._log.newest:
                    break
            if not watching.done():
                await send({"type": "http.response.body", "body": b"event: end\ndata: {}\n\n"})
        except TimeoutError:
            self._warn("a reader of the page stopped reading and was disconnected; it can connect again")
            # Closing would wait until the reader takes what was sent to it, which it may never do.
            cast(asyncio.Transport, scope["state"]["transport"]).abort()
            await watching  # uvicorn takes an end before the connection's for a bug
        finally:
            watching.cancel()
            reader.close()

    async def _wait(self, reader: LogReader, push: LivePush | None) -> bytes:
        """Wait for records that are not handed over, the reader's end, or the time of a heartbeat."""
        reader.wake.clear()
        if self._log.is_closed or reader.position < self._log.newest:
            return b""
        if push is not None:
            reader.go_live(push)
        try:
            async with asyncio.timeout(self._limits.heartbeat_s):
                await reader.wake.wait()
        except TimeoutError:
            return HEARTBEAT
        return b""

    def _reset(self, reader: LogReader, why: str) -> bytes:
        reader.skip_to_end()
        data = msgspec.json.encode({"reason": why})
        return b"id: %b\nevent: reset\ndata: %b\n\n" % (self._log.id_of(reader.position).encode(), data)


def _push_to(scope: Scope) -> LivePush | None:
    """Return a function that writes a chunk of the answer's body into the connection; None for a client of
    HTTP/1.0, whose bodies have no chunks. Between two of the server's own writes, a whole chunk may stand."""
    if scope["http_version"] != "1.1":
        return None
    transport = cast(asyncio.WriteTransport, scope["state"]["transport"])

    def push(chunk: bytes) -> bool:
        if transport.is_closing() or transport.get_write_buffer_size() > LIVE_BYTES:
            return False
        transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        return True

    return push


def _body(chunk: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": chunk, "more_body": True}


async def _wait_until_gone(receive: Receive, reader: LogReader) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.wake.set()
