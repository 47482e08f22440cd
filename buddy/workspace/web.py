"""One web page: asked for over a connection to a judged address, bounded in time, size and headers.

Nothing of the person travels along: no cookies, no credentials, no proxy, no user name. A redirect is judged
like the first address; one that leaves the host is not followed but named, because the person approved a
host.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal, Protocol
from urllib.parse import urljoin

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.sanitise import one_line
from buddy.safety.url_guard import (
    JudgedAddress,
    Network,
    Refused,
    Resolver,
    judge_url,
    resolve_and_judge,
    system_resolver,
)

MAX_BODY_BYTES = 5_000_000
MAX_SECONDS = 30.0
MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class FetchLimits(msgspec.Struct, frozen=True):
    """Limits for fetching a page: decoded bytes, total seconds, redirects followed."""

    body_bytes: int = MAX_BODY_BYTES
    seconds: float = MAX_SECONDS
    redirects: int = MAX_REDIRECTS


class Page(msgspec.Struct, frozen=True):
    """An answer. `content_type` and `length` are what the server said ("" and None when nothing); `cut`: the
    body is longer than the limit. The body of a kind that nobody reads as text is empty."""

    url: str
    status: int
    content_type: str
    length: int | None
    body: bytes
    cut: bool


class Moved(msgspec.Struct, frozen=True):
    """The page is at another host, which nobody approved."""

    url: str
    to: str


class RawAnswer(Protocol):
    """A server's answer whose body has not been read yet."""

    status: int

    def header(self, name: str) -> str:
        """Return the value of a header, "" when there is none."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Return the body as it comes."""
        ...

    async def aclose(self) -> None:
        """Close the connection."""
        ...


class Transport(Protocol):
    """Opens an answer. Raises `ConnectionError` with a sentence for the person."""

    async def open(self, judged: JudgedAddress, addresses: Sequence[str]) -> RawAnswer:
        """Request an address over a connection to one of the given IP addresses."""
        ...


def pinned_transport() -> Transport:
    """Return the real transport. Imported late: the HTTP client takes 100 ms to import."""
    from buddy.workspace.pinned_transport import PinnedTransport

    return PinnedTransport()


class Fetcher:
    """Fetches pages. `exceptions` are networks that count as public all the same (a local server in a
    test)."""

    def __init__(
        self,
        *,
        resolver: Resolver = system_resolver,
        exceptions: Sequence[Network] = (),
        limits: FetchLimits | None = None,
        transport: Callable[[], Transport] = pinned_transport,
    ) -> None:
        self._resolver = resolver
        self._exceptions = exceptions
        self._limits = limits or FetchLimits()
        self._make_transport = transport

    def judge(self, url: str) -> JudgedAddress:
        """Return the address as it would be asked for. Raises `ToolError` for one that is refused."""
        judged = judge_url(url, self._exceptions)
        if isinstance(judged, Refused):
            raise ToolError(judged.reason)
        return judged

    async def fetch(self, url: str) -> Page | Moved:
        """Return the page at an address. Raises `ToolError` with the reason when there is none."""
        judged = self.judge(url)
        try:
            async with asyncio.timeout(self._limits.seconds):
                # In a thread: keys are echoed while the HTTP client is imported.
                return await self._follow(judged, await asyncio.to_thread(self._make_transport))
        except TimeoutError as error:
            raise ToolError(
                f"{judged.shown} did not answer completely within {self._limits.seconds:g} seconds"
            ) from error
        except ConnectionError as error:
            raise ToolError(f"{judged.shown} cannot be fetched: {one_line(str(error), 300)}") from error

    async def _follow(self, judged: JudgedAddress, transport: Transport) -> Page | Moved:
        for _ in range(self._limits.redirects + 1):
            answer = await transport.open(judged, await self._addresses(judged))
            try:
                target = answer.header("location")
                if answer.status not in _REDIRECTS or not target:
                    return await self._page(judged, answer)
            finally:
                await answer.aclose()
            following = judge_url(urljoin(judged.url, target), self._exceptions)
            if isinstance(following, Refused):
                raise ToolError(
                    f"{judged.shown} redirects to an address that is not fetched: {following.reason}"
                )
            if not _same_place(judged, following):
                return Moved(judged.shown, following.shown)
            judged = following
        raise ToolError(f"{judged.shown} redirects more than {self._limits.redirects} times")

    async def _addresses(self, judged: JudgedAddress) -> Sequence[str]:
        if judged.address:
            return (judged.address,)
        found = await resolve_and_judge(judged.host, judged.port, self._resolver, self._exceptions)
        if isinstance(found, Refused):
            raise ToolError(found.reason)
        return found

    async def _page(self, judged: JudgedAddress, answer: RawAnswer) -> Page:
        length = answer.header("content-length")
        content_type = answer.header("content-type")
        body, cut = b"", False
        if is_text_type(content_type):
            body, cut = await _read_bounded(answer, self._limits.body_bytes)
        said = int(length) if length.isdecimal() and length.isascii() and len(length) < 19 else None
        return Page(judged.shown, answer.status, content_type, said, body, cut)


def is_text_type(content_type: str) -> bool:
    """Tell whether a content type can be read as text; a missing one counts as text."""
    kind = content_type.partition(";")[0].strip().lower()
    major, _, minor = kind.partition("/")
    return not kind or major == "text" or _is_text_subtype(minor)


def _is_text_subtype(minor: str) -> bool:
    known = {
        "json",
        "xml",
        "javascript",
        "ecmascript",
        "yaml",
        "x-yaml",
        "toml",
        "graphql",
        "x-sh",
        "sql",
        "x-ndjson",
    }
    return minor in known or minor.endswith(("+json", "+xml", "+yaml"))


def _same_place(judged: JudgedAddress, following: JudgedAddress) -> bool:
    """Tell whether a redirect stays at the same host, give or take "www.", not from https to http, on the
    usual or the same port."""
    if judged.host.removeprefix("www.") != following.host.removeprefix("www."):
        return False
    if (judged.scheme, following.scheme) == ("https", "http"):
        return False
    return judged.port == following.port or (judged.port, following.port) == (80, 443)


async def _read_bounded(answer: RawAnswer, limit: int) -> tuple[bytes, bool]:
    """Return the decoded body up to the limit, and whether there was more."""
    decoder = _Decoder(answer.header("content-encoding"))
    pieces: list[bytes] = []
    left = limit + 1
    async for chunk in answer.chunks():
        while chunk and left > 0:
            piece, chunk = decoder.decode(chunk, left)
            pieces.append(piece)
            left -= len(piece)
        if left <= 0:
            break
    body = b"".join(pieces)
    return body[:limit], len(body) > limit


class _Decoder:
    """Undoes gzip and deflate a bounded piece at a time: a small body may hold gigabytes."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise ToolError(f"the page is encoded as {one_line(name)!r}, which was not asked for")
        self._kind: Literal["plain", "zlib"] = "plain" if name in {"", "identity"} else "zlib"
        self._inflate = zlib.decompressobj(wbits=47)  # gzip or zlib, told apart by the first bytes

    def decode(self, data: bytes, limit: int) -> tuple[bytes, bytes]:
        """At most `limit` decoded bytes, and what of the input is left."""
        if self._kind == "plain":
            return data[:limit], b""
        try:
            piece = self._inflate.decompress(data, limit)
        except zlib.error as error:
            raise ToolError(f"the page's compression is broken: {error}") from error
        return piece, b"" if self._inflate.eof else self._inflate.unconsumed_tail
