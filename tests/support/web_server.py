"""A web server on loopback that answers with exactly the bytes a test wants, and the parts to reach it."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from tests.support.stream_server import stream_server

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
Handler = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


class Server(msgspec.Struct, frozen=True):
    """A running server: its port, and the requests that reached it, heads only."""

    port: int
    requests: list[str]

    def url(self, path: str = "/", host: str = "site.example") -> str:
        """An address at the server, by any name."""
        return f"http://{host}:{self.port}{path}"


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Serve until the block ends."""
    requests: list[str] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            requests.append(head)
            await handler(head.split(" ")[1], writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async with stream_server(connected, tls) as port:
        yield Server(port, requests)


def answering(*answers: bytes) -> Handler:
    """A handler that sends the same bytes to everybody."""

    async def handle(_path: str, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            writer.write(answer)
            await writer.drain()

    return handle


def reply(body: bytes, content_type: str = "text/plain", *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class Names:
    """A resolver of fixed names; counts how often it was asked."""

    def __init__(self, **names: Sequence[str]) -> None:
        self._names = {name.replace("_", "."): addresses for name, addresses in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self._names:
            raise OSError("no such name")
        return self._names[host]
