"""Limits of requests and answers: checked addresses and headers, joined chunks, bounded packed bodies."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

import msgspec

from buddy.agent.provider import ProviderError
from buddy.safety.url_guard import canonical_host

MAX_SIZE_LINE = 16
LINE_END = b"\r\n"
HEX = frozenset(b"0123456789abcdefABCDEF")


class ChunkJoiner:
    """Joins whole chunks that arrive together. Nothing of a body waits here, and nothing is judged: from the
    first thing on that is no plain chunk (the last one, an extension, nonsense), bytes pass as they are."""

    def __init__(self) -> None:
        self._size_line: bytes = b""
        self._left: int = 0
        self._is_over = False

    def feed(self, data: bytes) -> bytes:
        """Return the same chunks, fewer of them; b"" while only the beginning of a size line came."""
        if self._is_over:
            return data
        if len(data) <= self._left:
            self._left -= len(data)
            return data
        opened = data[: self._left]
        at = 0
        data = self._size_line + data[self._left :]
        self._size_line = b""
        self._left = 0
        whole: list[bytes] = []
        while at < len(data):
            end = data.find(LINE_END, at, at + MAX_SIZE_LINE)
            if end < 0 and len(data) - at < MAX_SIZE_LINE:
                self._size_line = data[at:]
                break
            size = _size_of(data[at:end]) if end > at else 0
            stop = end + 2 + size
            if not size or not LINE_END.startswith(data[stop : stop + 2]):
                self._is_over = True
                return b"".join((opened, _chunk(whole), data[at:]))
            if stop + 2 > len(data):
                self._left = stop + 2 - len(data)
                return b"".join((opened, _chunk(whole), data[at:]))
            whole.append(data[end + 2 : stop])
            at = stop + 2
        return opened + _chunk(whole)


@lru_cache(maxsize=256)
def _size_of(digits: bytes) -> int:
    """Return the number in a size line, 0 when it holds anything else. Most chunks of an answer are about as
    long as the one before."""
    return int(digits, 16) if HEX.issuperset(digits) else 0


def _chunk(pieces: list[bytes]) -> bytes:
    body = b"".join(pieces)
    return b"%x\r\n%b\r\n" % (len(body), body) if body else b""


UNZIPPED_PIECE = 65_536


class HttpError(ValueError):
    """An answer that can't be used: what is wrong with it."""


class RedirectError(HttpError):
    """The answer sends the request, with its key, to another address. `location`: where."""

    def __init__(self, status: int, location: str) -> None:
        super().__init__(f"it redirects to {location}")
        self.status = status
        self.location = location


class Unzip:
    """A content encoding undone, in pieces of a limited size however well it was packed."""

    def __init__(self) -> None:
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the pieces these bytes unpack to. Raises `HttpError`."""
        piece = b""
        while data or len(piece) == UNZIPPED_PIECE:  # a full piece may have left more inside the unpacker
            try:
                piece = self._unpacker.decompress(data, UNZIPPED_PIECE)
            except zlib.error as error:
                raise HttpError(f"its content encoding is broken ({error})") from error
            data = self._unpacker.unconsumed_tail
            if piece:
                yield piece


def unzip_for(encoding: str) -> Unzip | None:
    """Return the decoder of a content encoding; None for none. Raises `HttpError` for one that was not asked
    for."""
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return Unzip()
        case other:
            raise HttpError(f"its content encoding ({other[:20]}) was not asked for")


HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"


class Target(msgspec.Struct, frozen=True):
    """A URL, taken apart. `authority` is host and port as the URL names them."""

    host: str
    port: int
    is_tls: bool
    authority: str
    path: str

    @property
    def address(self) -> str:
        """Host and port, for a person."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(url: str) -> Target:
    """Return a URL, taken apart. Raises `ProviderError` for one that can't be asked."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _bad_url() from error
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise _bad_url()
    is_tls = parts.scheme == "https"
    name = host if host.isascii() else canonical_host(host)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not name or not path.isascii() or any(character <= " " for character in path):
        raise _bad_url()
    shown = f"[{name}]" if ":" in name else name
    return Target(name, port or (443 if is_tls else 80), is_tls, f"{shown}:{port}" if port else shown, path)


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise `ProviderError` for a header that can't be sent, without showing its value."""
    for name, value in headers.items():
        if not (value.isprintable() and value.isascii() and re.fullmatch(HEADER_NAME, name)):
            raise ProviderError(
                "bad_request",
                f"the header {name!r} has characters that can't be sent; check the key and headers",
            )


def _bad_url() -> ProviderError:
    return ProviderError("bad_request", "base_url is no address: expected http://host or https://host")
