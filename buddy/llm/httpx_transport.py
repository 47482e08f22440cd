"""The httpx transport of every request that goes through httpx: the direct lanes behind a proxy, and litellm.

It gives httpx the limits of the plain client: a limited number of interim answers, bodies of a limited size
however they are packed, error bodies cut short, and, for litellm, no redirects. Imported with the first
request that needs httpx.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from typing import Any, cast
from weakref import WeakKeyDictionary

import httpcore
import httpx

from buddy.llm.direct import ERROR_BODY_S
from buddy.llm.http1 import HeadParser, HttpError, RedirectError, Unzip, unzip_for
from buddy.llm.plain_client import IDLE_S, trusting_the_system
from buddy.llm.proxies import proxy_for
from buddy.llm.reply_reader import MAX_BODY_BYTES

MAX_IDLE_CONNECTIONS = 20
MAX_ERROR_BYTES = 50_000
"""litellm searches error bodies with patterns that take a second for four times as much."""
SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class BoundedTransport(httpx.AsyncHTTPTransport):
    """One pool of connections, through `proxy` where one is given."""

    def __init__(self, *, tls: ssl.SSLContext, proxy: httpx.Proxy | None = None) -> None:
        super().__init__(verify=tls, proxy=proxy, trust_env=False)  # refuses proxies it can't use
        backend = _BoundedBackend(cast(httpcore.AsyncNetworkBackend, httpcore.AnyIOBackend()))
        if proxy is None:
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=tls,
                max_connections=None,
                max_keepalive_connections=MAX_IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_S,
                network_backend=backend,
            )
        elif proxy.url.scheme in ("http", "https"):
            self._pool = httpcore.AsyncHTTPProxy(
                proxy_url=httpcore.URL(
                    scheme=proxy.url.raw_scheme,
                    host=proxy.url.raw_host,
                    port=proxy.url.port,
                    target=proxy.url.raw_path,
                ),
                proxy_auth=proxy.raw_auth,
                proxy_headers=proxy.headers.raw,
                proxy_ssl_context=proxy.ssl_context,
                ssl_context=tls,
                max_connections=None,
                max_keepalive_connections=MAX_IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_S,
                network_backend=backend,
            )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send and wait for the headers. Raises `HttpError` for an answer that breaks a limit."""
        response = await super().handle_async_request(request)
        try:
            unzip = unzip_for(response.headers.get("content-encoding", ""))
        except HttpError:
            await response.aclose()
            raise
        headers = [
            (name, value)
            for name, value in response.headers.raw
            if unzip is None or name.lower() not in (b"content-encoding", b"content-length")
        ]
        stream = cast(httpx.AsyncByteStream, response.stream)
        return httpx.Response(
            status_code=response.status_code,
            headers=headers,
            stream=_BoundedStream(stream, unzip, is_error=response.status_code >= 400),
            extensions=response.extensions,
        )


class RoutingTransport(httpx.AsyncBaseTransport):
    """Transports by event loop and proxy, made when they are needed. Refuses redirects: a client that would
    follow them never sees one."""

    def __init__(
        self, environ: Mapping[str, str], tls: Callable[[], ssl.SSLContext] = trusting_the_system
    ) -> None:
        self._environ = environ
        self._tls = tls
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, BoundedTransport]] = (
            WeakKeyDictionary()
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send and wait for the headers. Raises `RedirectError`, `HttpError`."""
        response = await self._transport(request.url).handle_async_request(request)
        if 300 <= response.status_code < 400:
            await response.aclose()
            raise RedirectError(response.status_code, response.headers.get("location", "elsewhere"))
        return response

    async def aclose(self) -> None:
        """Close the connections of this event loop. The transport stays usable: several clients share it."""
        for transport in self._made.pop(asyncio.get_running_loop(), {}).values():
            await transport.aclose()

    def _transport(self, url: httpx.URL) -> BoundedTransport:
        made = self._made.setdefault(asyncio.get_running_loop(), {})
        proxy = proxy_for(str(url), self._environ)
        if proxy not in made:
            made[proxy] = BoundedTransport(tls=self._tls(), proxy=httpx.Proxy(proxy) if proxy else None)
        return made[proxy]


class _BoundedStream(httpx.AsyncByteStream):
    """A body, unpacked and limited; the body of an error ends early in silence: what came is enough for a
    sentence."""

    def __init__(self, stream: httpx.AsyncByteStream, unzip: Unzip | None, *, is_error: bool) -> None:
        self._stream = stream
        self._unzip = unzip
        self._is_error = is_error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        limit = MAX_ERROR_BYTES if self._is_error else MAX_BODY_BYTES
        async for piece in self._first_seconds() if self._is_error else self._pieces():
            size += len(piece)
            if size > limit:
                if self._is_error:
                    return
                raise HttpError(f"it is longer than {limit // 1024**2} MB")
            yield piece

    async def aclose(self) -> None:
        """Close the connection, or keep it when the body was read to its end."""
        await self._stream.aclose()

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        async for chunk in self._stream:
            if self._unzip is None:
                yield chunk
                continue
            for piece in self._unzip.feed(chunk):
                yield piece

    async def _first_seconds(self) -> AsyncGenerator[bytes, None]:
        pieces = self._pieces()
        try:
            async with asyncio.timeout(ERROR_BODY_S):
                async for piece in pieces:
                    yield piece
        except TimeoutError:
            return
        finally:
            await pieces.aclose()


class _BoundedBackend(httpcore.AsyncNetworkBackend):
    """Connections whose answers have limited heads."""

    def __init__(self, inner: httpcore.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect."""
        options = cast(Iterable[tuple[int, int, int]] | None, socket_options)
        return _BoundedHeads(await self._inner.connect_tcp(host, port, timeout, local_address, options))

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._inner.sleep(seconds)


class _BoundedHeads(httpcore.AsyncNetworkStream):
    """A connection. h11 takes any number of interim answers; here they are counted before it sees them."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner
        self._head: HeadParser | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Some bytes. Raises `HttpError` for a head that breaks a limit."""
        data = await self._inner.read(max_bytes, timeout)
        if self._head is not None and data and self._head.feed(data) is not None:
            self._head = None
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send: an answer will begin."""
        self._head = self._head or HeadParser()
        await self._inner.write(buffer, timeout)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """The same connection, encrypted."""
        return _BoundedHeads(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """What the connection knows of itself."""
        return self._inner.get_extra_info(info)

    async def aclose(self) -> None:
        """Close it."""
        await self._inner.aclose()
