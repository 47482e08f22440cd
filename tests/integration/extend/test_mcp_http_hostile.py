"""Servers with an address that lie, break off, flood or never answer: each costs its own calls, in words."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from buddy.agent.tool import ToolError
from tests.support.mcp_remote import (
    TOOL,
    Request,
    connecting,
    honest,
    http,
    plain_server,
    result_of,
    text_result,
)

EVENTS = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n"
CLASS_NAME = re.compile(r"\b[A-Z][a-zA-Z]*(?:Error|Exception|Closed|Group)\b|Errno|0x[0-9a-f]{6}")


def event(message: object) -> bytes:
    return f"event: message\ndata: {json.dumps(message)}\n\n".encode()


def calls(answer: Any) -> Any:
    """A server that is honest but to calls."""

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.rpc == "tools/call":
            await answer(request, writer)
        else:
            writer.write(honest(request))

    return serve


async def call_of(tmp_path: Path, answer: Any, **more: Any) -> str:
    """Return the words a call comes to at a server that is honest but to the first call; afterwards another
    call works."""
    count = 0

    async def first_only(request: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        if count > 1:
            writer.write(honest(request))
            return
        await answer(request, writer)

    async with plain_server(calls(first_only)) as (url, _), connecting(tmp_path, url, **more) as client:
        await client.ready()
        try:
            told = await client.call(text="a")
        except ToolError as error:
            told = str(error)
        await client.until("ready", "failed")
        if client.server.state == "ready":
            assert await client.call(text="b") == "you said b"
    assert not CLASS_NAME.search(told), told
    return told


def sends(*answers: bytes, close: bool = False) -> Any:
    async def answer(_request: Request, writer: asyncio.StreamWriter) -> None:
        for one in answers:
            writer.write(one)
            await writer.drain()
        if close:
            writer.close()

    return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http(500, "Traceback (most recent call last)", "text/plain"), "HTTP 500"),
        (http(502, "<html>bad gateway</html>", "text/html"), "HTTP 502"),
        (http(503, {"error": "\x1b[31mbusy\u202e"}), "HTTP 503 Service Unavailable: busy"),
        (http(403, {"message": "not for you"}), "HTTP 403 Forbidden: not for you"),
        (http(404), "HTTP 404"),
        (http(429, b"", "text/plain"), "HTTP 429"),
        (http(999), "HTTP 999"),
        (http(200, "<html>sign in to the network</html>", "text/html"), "answered with text/html"),
        (http(200, "hi", ""), "answered with nothing"),
        (http(200, b"\xff\xfe\x00{"), "no message of the protocol"),
        (http(200, "not json at all"), "no message of the protocol"),
        (http(200, []), "no message of the protocol"),
        (http(200, [{"jsonrpc": "2.0", "id": 1, "result": {}}]), "no message of the protocol"),
        (http(200, {"jsonrpc": "2.0", "id": 4_000, "result": {}}), "another request"),
        (http(200, {"jsonrpc": "2.0", "result": {}}), "another request"),
        (http(200, {"jsonrpc": "1.0", "id": 1, "result": {}}), "no message of the protocol"),
        (http(200, {"jsonrpc": "2.0", "id": 1, "error": "broken"}), "no message of the protocol"),
        (http(200, b"[" * 200_000), "no message of the protocol"),
        (http(202, kind=""), "answered with nothing"),
        (b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n{", "broke"),
        (b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\n", "closed the connection"),
        (b"", "closed the connection"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "does not speak HTTP"),
        (EVENTS, "ended its answer before the result"),
        (EVENTS + b'event: message\ndata: {"jsonrpc"', "before the result"),
        (EVENTS + b": hello\n\n" * 3, "before the result"),
        (http(302, kind="", location="http://127.0.0.1:1/elsewhere"), "not followed"),
        (http(307, kind="", location="http://elsewhere.example/mcp"), "not followed"),
        (http(308, kind="", location="//elsewhere.example/mcp"), "not followed"),
    ],
)
async def test_a_bad_answer_costs_its_own_call(tmp_path: Path, answer: bytes, said: str) -> None:
    is_cut = b"content-length: 0" not in answer and not answer.startswith(b"HTTP/1.1 200 X\r\ncontent-length")
    told = await call_of(tmp_path, sends(answer, close=is_cut))
    assert said in told


async def test_a_message_of_100_megabytes_is_not_taken(tmp_path: Path) -> None:
    async def answer(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 100000000\r\n\r\n")
        for _ in range(100):
            writer.write(b"y" * 1_000_000)
            await writer.drain()

    assert "more than 16 MB" in await call_of(tmp_path, answer)


async def test_an_event_of_100_megabytes_is_not_taken(tmp_path: Path) -> None:
    async def answer(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + b"data: ")
        for _ in range(100):
            writer.write(b"y" * 1_000_000)
            await writer.drain()

    told = await call_of(tmp_path, answer)
    assert "MCP server plain failed" in told


async def test_a_small_packed_answer_does_not_grow_without_bound(tmp_path: Path) -> None:
    import gzip

    packed = gzip.compress(b" " * 200_000_000, 9)
    assert "more than 16 MB" in await call_of(tmp_path, sends(http(200, packed, content_encoding="gzip")))


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress"])
async def test_an_encoding_nobody_asked_for_is_refused(tmp_path: Path, encoding: str) -> None:
    told = await call_of(tmp_path, sends(http(200, b"x", content_encoding=encoding)))
    assert "was not asked for" in told


async def test_a_second_answer_is_dropped(tmp_path: Path) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        twice = event(text_result(request, "first")) + event(text_result(request, "second"))
        writer.write(EVENTS + twice)
        await writer.drain()
        writer.close()

    assert await call_of(tmp_path, answer) == "first"


async def test_an_answer_that_never_comes_ends_with_the_time_limit(tmp_path: Path) -> None:
    async def answer(_request: Request, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    told = await call_of(tmp_path, answer, timeout=0.2)
    assert "gave no sign of life" in told


async def test_an_error_code_of_the_server_does_not_end_the_connection(tmp_path: Path) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        error = {"code": -32000, "message": "no such file"}
        writer.write(http(200, {"jsonrpc": "2.0", "id": request.message["id"], "error": error}))

    async with plain_server(calls(answer)) as (url, requests), connecting(tmp_path, url) as client:
        await client.ready()
        for _ in range(2):
            with pytest.raises(ToolError, match="no such file"):
                await client.call(text="a")
        assert client.server.state == "ready"
    assert [request.rpc for request in requests].count("initialize") == 1


@pytest.mark.parametrize("taken", ["stalled", "refused"])
async def test_a_note_that_is_not_taken_holds_up_no_call(tmp_path: Path, taken: str) -> None:
    stalled = asyncio.Event()

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.rpc == "notifications/initialized":
            stalled.set()
            if taken == "stalled":
                await asyncio.Event().wait()
            writer.write(http(500))
            return
        writer.write(honest(request))

    async with plain_server(serve) as (url, _), connecting(tmp_path, url) as client:
        await client.ready()
        assert await client.call(text="a") == "you said a"
    assert stalled.is_set()


async def connect_to(tmp_path: Path, answers: Mapping[str, bytes], **more: Any) -> tuple[str, str]:
    """The state and reason of a connection to a server with these answers."""

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        for rpc in (request.rpc, "*"):
            if rpc in answers:
                writer.write(answers[rpc])
                return
        writer.write(honest(request))

    async with plain_server(serve) as (url, _), connecting(tmp_path, url, **more) as client:
        client.server.begin()
        await client.until("ready", "failed", "login", "lost")
        state, reason = client.server.state, client.server.reason
    assert not CLASS_NAME.search(reason), reason
    return state, reason


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        (http(401), "login", "buddy mcp login plain"),
        (http(403, {"error": "insufficient"}), "lost", "HTTP 403"),
        (http(403, www_authenticate='Bearer error="insufficient_scope"'), "login", "more rights"),
        (http(404), "lost", '"type": "sse"'),
        (http(405), "lost", '"type": "sse"'),
        (http(500, "oops", "text/plain"), "lost", "HTTP 500 Internal Server Error: oops"),
        (http(200, "<html>", "text/html"), "lost", "text/html"),
        (http(301, kind="", location="https://elsewhere.example/"), "lost", "not followed"),
        (b"220 smtp.example.org ESMTP\r\n\r\n", "lost", "does not speak HTTP"),
    ],
)
async def test_a_server_that_refuses_says_why(tmp_path: Path, answer: bytes, state: str, said: str) -> None:
    found = await connect_to(tmp_path, {"*": answer})
    assert found[0] == state
    assert said in found[1]


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_nobody_there_is_said_with_the_address(tmp_path: Path, kind: str) -> None:
    async with connecting(tmp_path, "http://127.0.0.1:9/mcp", kind) as client:
        client.server.begin()
        await client.until("lost", "failed")
        assert "127.0.0.1:9 refuses connections" in client.server.reason
        assert "is url right?" in client.server.reason


async def test_refused_credentials_are_not_tried_again(tmp_path: Path) -> None:
    state, reason = await connect_to(tmp_path, {"*": http(401)}, headers={"Authorization": "Bearer x"})
    assert (state, reason) == ("failed", "it refuses the credentials in its headers (HTTP 401)")


@pytest.mark.parametrize("value", ["a\nX-Evil: 1", "a\r\nX-Evil: 1", "caf\u00e9 \u202e", "\x1b[31m"])
async def test_a_header_that_cannot_be_sent_is_refused_without_its_value(tmp_path: Path, value: str) -> None:
    async with plain_server(calls(sends())) as (url, requests):
        async with connecting(tmp_path, url, headers={"X-Key": value}) as client:
            client.server.begin()
            await client.until("lost", "failed")
            assert "X-Key" in client.server.reason
            assert "Evil" not in client.server.reason
        assert not requests


async def test_headers_and_tokens_go_to_no_other_host(tmp_path: Path) -> None:
    async def caught(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200))

    async with plain_server(caught) as (elsewhere, stolen):
        answer = http(307, kind="", location=elsewhere)
        await connect_to(tmp_path, {"*": answer}, headers={"Authorization": "Bearer secret"})
    assert stolen == []


async def test_a_redirect_within_the_host_is_followed(tmp_path: Path) -> None:
    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.path == "/mcp":
            writer.write(http(307, kind="", location="/mcp/"))
        else:
            writer.write(honest(request))

    async with plain_server(serve) as (url, _), connecting(tmp_path, url) as client:
        await client.ready()
        assert await client.call(text="a") == "you said a"


async def test_an_ended_session_is_begun_anew(tmp_path: Path) -> None:
    session = "first"

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        told = request.headers.get("mcp-session-id", "")
        if told and told != session:
            writer.write(http(404))
            return
        writer.write(honest(request, session))

    async with plain_server(serve) as (url, requests), connecting(tmp_path, url) as client:
        await client.ready()
        assert await client.call(text="a") == "you said a"
        session = "second"
        with pytest.raises(ToolError, match="has ended the session"):
            await client.call(text="b")
        await client.until("connecting", "lost")
        client.server.reconnect()
        await client.until("ready")
        assert await client.call(text="c") == "you said c"
    posts = [request for request in requests if request.rpc == "tools/call"]
    assert [request.headers["mcp-session-id"] for request in posts] == ["first", "first", "second"]
    assert all(request.headers["mcp-protocol-version"] == "2025-06-18" for request in posts)


async def test_leaving_tells_the_server_and_waits_for_none(tmp_path: Path) -> None:
    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "DELETE":
            await asyncio.Event().wait()
        writer.write(honest(request, "one"))

    async with plain_server(serve) as (url, requests):
        async with connecting(tmp_path, url) as client:
            await client.ready()
        last = [request for request in requests if request.method == "DELETE"]
        assert [request.headers["mcp-session-id"] for request in last] == ["one"]


async def test_cancelling_a_call_tells_the_server(tmp_path: Path) -> None:
    told = asyncio.Event()

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.rpc == "tools/call":
            await asyncio.Event().wait()
        if request.rpc == "notifications/cancelled":
            told.set()
        writer.write(honest(request))

    async with plain_server(serve) as (url, requests), connecting(tmp_path, url) as client:
        await client.ready()
        call = asyncio.ensure_future(client.call(text="a"))
        while not any(request.rpc == "tools/call" for request in requests):
            await asyncio.sleep(0)
        call.cancel()
        async with asyncio.timeout(10):
            await told.wait()
        assert client.server.state == "ready"


async def test_event_streams_that_end_at_once_are_not_opened_for_ever(tmp_path: Path) -> None:
    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            writer.write(EVENTS + b"retry: 0\n\n")
            await writer.drain()
            writer.close()
            return
        writer.write(honest(request, "one"))

    async with plain_server(serve) as (url, requests), connecting(tmp_path, url) as client:
        await client.ready()
        for _ in range(50):
            assert await client.call(text="a") == "you said a"
        assert sum(request.method == "GET" for request in requests) <= 6


async def test_patterns_of_a_server_are_never_matched(tmp_path: Path) -> None:
    evil = {**TOOL, "outputSchema": {"type": "object", "properties": {"a": {"pattern": "(a+)+$"}}}}

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.rpc == "tools/list":
            writer.write(http(200, result_of(request, {"tools": [evil]})))
        elif request.rpc == "tools/call":
            content = {"content": [], "structuredContent": {"a": "a" * 60 + "!"}}
            writer.write(http(200, result_of(request, content)))
        else:
            writer.write(honest(request))

    async with plain_server(serve) as (url, _), connecting(tmp_path, url) as client:
        await client.ready()
        assert "aaaa" in await client.call(text="a")
