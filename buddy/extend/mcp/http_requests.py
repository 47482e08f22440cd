"""HTTP requests of the protocol library, sent by the engine of the whole program: the same proxies,
certificates and limits. Imported with the library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import httpx2

from buddy.extend.mcp.guard import MAX_MESSAGE_BYTES, WINDOW_S
from buddy.llm.direct.lane import Answer
from buddy.llm.http.client import EngineClient, proxy_for

CONNECT_S = 15.0
MAX_STREAM_BYTES = 256_000_000
"""So much of an event stream may come in a minute; no single message is larger than `MAX_MESSAGE_BYTES`."""
_DROPPED = frozenset(
    {
        "content-encoding",  # the engine has undone it,
        "content-length",  # so this is no longer its length
        "set-cookie",  # repeated ones arrive joined, and no server of the protocol needs one
        "transfer-encoding",
    }
)


class TooMuchError(Exception):
    """A server sent more than anybody needs; one sentence."""


class HttpRequests:
    """Sends requests to any number of hosts, with one pool of connections for each. `environment` holds the
    proxy settings."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._clients: dict[str, EngineClient] = {}

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send and wait for the headers of the answer, however long that takes. Raises `ProviderError`."""
        headers = {name: value for name, value in request.headers.items() if name != "host"}
        headers["accept-encoding"] = "gzip, deflate"
        content = await request.aread()
        headers.pop("content-length", None)
        url = str(request.url.copy_with(userinfo=b"", fragment=None))
        is_post = request.method == "POST"
        answer = await self._client(url).send(
            request.method,
            url,
            headers,
            content if content or is_post else None,
            may_repeat=not is_post,  # a call that was carried out must not be carried out again
        )
        kept = {name: value for name, value in answer.headers.items() if name not in _DROPPED}
        # httpx2 reads header values as text of its own choice; what is not ASCII is of no use to anybody.
        kept = {name: value.encode("ascii", "replace").decode() for name, value in kept.items()}
        return httpx2.Response(answer.status, headers=kept, stream=_Body(answer), request=request)

    async def aclose(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.aclose()

    def _client(self, url: str) -> EngineClient:
        parts = httpx2.URL(url)
        origin = f"{parts.scheme}://{parts.netloc.decode('ascii')}"
        if origin not in self._clients:
            proxy = proxy_for(url, self._environment)
            self._clients[origin] = EngineClient(CONNECT_S, proxy=proxy, setting="url")
        return self._clients[origin]


class _Body(httpx2.AsyncByteStream):
    """A body that is still arriving, with a limit on how fast."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        window_began, count = loop.time(), 0
        async for chunk in self._answer.body():
            now = loop.time()
            if now - window_began > WINDOW_S:
                window_began, count = now, 0
            count += len(chunk)
            if count > MAX_STREAM_BYTES:
                raise TooMuchError(f"it sent more than {MAX_STREAM_BYTES // 1_000_000} MB within a minute")
            yield chunk

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._answer.aclose()


async def read_all(response: httpx2.Response, limit: int = MAX_MESSAGE_BYTES) -> bytes:
    """Return a whole body and let go of its connection. Raises `ProviderError` when it breaks off,
    `TooMuchError` when it is larger than `limit`."""
    pieces: list[bytes] = []
    count = 0
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    try:
        async for chunk in stream:
            count += len(chunk)
            if count > limit:
                raise TooMuchError(f"it sent an answer of more than {_size(limit)}")
            pieces.append(chunk)
    finally:
        await response.aclose()
    return b"".join(pieces)


def _size(count: int) -> str:
    return f"{count // 1_000_000} MB" if count >= 1_000_000 else f"{count // 1000} kB"


def with_body(response: httpx2.Response, body: bytes) -> httpx2.Response:
    """Return an answer whose body has been read."""
    return httpx2.Response(
        response.status_code, headers=response.headers, content=body, request=response.request
    )
