"""Shared code of both direct lanes: one POST, its answer read as a stream of pieces, its failures as
`ProviderError`.

Nothing here knows a wire format (the decoders do) or a connection (the clients do).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from time import monotonic
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from buddy.agent.provider import Alive, ModelDelta, ProviderError
from buddy.llm.direct.response_reader import Decoder, ReplyReader
from buddy.llm.errors import classify, redact
from buddy.llm.http.errors import redirect_error

MAX_ERROR_BYTES = 200_000
ERROR_BODY_S = 10
DRAIN_S = 0.05
"""How long the end of a finished body is waited for, so that the connection can be used again."""

LOOP_SHARE_S = 0.01
"""How long a reply is taken apart before the event loop gets its turn."""

ALIVE = Alive()


class Endpoint(msgspec.Struct, frozen=True):
    """Server address and credentials of a lane. `key` is called for each request, must not block, and may
    return "" (local servers); `connect_s` limits connecting; `max_output_tokens` is the limit sent when a
    request must state one and none was set (0: the lane's own default)."""

    base_url: str
    key: Callable[[], str]
    headers: dict[str, str] = {}
    connect_s: float = 15
    max_output_tokens: int = 0


class Answer(Protocol):
    """An HTTP answer whose body is still arriving. `headers` are in lower case."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The answer's headers."""
        ...

    def body(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises `ProviderError` of kind `cut` when it breaks off."""
        ...

    async def aclose(self) -> None:
        """Let go of the connection: keep it when the body was read to its end, close it otherwise."""
        ...


class HttpClient(Protocol):
    """Something that posts. One per provider; connections live on between requests."""

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> Answer:
        """Send and wait for the headers of the answer. Raises `ProviderError`."""
        ...

    async def get(self, url: str, headers: Mapping[str, str]) -> Answer:
        """The same for a GET."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class OneClient:
    """The HTTP client of a lane: made when the first request needs it, closed with the lane."""

    def __init__(self, endpoint: Endpoint, make: Callable[[Endpoint], HttpClient]) -> None:
        self._endpoint = endpoint
        self._make = make
        self._made: HttpClient | None = None

    def get(self) -> HttpClient:
        """Return the client."""
        if self._made is None:
            self._made = self._make(self._endpoint)
        return self._made

    async def aclose(self) -> None:
        """Close its connections, if there are any."""
        if self._made is not None:
            await self._made.aclose()


class Post(msgspec.Struct, frozen=True):
    """One request, ready to be sent. `key` is known here only to be kept out of error sentences."""

    url: str
    headers: dict[str, str]
    content: bytes
    provider: str
    key: str


async def stream_reply(
    client_of: Callable[[], HttpClient], post_of: Callable[[], Post], decoder: Decoder
) -> AsyncGenerator[ModelDelta, None]:
    """Send a request and yield the pieces of its reply. Closing the generator closes the connection."""
    post = post_of()
    client = client_of()
    answer = await client.post(post.url, post.headers, post.content)
    try:
        await refuse_failure(answer, post)
        body = answer.body()
        reader = ReplyReader(decoder, post.provider)
        turn_over_at = monotonic() + LOOP_SHARE_S
        async for chunk in body:
            pieces = reader.feed(chunk)
            if not pieces:
                yield ALIVE
            for piece in pieces:
                if isinstance(piece, ProviderError):
                    raise _without_key(piece, post.key)
                yield piece
                if monotonic() > turn_over_at:
                    await asyncio.sleep(0)  # a fast server must not keep the loop from keys and timers
                    turn_over_at = monotonic() + LOOP_SHARE_S
            if decoder.is_done:
                break
        else:
            for piece in reader.end():
                if isinstance(piece, ProviderError):
                    raise _without_key(piece, post.key)
                yield piece
        while decoder.is_done and (chunk := await _read_rest(body)):
            pieces = reader.feed(chunk)
            if not pieces:
                break
            for piece in pieces:
                if not isinstance(piece, ProviderError):
                    yield piece
    finally:
        await answer.aclose()


def host_of(base_url: str) -> str:
    """Return the host's name, as quirks and error sentences know the server."""
    try:
        return urlsplit(base_url).hostname or base_url
    except ValueError:
        return base_url


async def refuse_failure(answer: Answer, post: Post) -> None:
    """Raise what a status other than success means."""
    if answer.status < 300:
        return
    if answer.status < 400:
        where = answer.headers.get("location", "elsewhere")
        raise redirect_error(redact(where, post.key)[:200], post.provider, answer.status)
    content = await _first_bytes(answer.body())
    raise classify(answer.status, answer.headers, content, post.provider, key=post.key)


async def _first_bytes(body: AsyncIterator[bytes]) -> bytes:
    """Return the body up to a limit, or as much of it as came."""
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(ERROR_BODY_S):
            async for chunk in body:
                pieces.append(chunk)
                size += len(chunk)
                if size >= MAX_ERROR_BYTES:
                    break
    except (TimeoutError, ProviderError):
        pass  # what came is enough for a sentence
    return b"".join(pieces)


def _without_key(error: ProviderError, key: str) -> ProviderError:
    error.message = redact(error.message, key)
    error.args = (error.message,)
    return error


async def _read_rest(body: AsyncIterator[bytes]) -> bytes:
    """Read what follows the end of a reply if it arrives at once: usually the end of the body, which makes
    the connection reusable; occasionally another message."""
    try:
        async with asyncio.timeout(DRAIN_S):
            return await anext(body, b"")
    except (TimeoutError, ProviderError):
        return b""
