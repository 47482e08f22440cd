"""The HTTP client for servers that are reached directly: asyncio and nothing else.

It exists because httpx costs 165 of the 240 ms from process start to the first request, and 20 of 25 µs CPU
per streamed chunk (measured with `tests/bench/direct_lane.py`). Requests that need a proxy go through httpx.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from buddy.agent.cleanup import on_failure
from buddy.agent.provider import ProviderError
from buddy.llm.connecting import first_connected, interleaved, is_literal
from buddy.llm.connection_errors import broken_answer, unreachable, unusable_answer
from buddy.llm.http1 import Body, Head, HeadParser, HttpError, body_of, unzip_for

IDLE_S = 60
"""How long an unused connection is kept."""

HIGH_WATER = 1024 * 1024
"""Unread bytes from which on the server has to wait."""

HAPPY_EYEBALLS_S = 0.25


class Target(msgspec.Struct, frozen=True):
    """A URL, taken apart."""

    host: str
    port: int
    is_tls: bool
    authority: str
    path: str

    @property
    def address(self) -> str:
        """Host and port, for a person."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Connection(asyncio.Protocol):
    """One connection: what arrived and was not read yet."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.idle_since = 0.0
        self.is_ended = False
        self._error: Exception | None = None
        self._buffer: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop connected us."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        raw = transport.get_extra_info("socket")
        if raw is not None:
            # Long silences are normal here; a peer that vanished is not.
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        self._buffer.append(data)
        self._size += len(data)
        if self._size > HIGH_WATER and not self._is_paused and self.transport is not None:
            self._is_paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """The server has said everything."""
        self.is_ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, with or without a reason."""
        self.is_ended = True
        self._error = self._error or exc
        self._wake()

    async def read(self) -> bytes:
        """What arrived since the last time, at least one byte; b"" at the end. Raises `OSError`."""
        if not self._buffer and not self.is_ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if not self._buffer:
            if self._error is not None:
                raise self._error
            return b""
        data = self._buffer[0] if len(self._buffer) == 1 else b"".join(self._buffer)
        self._buffer.clear()
        self._size = 0
        if self._is_paused and self.transport is not None and not self.transport.is_closing():
            self._is_paused = False
            self.transport.resume_reading()
        return data

    def write(self, data: bytes) -> None:
        """Send."""
        assert self.transport is not None
        self.transport.write(data)

    def is_quiet(self) -> bool:
        """Whether nothing unasked came: only then may the connection be used again."""
        return (
            not (self._buffer or self.is_ended)
            and self.transport is not None
            and not self.transport.is_closing()
        )

    def close(self) -> None:
        """Close at once: whatever is still to come is not wanted."""
        if self.transport is not None:
            self.transport.abort()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PlainAnswer:
    """An answer whose body is still arriving."""

    def __init__(
        self, connection: Connection, head: Head, first: bytes, host: str, keep: Callable[[Connection], None]
    ) -> None:
        self.status = head.status
        self.headers: Mapping[str, str] = head.headers
        self._connection = connection
        self._is_reusable = head.is_reusable
        self._framing = body_of(head)
        self._unzip = unzip_for(head.headers.get("content-encoding", ""))
        self._host = host
        self._keep = keep
        self._chunks = self._read(first, self._framing)

    def body(self) -> AsyncGenerator[bytes, None]:
        """The one iterator over the body."""
        return self._chunks

    async def aclose(self) -> None:
        """Keep the connection when the body was read to its end and nothing else came; close it otherwise."""
        await self._chunks.aclose()
        whole = self._framing.is_done and not self._framing.rest
        if whole and self._is_reusable and self._connection.is_quiet():
            self._keep(self._connection)
        else:
            self._connection.close()

    async def _read(self, data: bytes, framing: Body) -> AsyncGenerator[bytes, None]:
        read = self._connection.read
        try:
            while True:
                chunk = framing.feed(data) if data else b""
                if self._unzip is not None:
                    for piece in self._unzip.feed(chunk):
                        yield piece
                elif chunk:
                    yield chunk
                if framing.is_done:
                    return
                data = await read()
                if not data:
                    framing.end()
        except (OSError, HttpError, EOFError, ValueError) as error:
            raise broken_answer(error, self._host) from error


class PlainClient:
    """Posts over connections of its own; `tls` makes the TLS context when the first one needs it."""

    def __init__(self, connect_s: float, *, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        self._connect_s = connect_s
        self._make_context = tls or trusting_the_system
        self._context: ssl.SSLContext | None = None
        self._idle: list[tuple[Target, Connection]] = []
        self._is_closed = False

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> PlainAnswer:
        """Send and wait for the headers of the answer."""
        return await self._send("POST", url, headers, content)

    async def get(self, url: str, headers: Mapping[str, str]) -> PlainAnswer:
        """The same for a GET."""
        return await self._send("GET", url, headers, b"")

    async def _send(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> PlainAnswer:
        target = target_of(url)
        request = request_bytes(target, headers, content, method)
        kept = self._kept(target)
        if kept is not None:
            answer = await self._try_kept(kept, request, target)
            if answer is not None:
                return answer
        return await self._ask(await self._connect(target), request, target)

    async def aclose(self) -> None:
        """Close every connection that is not in use, and those in use as soon as their answer is let go."""
        self._is_closed = True
        for _, connection in self._idle:
            connection.close()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop closes the sockets in its next round

    async def _try_kept(self, connection: Connection, request: bytes, target: Target) -> PlainAnswer | None:
        """Use a kept connection; None when the server had closed it, which shows only now."""
        try:
            return await self._ask(connection, request, target, is_kept=True)
        except _Stale:
            return None

    async def _ask(
        self, connection: Connection, request: bytes, target: Target, *, is_kept: bool = False
    ) -> PlainAnswer:
        parser = HeadParser()
        has_data = False
        with on_failure(connection.close):
            try:
                connection.write(request)
                while (found := parser.feed(await self._some(connection))) is None:
                    has_data = True
                head, rest = found
                return PlainAnswer(connection, head, rest, target.host, lambda it: self._keep(target, it))
            except HttpError as error:
                raise unusable_answer(error, target.host) from error
            except OSError as error:
                if is_kept and not has_data:
                    raise _Stale from error
                raise unreachable(error, target.host, address=target.address) from error

    async def _some(self, connection: Connection) -> bytes:
        data = await connection.read()
        if not data:
            raise ConnectionResetError("no answer")
        return data

    async def _connect(self, target: Target) -> Connection:
        context = self._tls() if target.is_tls else None
        name = target.host if target.is_tls else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_s):
                if is_literal(target.host):
                    _, connection = await loop.create_connection(
                        Connection, target.host, target.port, ssl=context, server_hostname=name
                    )
                else:
                    found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
                    made = await first_connected(interleaved(found), HAPPY_EYEBALLS_S)
                    _, connection = await loop.create_connection(
                        Connection, sock=made, ssl=context, server_hostname=name
                    )
        except (OSError, UnicodeError) as error:
            raise unreachable(error, target.host, address=target.address) from error
        return connection

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = self._make_context()
        return self._context

    def _kept(self, target: Target) -> Connection | None:
        """A connection to this server that still lives; those that don't are let go."""
        now = time.monotonic()
        alive: list[tuple[Target, Connection]] = []
        for place, connection in self._idle:
            if connection.is_quiet() and now - connection.idle_since < IDLE_S:
                alive.append((place, connection))
            else:
                connection.close()
        self._idle = alive
        for at in range(len(alive) - 1, -1, -1):
            place, connection = alive[at]
            if (place.host, place.port, place.is_tls) == (target.host, target.port, target.is_tls):
                del alive[at]
                return connection
        return None

    def _keep(self, target: Target, connection: Connection) -> None:
        if self._is_closed:
            connection.close()
            return
        connection.idle_since = time.monotonic()
        self._idle.append((target, connection))


class _Stale(Exception):
    """A kept connection turned out to be closed."""


def target_of(url: str) -> Target:
    """A URL, taken apart. Raises `ProviderError` for one that can't be asked."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _bad_url() from error
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise _bad_url()
    is_tls = parts.scheme == "https"
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise _bad_url() from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii() or any(character <= " " for character in path):
        raise _bad_url()
    shown = f"[{name}]" if ":" in name else name
    return Target(name, port or (443 if is_tls else 80), is_tls, f"{shown}:{port}" if port else shown, path)


def request_bytes(target: Target, headers: Mapping[str, str], content: bytes, method: str = "POST") -> bytes:
    """The whole request. Raises `ProviderError` for a header that can't be sent."""
    check_headers(headers)
    lines = [f"{method} {target.path} HTTP/1.1", f"host: {target.authority}"]
    if method != "GET":
        lines.append(f"content-length: {len(content)}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + content


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise `ProviderError` for a header that can't be sent, without showing its value."""
    for name, value in headers.items():
        if not (value.isprintable() and value.isascii() and name.isascii() and name.isprintable()):
            raise ProviderError(
                "bad_request",
                f"the header {name!r} has characters that can't be sent; check the key and headers",
            )


def trusting_the_system(environ: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """A TLS context with the system's certificates (SSL_CERT_FILE and SSL_CERT_DIR count), certifi's where
    the system has none, and those of REQUESTS_CA_BUNDLE, which many companies set."""
    context = ssl.create_default_context()
    bundle = environ.get("REQUESTS_CA_BUNDLE", "")
    if bundle and not environ.get("SSL_CERT_FILE") and os.path.exists(bundle):
        in_folder = os.path.isdir(bundle)
        context.load_verify_locations(
            cafile=None if in_folder else bundle, capath=bundle if in_folder else None
        )
    context.set_alpn_protocols(["http/1.1"])
    paths = ssl.get_default_verify_paths()
    if not paths.cafile and not (paths.capath and os.listdir(paths.capath)):
        import certifi  # only where it is needed: 15 ms

        context.load_verify_locations(certifi.where())
    return context


def _bad_url() -> ProviderError:
    return ProviderError("bad_request", "base_url is no address: expected http://host or https://host")
