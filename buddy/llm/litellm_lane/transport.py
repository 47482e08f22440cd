"""The httpx transport of litellm: httpx asks, the one HTTP engine of buddy sends.

It refuses redirects, and limits bodies however they are packed; the limits on heads are the engine's.
Imported behind litellm, which imports httpx.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any
from weakref import WeakKeyDictionary

import httpx

from buddy.agent.provider import ProviderError
from buddy.llm.direct.lane import ERROR_BODY_S, Answer
from buddy.llm.direct.response_reader import MAX_BODY_BYTES
from buddy.llm.http.client import EngineClient, proxy_for, trusting_the_system
from buddy.llm.http.limits import HttpError, RedirectError

CONNECT_S = 15
MAX_ERROR_BYTES = 50_000
"""litellm searches error bodies with patterns that take a second for four times as much."""
FRAMING = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that speak of bytes the engine has taken apart already."""


class EngineTransport(httpx.AsyncBaseTransport):
    """Clients by event loop and proxy, made when they are needed."""

    def __init__(
        self, environ: Mapping[str, str], tls: Callable[[], ssl.SSLContext] = trusting_the_system
    ) -> None:
        self._environ = environ
        self._tls = tls
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, EngineClient]] = (
            WeakKeyDictionary()
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send and wait for the headers. Raises `httpx.ConnectError` from the `ProviderError` that says why,
        `RedirectError`."""
        headers = {name: value for name, value in request.headers.items() if name not in ("host", *FRAMING)}
        url = str(request.url)
        client = self._client(url)
        try:
            content = None if request.method == "GET" else await request.aread()
            answer = await client.send(request.method, url, headers, content)
        except ProviderError as error:
            raise httpx.ConnectError(error.message) from error
        if 300 <= answer.status < 400:
            await answer.aclose()
            raise RedirectError(answer.status, answer.headers.get("location", "elsewhere"))
        return httpx.Response(
            answer.status,
            headers=[(name, value) for name, value in answer.headers.items() if name not in FRAMING],
            stream=_BoundedStream(answer),
        )

    async def aclose(self) -> None:
        """Close the connections of this event loop. The transport stays usable: several clients share it."""
        for client in self._made.pop(asyncio.get_running_loop(), {}).values():
            await client.aclose()

    def _client(self, url: str) -> EngineClient:
        made = self._made.setdefault(asyncio.get_running_loop(), {})
        proxy = proxy_for(url, self._environ)
        if proxy not in made:
            made[proxy] = EngineClient(CONNECT_S, proxy=proxy, tls=self._tls)
        return made[proxy]


class _BoundedStream(httpx.AsyncByteStream):
    """A limited body; the body of an error ends early in silence: what came is enough for a sentence."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._is_error = answer.status >= 400

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        size = 0
        limit = MAX_ERROR_BYTES if self._is_error else MAX_BODY_BYTES
        try:
            async with aclosing(self._first_seconds() if self._is_error else self._pieces()) as pieces:
                async for piece in pieces:
                    size += len(piece)
                    if size > limit:
                        break
                    yield piece
        finally:
            await self.aclose()  # litellm lets go of streams that fail
        if size > limit and not self._is_error:
            raise HttpError(f"it is longer than {limit // 1024**2} MB")

    async def aclose(self) -> None:
        """Close the connection, or keep it when the body was read to its end."""
        await self._answer.aclose()

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            async for piece in self._answer.body():
                yield piece
        except ProviderError as error:
            raise httpx.ReadError(error.message) from error

    async def _first_seconds(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._pieces()) as pieces:
            try:
                async with asyncio.timeout(ERROR_BODY_S):
                    async for piece in pieces:
                        yield piece
            except TimeoutError:
                return


def take_over(litellm: Any, handlers: Any, environment: Mapping[str, str]) -> EngineTransport:
    """Make every HTTP client of litellm use one bounded transport, and return that.

    Left alone, litellm follows redirects to any host, with the key and the conversation, and takes answers of
    any size. Its clients for synchronous calls (tokens of clouds) keep their transport, and follow nothing.
    """
    transport = EngineTransport(environment, lambda: _tls(environment))

    def client(**options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=transport, follow_redirects=False, trust_env=False, **options)

    def create_client(
        _handler: Any, timeout: Any = None, event_hooks: Any = None, *_args: Any, **_kwargs: Any
    ) -> httpx.AsyncClient:
        limit = handlers._DEFAULT_TIMEOUT if timeout is None else timeout  # noqa: SLF001 - as litellm does
        return client(timeout=limit, event_hooks=event_hooks, headers=handlers.get_default_headers())

    create_default_client = handlers.HTTPHandler.create_client

    def create_sync_client(handler: Any) -> httpx.Client:
        made: httpx.Client = create_default_client(handler)
        made.follow_redirects = False
        return made

    handlers.AsyncHTTPHandler.create_client = create_client
    handlers.HTTPHandler.create_client = create_sync_client
    # The OpenAI SDK takes these where it would make clients of its own: OpenAI, Azure and all that are alike.
    litellm.aclient_session = client(timeout=None)
    litellm.client_session = httpx.Client(follow_redirects=False)
    return transport


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Return the system's certificates, and the person's own where litellm's variable names one."""
    context = trusting_the_system()
    if own := environment.get("SSL_CERTIFICATE"):
        context.load_cert_chain(own)
    return context
