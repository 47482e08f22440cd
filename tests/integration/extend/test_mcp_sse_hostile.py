"""Old servers with an address (SSE) that lie, break off or never answer."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from buddy.agent.tool import ToolError
from tests.support.mcp_remote import Client, Request, connecting, honest, http, plain_server, text_result

EVENTS = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n"
ENDPOINT = b"event: endpoint\ndata: /messages?session_id=1\n\n"
CLASS_NAME = re.compile(r"\b[A-Z][a-zA-Z]*(?:Error|Exception|Closed|Group)\b|Errno|0x[0-9a-f]{6}")


class OldServer:
    """A server whose answers come as events of one stream. `answer` makes the events of a call; `posted` is
    the answer to the posting of a call."""

    def __init__(self, answer: Any = None, posted: bytes = http(202, kind="")) -> None:
        self._answer = answer
        self._posted = posted
        self._events: asyncio.StreamWriter | None = None

    async def serve(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            self._events = writer
            writer.write(EVENTS + ENDPOINT)
            return
        assert self._events is not None
        if request.rpc == "tools/call":
            writer.write(self._posted)
            if self._answer is not None:
                await self._answer(request, self._events)
            return
        writer.write(http(202, kind=""))
        body = honest(request).partition(b"\r\n\r\n")[2]
        if body:
            self._events.write(b"event: message\ndata: " + body + b"\n\n")
            await self._events.drain()


async def call_at(client: Client) -> str:
    await client.ready()
    with pytest.raises(ToolError) as caught:
        await client.call(text="a")
    assert not CLASS_NAME.search(str(caught.value)), caught.value
    assert not CLASS_NAME.search(client.server.reason), client.server.reason
    return str(caught.value)


async def test_a_second_answer_and_noise_are_dropped(tmp_path: Path) -> None:
    async def answer(request: Request, events: asyncio.StreamWriter) -> None:
        first, second = (json.dumps(text_result(request, text)).encode() for text in ("one", "two"))
        for data in (b"nonsense", b"[]", first, second, b'{"jsonrpc": "2.0", "id": 900, "result": {}}'):
            events.write(b"event: message\ndata: " + data + b"\n\n")
        events.write(b"event: other\ndata: x\n\n: note\n\n")
        await events.drain()

    server = OldServer(answer)
    async with plain_server(server.serve) as (url, _), connecting(tmp_path, url, "sse") as client:
        await client.ready()
        assert await client.call(text="a") == "one"
        assert await client.call(text="b") == "one"


async def test_leaving_while_the_stream_is_open_ends_at_once(tmp_path: Path) -> None:
    server = OldServer()
    async with plain_server(server.serve) as (url, _):
        async with asyncio.timeout(20):
            async with connecting(tmp_path, url, "sse") as client:
                await client.ready()
        assert client.server.state == "waiting"


async def test_a_stream_that_breaks_off_costs_its_calls(tmp_path: Path) -> None:
    async def answer(_request: Request, events: asyncio.StreamWriter) -> None:
        events.close()

    server = OldServer(answer)
    async with plain_server(server.serve) as (url, _), connecting(tmp_path, url, "sse") as client:
        assert "ended the connection" in await call_at(client)


@pytest.mark.parametrize(
    ("posted", "said"),
    [
        (http(500, "oops", "text/plain"), "HTTP 500 Internal Server Error: oops"),
        (http(404), "HTTP 404"),
        (http(401), "buddy mcp login plain"),
    ],
)
async def test_a_message_that_is_refused_costs_its_call(tmp_path: Path, posted: bytes, said: str) -> None:
    server = OldServer(posted=posted)
    async with plain_server(server.serve) as (url, _), connecting(tmp_path, url, "sse") as client:
        assert said in await call_at(client)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http(404), "HTTP 404"),
        (http(200, "<html>", "text/html"), "text/html instead of events"),
        (http(200, b"", ""), "nothing instead of events"),
        (http(200, b"", "text/event-stream"), "ended before it named its address for messages"),
        (http(200, b": x\n\n" * 50_000, "text/event-stream"), "does not name its address for messages"),
        (EVENTS.replace(b"\r\n\r\n", b"\r\ncontent-length: 90\r\n\r\nevent: endp"), "broke"),
        (http(307, kind="", location="http://elsewhere.example/sse"), "redirect"),
    ],
)
async def test_what_is_no_event_stream_is_told(tmp_path: Path, answer: bytes, said: str) -> None:
    async def serve(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with plain_server(serve) as (url, _), connecting(tmp_path, url, "sse") as client:
        client.server.begin()
        await client.until("lost", "failed")
        assert said in client.server.reason
        assert not CLASS_NAME.search(client.server.reason)


async def test_an_endpoint_elsewhere_is_not_posted_to(tmp_path: Path) -> None:
    async def caught(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200))

    async with plain_server(caught) as (elsewhere, stolen):

        async def serve(_request: Request, writer: asyncio.StreamWriter) -> None:
            writer.write(EVENTS + b"event: endpoint\ndata: " + elsewhere.encode() + b"\n\n")

        async with (
            plain_server(serve) as (url, _),
            connecting(tmp_path, url, "sse", headers={"Authorization": "Bearer secret"}) as client,
        ):
            client.server.begin()
            await client.until("lost", "failed")
            assert "its address for messages is on another host, 127.0.0.1" in client.server.reason
        assert stolen == []
