"""MCP servers with an address for tests: the protocol library's own over HTTP, one of plain bytes that can do
anything, and a connection to them as a session makes it."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import TextContent

from buddy.agent.tool import ToolContext
from buddy.extend.mcp.definitions import ServerDefinition, expand_variables, read_server
from buddy.extend.mcp.library import McpLibrary
from buddy.extend.mcp.logins import Logins
from buddy.extend.mcp.results import ResultMaker
from buddy.extend.mcp.server import McpServer, ServerParts
from buddy.tools.ask_user import Questions
from tests.support.stream_server import stream_server

DEADLINE_S = 20.0
TOOL = {
    "name": "echo",
    "description": "Repeat a text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


class Client:
    """One server as a session has it."""

    def __init__(self, folder: Path, url: str, kind: str = "http", **more: Any) -> None:
        definition = read_server("plain", {"type": kind, "url": url, **more}, "user", "test")
        self.logins = Logins(str(folder))
        self.told: list[tuple[str, str]] = []
        self._changed = asyncio.Event()
        parts = ServerParts(
            library=McpLibrary(),
            questions=Questions(attended=False),
            results=ResultMaker(str(folder), lambda text: text, lambda: "spill"),
            roots=tuple,
            now=time.monotonic,
            sleep=asyncio.sleep,
        )
        self.server = McpServer(definition, parts, partial(self._open, definition), self._note)

    def _open(self, definition: ServerDefinition, client: Any, lost: Callable[[Exception], None]) -> Any:
        return client.remote_transport(expand_variables(definition, {}, ()), self.logins, {}, lost)

    def _note(self, server: McpServer) -> None:
        self.told.append((server.state, server.reason))
        self._changed.set()

    async def until(self, *states: str) -> None:
        """Wait until the server is in one of the states."""
        async with asyncio.timeout(DEADLINE_S):
            while self.server.state not in states:
                self._changed.clear()
                await self._changed.wait()

    async def change(self) -> None:
        """Wait for the next change."""
        self._changed.clear()
        await self._changed.wait()

    async def ready(self) -> McpServer:
        """Connect."""
        self.server.begin()
        await self.until("ready", "failed", "login", "lost")
        assert self.server.state == "ready", self.told
        return self.server

    async def call(self, name: str = "echo", **arguments: object) -> str:
        """Call a tool and return the text of its result."""
        info = next(one for one in self.server.tools if one.name == name)
        context = ToolContext(1, "call", lambda _text: None, asyncio.Event(), {})
        async with asyncio.timeout(DEADLINE_S):
            return (await self.server.call(info, arguments, context)).text


@asynccontextmanager
async def connecting(folder: Path, url: str, kind: str = "http", **more: Any) -> AsyncIterator[Client]:
    """Yield a client, which is stopped at the end."""
    client = Client(folder, url, kind, **more)
    try:
        yield client
    finally:
        await client.server.stop("waiting")


def everything() -> MCPServer:
    """A server of the protocol library with a few tools."""
    server = MCPServer("everything")

    @server.tool()
    async def echo(text: str) -> str:
        """Repeat a text."""
        return f"you said {text}"

    @server.tool()
    async def steps(ctx: Context) -> str:
        """Report progress."""
        for step in range(3):
            await ctx.report_progress(step, 3, f"step {step}")
        return "done"

    @server.tool()
    async def large() -> TextContent:
        """Return two million letters."""
        return TextContent(type="text", text="x" * 2_000_000)

    @server.tool()
    async def grow(ctx: Context) -> str:
        """Offer one more tool."""

        async def more() -> str:
            return "more"

        server.add_tool(more, name="more")
        await ctx.session.send_tool_list_changed()
        return "grown"

    return server


@asynccontextmanager
async def running(app: Any, port: int = 0) -> AsyncIterator[str]:
    """Serve an ASGI program; the value is the address of its root."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        config = uvicorn.Config(app, log_level=logging.CRITICAL, lifespan="on", timeout_graceful_shutdown=0)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not server.started:
                    await asyncio.sleep(0)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            await asyncio.wait({serving})


class Request:
    """A request as a plain server reads it."""

    def __init__(self, head: str, body: bytes) -> None:
        first, *rest = head.split("\r\n")
        self.method, self.path, _ = first.split(" ")
        pairs = (line.partition(":") for line in rest if line)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        self.body = body
        self.message: dict[str, Any] = {}
        with suppress(ValueError):
            found = json.loads(body)
            self.message = found if isinstance(found, dict) else {}

    @property
    def rpc(self) -> str:
        """The method of its message."""
        return str(self.message.get("method", ""))


Answer = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def plain_server(answer: Answer) -> AsyncIterator[tuple[str, list[Request]]]:
    """Serve with a function; the value is the address and the requests that came."""
    requests: list[Request] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = next(
                (int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:")),
                0,
            )
            request = Request(head, await reader.readexactly(length))
            requests.append(request)
            await answer(request, writer)
            await writer.drain()

    async with stream_server(serve) as port:
        yield f"http://127.0.0.1:{port}/mcp", requests


def http(
    status: int, body: bytes | str | object = b"", kind: str = "application/json", **headers: str
) -> bytes:
    """Return the bytes of an answer."""
    if isinstance(body, str):
        body = body.encode()
    elif not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
    lines += [f"content-type: {kind}"] if kind else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def result_of(request: Request, result: object) -> dict[str, Any]:
    """Return the message that answers a request."""
    return {"jsonrpc": "2.0", "id": request.message.get("id"), "result": result}


def text_result(request: Request, text: str) -> dict[str, Any]:
    """Return the message with the text of a tool's result."""
    return result_of(request, {"content": [{"type": "text", "text": text}]})


def honest(request: Request, session: str = "", answers: Mapping[str, bytes] | None = None) -> bytes:
    """Return the bytes an honest server answers with; `answers` replaces those to a method."""
    more = {"mcp_session_id": session} if session else {}
    if request.rpc in (answers or {}):
        return (answers or {})[request.rpc]
    match request.method, request.rpc:
        case "GET", _:
            return http(405)
        case "DELETE", _:
            return http(200)
        case _, "initialize":
            facts = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "plain", "version": "1"},
            }
            return http(200, result_of(request, facts), **more)
        case _, "tools/list":
            return http(200, result_of(request, {"tools": [TOOL]}))
        case _, "tools/call":
            text = request.message["params"]["arguments"].get("text", "")
            return http(200, text_result(request, f"you said {text}"))
        case _, "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            return http(400, {"jsonrpc": "2.0", "id": request.message.get("id"), "error": error})
        case _:
            return http(202, kind="")
