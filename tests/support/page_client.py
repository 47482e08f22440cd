"""A client of the page that sends what a test wants, also what no browser would: requests as bytes, and
readers of the event stream that can stop reading.

    async with serving(tmp_path, script) as page:
        answer = await page.post("/prompt", {"text": "hi"})
        async with page.events() as reader:
            await reader.until("turn_finished")
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from buddy.headless.formats import SseRecord, parse_sse_event
from buddy.headless.serve.event_log import EventLog
from buddy.headless.serve.event_stream import PageLimits
from buddy.headless.serve.server import listen_on_port, serve_page
from buddy.llm.scripted import Reply
from tests.support.scripted_session import Script, ScriptedSession, scripted_session

DEADLINE_S = 30


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class EventStreamReader:
    """A connection to `/events`."""

    stream: asyncio.StreamReader
    status: int
    headers: dict[str, str]
    records: list[SseRecord] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    _rest: bytes = b""

    async def read(self) -> bool:
        """Read the next record or comment; False at the end. What came with it waits for the next call."""
        while b"\n\n" not in self._rest:
            try:
                size = int(await self.stream.readline() or b"0", 16)
                piece = await self.stream.readexactly(size + 2)
            except (asyncio.IncompleteReadError, ConnectionError, ValueError):
                return False
            if not size:
                return False
            self._rest += piece[:-2]
        whole, _, self._rest = self._rest.partition(b"\n\n")
        text = whole.decode()
        if "\nevent: " in f"\n{text}":
            self.records.append(parse_sse_event(text))
            self.ids += [line[4:] for line in text.split("\n") if line.startswith("id: ")]
        else:
            self.comments.append(text)
        return True

    async def until(self, name: str, count: int = 1) -> None:
        """Read until so many records of this name have come."""
        async with asyncio.timeout(DEADLINE_S):
            while sum(record.event == name for record in self.records) < count:
                assert await self.read(), f"the stream ended before {name}: {self.records}"

    async def to_end(self) -> None:
        """Read until the server ends the stream."""
        async with asyncio.timeout(DEADLINE_S):
            while await self.read():
                pass

    def of(self, name: str) -> list[dict[str, Any]]:
        return [record.data for record in self.records if record.event == name]

    def text(self, task_id: int = 1) -> str:
        deltas = [data for data in self.of("text_delta") if data["task_id"] == task_id]
        return "".join(data["event"]["text"] for data in deltas)


class Page:
    """A served session."""

    def __init__(
        self, scripted: ScriptedSession, port: int, token: str, log: EventLog, warnings: list[str]
    ) -> None:
        self.scripted = scripted
        self.session = scripted.session
        self.port = port
        self.token = token
        self.log = log
        self.warnings = warnings

    def head(self, method: str, path: str, *lines: str, host: str = "", token: str | None = None) -> bytes:
        token = self.token if token is None else token
        first = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}"]
        first += [f"Authorization: Bearer {token}"] if token else []
        return "\r\n".join((*first, *lines, "", "")).encode()

    async def exchange(self, raw: bytes) -> Answer:
        """Send bytes and read one answer."""
        stream, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.timeout(DEADLINE_S):
                writer.write(raw)
                return await _read_answer(stream)
        finally:
            writer.close()

    async def get(self, path: str, *lines: str, host: str = "", token: str | None = None) -> Answer:
        return await self.exchange(self.head("GET", path, *lines, host=host, token=token))

    async def post(self, path: str, body: Any, *lines: str, token: str | None = None) -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = ("Content-Type: application/json", f"Content-Length: {len(raw)}", *lines)
        return await self.exchange(self.head("POST", path, *lines, token=token) + raw)

    @asynccontextmanager
    async def events(self, last_id: str = "") -> AsyncIterator[EventStreamReader]:
        lines = (f"Last-Event-ID: {last_id}",) if last_id else ()
        stream, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1_000_000)
        try:
            async with asyncio.timeout(DEADLINE_S):
                writer.write(self.head("GET", "/events", *lines))
                status, headers = await _read_head(stream)
            yield EventStreamReader(stream, status, headers)
        finally:
            writer.close()


async def _read_head(stream: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await stream.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    return int(lines[0].split()[1]), headers


async def _read_answer(stream: asyncio.StreamReader) -> Answer:
    status, headers = await _read_head(stream)
    body = await stream.readexactly(int(headers["content-length"])) if "content-length" in headers else b""
    return Answer(status, headers, body)


@asynccontextmanager
async def serving(
    root: Path,
    script: Script | Sequence[Reply] = (),
    *,
    limits: PageLimits | None = None,
    max_bytes: int = 4_000_000,
    **more: Any,
) -> AsyncIterator[Page]:
    """Open a session and serve it on a free port."""
    warnings: list[str] = []
    async with scripted_session(root, script, **more) as scripted:
        log = EventLog(max_bytes=max_bytes)
        listener = listen_on_port(0)
        port = listener.getsockname()[1]
        async with serve_page(scripted.session, listener, warnings.append, limits=limits, log=log) as address:
            yield Page(scripted, port, address.token, log, warnings)
