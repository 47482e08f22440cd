"""HTTP over connections that go to given addresses and nowhere else; TLS still checks the name.

Imported late: httpcore2 and what it brings take 70 ms.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import cast

import httpcore2

from buddy.safety.url_guard import JudgedAddress

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
USER_AGENT = "buddy (coding assistant; fetches what its user asks for)"
SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to the first of the judged addresses that answers, whatever the name says by now."""

    def __init__(self, host: str, port: int, addresses: Sequence[str]) -> None:
        self._expected = (host, port)
        self._addresses = addresses
        self._backend = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Return a connection to a judged address. Raises `httpcore2.ConnectError`."""
        if (host, port) != self._expected:
            raise httpcore2.ConnectError(f"{host}:{port} was not judged")
        failure: httpcore2.NetworkError | httpcore2.TimeoutException = httpcore2.ConnectError("no address")
        for address in self._addresses:
            try:
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.NetworkError, httpcore2.TimeoutException) as error:
                failure = error
        raise failure


class PinnedAnswer:
    """An answer over a connection of its own."""

    def __init__(self, pool: httpcore2.AsyncConnectionPool, response: httpcore2.Response) -> None:
        self._pool = pool
        self._response = response
        self.status = response.status

    def header(self, name: str) -> str:
        """Return the first value of a header, "" when there is none."""
        wanted = name.encode()
        return next(
            (value.decode("latin-1") for key, value in self._response.headers if key.lower() == wanted), ""
        )

    async def chunks(self) -> AsyncIterator[bytes]:
        """Return the body as it comes. Raises `ConnectionError`."""
        try:
            async for chunk in self._response.aiter_stream():
                yield chunk
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    async def aclose(self) -> None:
        """Close the connection."""
        await self._response.aclose()
        await self._pool.aclose()


class PinnedTransport:
    """Opens answers; one connection each, nothing kept."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls

    async def open(self, judged: JudgedAddress, addresses: Sequence[str]) -> PinnedAnswer:
        """Send a request to a judged address. Raises `ConnectionError`."""
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._tls,
            max_connections=1,
            network_backend=PinnedBackend(judged.host, judged.port, addresses),
        )
        request = httpcore2.Request(
            "GET",
            httpcore2.URL(
                scheme=judged.scheme.encode(),
                host=judged.host.encode(),
                port=judged.port,
                target=judged.target.encode(),
            ),
            headers=[
                ("Host", judged.authority),
                ("User-Agent", USER_AGENT),
                ("Accept", "text/html, text/markdown, text/plain, application/json, */*;q=0.5"),
                ("Accept-Encoding", "gzip, deflate"),
            ],
            extensions={"timeout": {"connect": CONNECT_SECONDS, "read": READ_SECONDS, "write": READ_SECONDS}},
        )
        async with AsyncExitStack() as failing:
            failing.push_async_callback(pool.aclose)
            try:
                answer = PinnedAnswer(pool, await pool.handle_async_request(request))
            except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
                raise ConnectionError(str(error) or type(error).__name__) from error
            failing.pop_all()
            return answer
