"""A server on loopback for tests, which leaves no connection behind.

asyncio's own, closed while it takes a connection, leaves the socket to the garbage collector, whose warning
fails whatever test comes next.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Connection(asyncio.StreamReaderProtocol):
    """Somebody who is served until the connection is lost."""

    def __init__(self, serve: Serve) -> None:
        super().__init__(asyncio.StreamReader(), self._connected)
        self._serve = serve
        self.writer: asyncio.StreamWriter | None = None
        self.serving: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.serving = asyncio.ensure_future(self._served(reader, writer))

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve(reader, writer)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()

    async def ended(self) -> None:
        """Let go of it. Raises what went wrong in serving besides the connection's end."""
        if self.writer is None or self.serving is None:
            return  # its handshake failed: nobody was connected
        self.writer.transport.abort()
        self.serving.cancel()
        await asyncio.wait([self.serving])
        await self.lost.wait()
        if not self.serving.cancelled():
            with suppress(OSError, EOFError):
                self.serving.result()


@asynccontextmanager
async def stream_server(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a free port, which is the value, until the block ends."""
    loop = asyncio.get_running_loop()
    connections: list[_Connection] = []
    accepting: list[asyncio.Task[object]] = []

    def connection() -> _Connection:
        connections.append(_Connection(serve))
        return connections[-1]

    def accept() -> None:
        try:
            raw, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        accepting.append(loop.create_task(loop.connect_accepted_socket(connection, raw, ssl=tls)))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        loop.add_reader(listening, accept)
        try:
            yield listening.getsockname()[1]
        finally:
            loop.remove_reader(listening)
            await asyncio.gather(*accepting, return_exceptions=True)
            for one in connections:
                await one.ended()
