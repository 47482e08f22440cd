"""Servers with an address, made with the protocol library: a session connects, calls, hears of changes and
leaves."""

import asyncio
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from tests.support.mcp_remote import (
    TOOL,
    Client,
    Request,
    connecting,
    everything,
    honest,
    http,
    plain_server,
    result_of,
    running,
)


def app(kind: str) -> tuple[object, str]:
    server = everything()
    match kind:
        case "sse":
            return server.sse_app(), "/sse"
        case "json":
            return server.streamable_http_app(json_response=True), "/mcp"
        case "stateless":
            return server.streamable_http_app(stateless_http=True), "/mcp"
        case _:
            return server.streamable_http_app(), "/mcp"


@pytest.mark.parametrize("kind", ["http", "json", "stateless", "sse"])
async def test_a_tool_is_called(tmp_path: Path, kind: str) -> None:
    program, path = app(kind)
    async with (
        running(program) as url,
        connecting(tmp_path, url + path, "sse" if kind == "sse" else "http") as client,
    ):
        server = await client.ready()
        assert server.facts is not None
        assert server.facts.title == "everything"
        assert await client.call(text="hello") == "you said hello"
        assert await client.call("steps") == "done"


@pytest.mark.parametrize("kind", ["http", "json"])
async def test_a_large_result_arrives_whole(tmp_path: Path, kind: str) -> None:
    program, path = app(kind)
    async with running(program) as url, connecting(tmp_path, url + path) as client:
        await client.ready()
        await client.call("large")
    spilled = [one for one in tmp_path.iterdir() if one.is_file() and one.stat().st_size > 1_900_000]
    assert len(spilled) == 1


async def test_a_tool_that_joins_is_heard_of(tmp_path: Path) -> None:
    tools = [TOOL]
    listening = asyncio.Event()
    events: list[asyncio.StreamWriter] = []

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            assert request.headers["mcp-session-id"] == "one"
            writer.write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n")
            events.append(writer)
            listening.set()
        elif request.rpc == "tools/list":
            writer.write(http(200, result_of(request, {"tools": tools})))
        else:
            writer.write(honest(request, "one"))

    async with plain_server(serve) as (url, _), connecting(tmp_path, url) as client:
        server = await client.ready()
        async with asyncio.timeout(20):
            await listening.wait()
            tools.append({**TOOL, "name": "more"})
            events[0].write(b'data: {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n\n')
            await events[0].drain()
            while len(server.tools) == 1:
                await client.change()
        assert await client.call("more", text="a") == "you said a"


@pytest.mark.parametrize("kind", ["http", "json"])
async def test_a_server_that_goes_and_comes_back_is_connected_again(tmp_path: Path, kind: str) -> None:
    program, path = app(kind)
    async with running(program) as url:
        client = Client(tmp_path, url + path)
        await client.ready()
    port = int(url.rpartition(":")[2])
    try:
        with pytest.raises(
            ToolError, match=r"refuses connections|ended the connection|closed the connection"
        ):
            await client.call(text="a")
        again, _ = app(kind)
        async with running(again, port):
            client.server.reconnect()
            await client.until("connecting")
            await client.until("ready")
            assert await client.call(text="b") == "you said b"
            await client.server.stop("waiting")
    finally:
        await client.server.stop("waiting")
