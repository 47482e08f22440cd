"""One HTTP/1.1 connection of the fake server: requests in, raw responses out, and knowing when the client
left."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from tests.fake_llm.script import Fragmentation

Head = tuple[str, str, dict[str, str]]
"""Method, target, headers with lower-case names."""


class Gone(Exception):
    """The client closed the connection."""


class Connection(asyncio.Protocol):
    """Reads requests one after the other and hands each to `serve`."""

    def __init__(self, serve: Callable[[Connection], Awaitable[None]]) -> None:
        self.serve = serve
        self.gone, self.lost = asyncio.Event(), asyncio.Event()
        self.transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None
        self._received = bytearray()
        self._more = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._written = 0

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.task = asyncio.get_running_loop().create_task(self._run())

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._more.set()

    def eof_received(self) -> bool:
        self._leave()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        self._leave()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _leave(self) -> None:
        self.gone.set()
        self._more.set()
        self._writable.set()

    async def _run(self) -> None:
        try:
            while True:
                await self.serve(self)
        except Gone:
            pass
        finally:
            self.close()

    # --- reading ---

    async def read_head(self) -> Head:
        """The next request's line and headers."""
        raw = await self._until(
            lambda: self._received.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in self._received else 0
        )
        line, *rest = raw[:-4].decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ", 2)
        pairs = (header.partition(":") for header in rest)
        return method, target, {name.strip().lower(): value.strip() for name, _, value in pairs}

    async def read_body(self, headers: Mapping[str, str]) -> bytes:
        """The request's body, by its length or in chunks."""
        if "chunked" in headers.get("transfer-encoding", ""):
            body = b""
            while size := int((await self._line()).split(b";")[0], 16):
                body += await self._exactly(size)
                await self._line()
            await self._line()
            return body
        return await self._exactly(int(headers.get("content-length", "0")))

    async def _line(self) -> bytes:
        raw = await self._until(lambda: self._received.find(b"\r\n") + 2 if b"\r\n" in self._received else 0)
        return raw[:-2]

    async def _exactly(self, size: int) -> bytes:
        return await self._until(lambda: size if len(self._received) >= size else 0) if size else b""

    async def _until(self, complete: Callable[[], int]) -> bytes:
        while not (size := complete()):
            if self.gone.is_set():
                raise Gone
            self._more.clear()
            await self._more.wait()
        data = bytes(self._received[:size])
        del self._received[:size]
        return data

    # --- writing ---

    async def write(self, data: bytes) -> None:
        """Send bytes, waiting while the client does not read. Raises `Gone`."""
        if self.gone.is_set() or self.transport is None or self.transport.is_closing():
            raise Gone
        self.transport.write(data)
        self._written += 1
        if not self._writable.is_set():
            await self._writable.wait()
        elif self._written % 64 == 0:
            await asyncio.sleep(0)  # a server in the same loop as its client has to let it read

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """A whole response."""
        await self.write(
            _head(status, {"content-type": "application/json", "content-length": str(len(body)), **headers})
            + body
        )

    async def start_stream(self, headers: Mapping[str, str]) -> None:
        """The head of a chunked response."""
        await self.write(
            _head(
                200,
                {
                    "content-type": "text/event-stream; charset=utf-8",
                    **headers,
                    "transfer-encoding": "chunked",
                },
            )
        )

    async def pause(self, seconds: float) -> None:
        """Wait; raises `Gone` as soon as the client leaves."""
        try:
            async with asyncio.timeout(seconds):
                await self.gone.wait()
        except TimeoutError:
            return
        raise Gone

    def close(self) -> None:
        """Close after what was written is sent."""
        if self.transport is not None:
            self.transport.close()

    def reset(self) -> None:
        """Close with a TCP reset."""
        if self.transport is not None:
            raw = self.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()


class ChunkedBody:
    """The body of a streamed response, cut into HTTP chunks as the fragmentation says."""

    def __init__(self, connection: Connection, fragmentation: Fragmentation, seed: int) -> None:
        self._connection = connection
        self._fragmentation: Fragmentation = fragmentation
        self._random = random.Random(seed)
        self._waiting = bytearray()
        self._next_size = self._size()

    async def push(self, data: bytes) -> None:
        """Add bytes; they are sent when the fragmentation allows."""
        if self._fragmentation == "frames":
            await self._connection.write(_chunk(data))
            return
        self._waiting += data
        out = bytearray()
        while len(self._waiting) >= self._next_size:
            out += _chunk(bytes(self._waiting[: self._next_size]))
            del self._waiting[: self._next_size]
            self._next_size = self._size()
        if out:
            await self._connection.write(bytes(out))

    async def flush(self) -> None:
        """Send what waits."""
        if self._waiting:
            data = bytes(self._waiting)
            self._waiting.clear()
            await self._connection.write(_chunk(data))

    async def end(self) -> None:
        """The closing chunk."""
        await self.flush()
        await self._connection.write(b"0\r\n\r\n")

    def _size(self) -> int:
        if self._fragmentation == "byte":
            return 1
        if self._fragmentation == "whole":
            return 2**62
        return self._random.choice((1, 2, 3, 7, 40, 200, 1500))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    known = {member.value: member.phrase for member in HTTPStatus}
    lines = [f"HTTP/1.1 {status} {known.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
