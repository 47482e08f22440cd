"""HTTP over httpcore2: one pool of connections, with limits on what servers may answer.

httpcore2 and h11 parse, connect (happy eyeballs by anyio), speak to proxies and keep connections. Added here:
limits on heads and interim answers, unpacking of bodies, a second try when a kept connection turns out to be
dead, and closing of sockets that httpcore2 leaves to the garbage collector when it is interrupted.

Imported by the first request; see `http_client`.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from contextvars import ContextVar
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import httpcore2

from buddy.agent.provider import ProviderError
from buddy.llm.http.errors import broken_answer, unreachable, unusable_answer
from buddy.llm.http.limits import ChunkJoiner, HttpError, Target, unzip_for

IDLE_S = 60
"""How long an unused connection is kept."""
MAX_IDLE_CONNECTIONS = 20
MAX_HEAD_BYTES = 65_536
MAX_INTERIM_ANSWERS = 32
"""How many answers of status 1xx may precede the real one; servers send one or two."""
# Long silences are normal here; a peer that vanished is not.
SOCKET_OPTIONS = ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),)
CHUNKED = re.compile(rb"\ntransfer-encoding:[ \t]*chunked[ \t]*\r?\n", re.IGNORECASE)
BLANK_LINE = re.compile(rb"\n\r?\n")
PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]

_socks_failures: tuple[type[Exception], ...] = ()
with suppress(ImportError):  # then httpcore2 reaches everything but SOCKS proxies
    from socksio.exceptions import SOCKSError

    _socks_failures = (SOCKSError,)
_FAILURES = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.ProxyError,
    *_socks_failures,
    ImportError,  # a SOCKS proxy, and no socksio
    OSError,  # ssl.SSLError while reading
)
_STALE = (httpcore2.NetworkError, httpcore2.RemoteProtocolError)


class _Attempt:
    """A request on its way: `opening` is how a head begins that waits for its body, `connects` tells that it
    is no kept connection, `opened` what was opened."""

    def __init__(self, opening: bytes) -> None:
        self.opening = opening
        self.connects = False
        self.opened: list[httpcore2.AsyncNetworkStream] = []

    async def give_up(self) -> None:
        """Close what httpcore2 forgets: interrupted in a TLS or SOCKS handshake, or refused there."""
        for stream in self.opened:
            await stream.aclose()


_attempt: ContextVar[_Attempt] = ContextVar("attempt")
"""The attempt of the task that is sending."""


class EngineAnswer:
    """An answer whose body is still arriving."""

    def __init__(self, engine: Engine, response: httpcore2.Response, host: str) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = _join_headers(response.headers)
        self._engine = engine
        self._response = response
        self._host = host
        self._unzip = unzip_for(self.headers.get("content-encoding", ""))
        # Both framings at once is how answers are smuggled: such a connection is not used again.
        self._is_reusable = not {"transfer-encoding", "content-length"} <= self.headers.keys()
        self._body = self._read()

    def body(self) -> AsyncGenerator[bytes, None]:
        """Yield the one iterator over the body, unpacked. Raises `ProviderError` when it breaks off."""
        return self._body

    async def aclose(self) -> None:
        """Keep the connection when the body was read to its end, close it otherwise."""
        await self._body.aclose()
        if not self._is_reusable:
            await _stream_of(self._response).aclose()
        await self._response.aclose()
        await self._engine.release(self)

    async def _read(self) -> AsyncGenerator[bytes, None]:
        unzip = self._unzip
        try:
            async with aclosing(self._response.aiter_stream()) as chunks:
                async for chunk in chunks:
                    if unzip is not None:
                        for piece in unzip.feed(chunk):
                            yield piece
                    elif chunk:
                        yield chunk
        except (*_FAILURES, HttpError) as error:
            raise broken_answer(error, self._host) from error


class Engine:
    """One pool of connections, through `proxy` where that is not "". `setting` is the name of the setting
    with the address."""

    def __init__(
        self, connect_s: float, *, proxy: str, tls: ssl.SSLContext | None, setting: str = "base_url"
    ) -> None:
        self._setting = setting
        self._proxy = urlsplit(proxy).hostname or "" if proxy else ""
        self._is_http_proxy = proxy.startswith("http")
        self._timeout = {"connect": connect_s}
        self._answers: set[EngineAnswer] = set()
        self._is_closed = False
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            proxy=_proxy_of(proxy, tls) if proxy else None,
            max_connections=None,
            max_keepalive_connections=MAX_IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_S,
            network_backend=_LimitedBackend(),
        )

    async def send(
        self,
        method: str,
        target: Target,
        headers: Mapping[str, str],
        content: bytes | None,
        *,
        may_repeat: bool = True,
    ) -> EngineAnswer:
        """Send and wait for the headers of the answer. `may_repeat`: it does no harm if the request arrives
        twice. Raises `ProviderError`."""
        request = self._request(method, target, headers, content)
        while True:
            attempt = _Attempt(f"{method} ".encode() if content else b"")
            before = _attempt.set(attempt)
            try:
                async with AsyncExitStack() as failing:
                    failing.push_async_callback(attempt.give_up)
                    response = await self._pool.handle_async_request(request)
                    failing.pop_all()
            except HttpError as error:
                raise unusable_answer(error, target.host) from error
            except _FAILURES as error:
                # A kept connection, which the server had closed meanwhile, is replaced unnoticed.
                if attempt.connects or not may_repeat or not isinstance(error, _STALE):
                    raise self._failure(error, target) from error
                continue
            finally:
                _attempt.reset(before)
            if attempt.connects or _is_asked_for(response):
                return await self._answer(response, target)
            await response.aclose()
            if not may_repeat:
                raise unusable_answer(HttpError("it answered before it was asked"), target.host)

    async def aclose(self) -> None:
        """Close the connections that are not in use, and those in use with their answers."""
        self._is_closed = True
        if not self._answers:
            await self._pool.aclose()

    async def release(self, answer: EngineAnswer) -> None:
        """End the use of the connection after the answer."""
        self._answers.discard(answer)
        if self._is_closed:
            await self.aclose()

    async def _answer(self, response: httpcore2.Response, target: Target) -> EngineAnswer:
        try:
            if response.status < 200:
                raise HttpError("it switches to another protocol")
            answer = EngineAnswer(self, response, target.host)
        except HttpError as error:
            await response.aclose()
            raise unusable_answer(error, target.host) from error
        self._answers.add(answer)
        return answer

    def _request(
        self, method: str, target: Target, headers: Mapping[str, str], content: bytes | None
    ) -> httpcore2.Request:
        sent = {"host": target.authority}
        if content is not None:
            sent["content-length"] = str(len(content))
        sent.update((name, value.strip()) for name, value in headers.items())
        # httpcore2 writes the host as it is into the request line for a proxy.
        is_bracketed = self._is_http_proxy and ":" in target.host
        usual_port = 443 if target.is_tls else 80
        return httpcore2.Request(
            method,
            httpcore2.URL(
                scheme="https" if target.is_tls else "http",
                host=f"[{target.host}]" if is_bracketed else target.host,
                port=None if target.port == usual_port else target.port,
                target=target.path,
            ),
            headers=list(sent.items()),
            content=content,
            extensions={"timeout": self._timeout, "sni_hostname": target.host},
        )

    def _failure(self, error: Exception, target: Target) -> ProviderError:
        # With a context it comes from h11, which parses; without, the server hung up.
        if isinstance(error, httpcore2.RemoteProtocolError) and error.__context__ is not None:
            return unusable_answer(HttpError(f"it does not speak HTTP/1.1 ({error})"), target.host)
        return unreachable(
            error, target.host, address=target.address, proxy=self._proxy, setting=self._setting
        )


class _LimitedBackend(httpcore2.AsyncNetworkBackend):
    """Connections whose answers have limited heads."""

    def __init__(self) -> None:
        self._inner = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the address that answers first."""
        attempt = _attempt.get()
        attempt.connects = True
        stream = await self._inner.connect_tcp(host, port, timeout, local_address, SOCKET_OPTIONS)
        attempt.opened.append(stream)
        return _LimitedStream(stream)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._inner.sleep(seconds)


class _LimitedStream(httpcore2.AsyncNetworkStream):
    """A connection that measures the heads of answers. `is_heard`: something came since the last request."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self.is_heard = False
        self._inner = inner
        self._head = b""
        self._socket: socket.socket | None = None
        self._gauge: HeadGauge | None = None
        self._joiner: ChunkJoiner | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Some bytes. Raises `HttpError` for a head that breaks a limit."""
        while data := await self._inner.read(max_bytes, timeout):
            if self._gauge is not None:
                self.is_heard = True
                if (body_at := self._gauge.feed(data)) < 0:
                    return data
                self._joiner = ChunkJoiner() if self._gauge.is_chunked else None
                self._gauge = None
                if self._joiner is not None:
                    return data[:body_at] + self._joiner.feed(data[body_at:])
            elif self._joiner is not None:
                data = self._joiner.feed(data)
            if data:
                return data
        return b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send: an answer will begin. The head of a request goes out with its body: two packets would wake
        the server twice."""
        self.is_heard = False
        self._gauge, self._joiner = HeadGauge(), None
        attempt = _attempt.get()
        if attempt.opening and buffer.startswith(attempt.opening):
            attempt.opening, self._head = b"", buffer
            return
        head, self._head = self._head, b""
        await self._inner.write(head + buffer, timeout)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Return the same connection, encrypted."""
        return _LimitedStream(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """Return facts about the connection."""
        return self._is_readable() if info == "is_readable" else self._inner.get_extra_info(info)

    def _is_readable(self) -> bool:
        """Tell whether something came unasked, or the connection is gone. Asked twice a request, and anyio
        collects all it knows about a connection before it names the socket: once is enough."""
        if self._socket is None:
            self._socket = self._inner.get_extra_info("socket")
        if self._socket is None or self._socket.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    async def aclose(self) -> None:
        """Close it."""
        await self._inner.aclose()


class HeadGauge:
    """Measures the head of one answer and counts the interim answers before it: h11 takes any number.
    `is_chunked`, once the head is complete: its body comes in chunks."""

    def __init__(self) -> None:
        self.is_chunked = False
        self._data = bytearray()
        self._interim = 0

    def feed(self, data: bytes) -> int:
        """Return the place in these bytes where the body begins, -1 while the head is incomplete. Raises
        `HttpError` when a limit is broken."""
        searched = max(0, len(self._data) - 2)
        self._data += data
        while (end := BLANK_LINE.search(self._data, searched)) is not None and end.start() <= MAX_HEAD_BYTES:
            if not self._data.startswith(b"1", 9):  # HTTP/1.1 1xx
                self.is_chunked = CHUNKED.search(self._data, 0, end.end()) is not None
                return len(data) - (len(self._data) - end.end())
            self._interim += 1
            if self._interim > MAX_INTERIM_ANSWERS:
                raise HttpError(f"more than {MAX_INTERIM_ANSWERS} interim answers came before the real one")
            del self._data[: end.end()]
            searched = 0
        if len(self._data) > MAX_HEAD_BYTES:
            raise HttpError(f"its headers are longer than {MAX_HEAD_BYTES} bytes")
        return -1


def _is_asked_for(response: httpcore2.Response) -> bool:
    """Return False for an answer that was on a kept connection before the request: it belongs to no
    request."""
    stream = _stream_of(response)
    return not isinstance(stream, _LimitedStream) or stream.is_heard


def _stream_of(response: httpcore2.Response) -> httpcore2.AsyncNetworkStream:
    return cast(Any, response).extensions["network_stream"]


def _join_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return names in lower case, repeated ones joined."""
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _proxy_of(url: str, tls: ssl.SSLContext | None) -> httpcore2.Proxy:
    """Return a proxy setting, taken apart. Raises `ProviderError` for one that can't be used."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        if parts.scheme not in PROXY_SCHEMES or not host.isascii() or not host:
            raise ValueError("unknown scheme" if host else "no host")
    except ValueError as error:
        raise ProviderError(
            "bad_request",
            f"the proxy {url.rpartition('@')[2]} can't be used ({error}); "
            "expected http://, https:// or socks5://host:port",
        ) from error
    auth = None
    if parts.username is not None:
        auth = (unquote(parts.username).encode(), unquote(parts.password or "").encode())
    return httpcore2.Proxy(
        httpcore2.URL(scheme=parts.scheme, host=host, port=port, target="/"),
        auth=auth,
        ssl_context=tls if parts.scheme == "https" else None,
    )
