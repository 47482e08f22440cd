"""HTTP/1.1 answers, parsed: head, and body in its three framings. Pure; any fragmentation gives the same.

Only what a client of model servers needs. Anything malformed raises `HttpError`; nothing is guessed, and a
connection whose answer was in any way unusual is not used again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

import msgspec

from buddy.agent.counting import counted

MAX_HEAD_BYTES = 65_536
MAX_INTERIM_ANSWERS = 32
"""How many answers of status 1xx may precede the real one; servers send one or two."""
MAX_CHUNK_LINE = 4_096
MAX_TRAILERS = 100
UNZIPPED_PIECE = 65_536
HEX = frozenset(b"0123456789abcdefABCDEF")


class HttpError(ValueError):
    """The bytes are no HTTP/1.1 answer: what was wrong."""


class RedirectError(HttpError):
    """The answer sends the request, with its key, to another address. `location`: where."""

    def __init__(self, status: int, location: str) -> None:
        super().__init__(f"it redirects to {location}")
        self.status = status
        self.location = location


class Head(msgspec.Struct, frozen=True):
    """Status and headers (names in lower case, repeated ones joined); `is_reusable`: whether the server
    lets the connection live on."""

    status: int
    headers: dict[str, str]
    is_reusable: bool


class Body(Protocol):
    """A framing: bytes of the connection in, bytes of the body out."""

    @property
    def is_done(self) -> bool:
        """Whether the body is complete."""
        ...

    @property
    def rest(self) -> bytes:
        """Bytes that came after the end: nobody asked for them."""
        ...

    def feed(self, data: bytes) -> bytes:
        """The body's part of these bytes. Raises `HttpError`."""
        ...

    def end(self) -> None:
        """The connection ended. Raises `HttpError` when the body is not complete."""
        ...


class HeadParser:
    """The head of one answer, found in bytes as they arrive: each byte is looked at once. Interim answers
    (1xx) are skipped, a limited number of them."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._interim = 0

    def feed(self, data: bytes) -> tuple[Head, bytes] | None:
        """The head and the bytes after it; None while it is incomplete. Raises `HttpError`."""
        searched = max(0, len(self._data) - 3)
        self._data += data
        begin = 0
        while (end := self._data.find(b"\r\n\r\n", searched)) >= 0:
            if end - begin > MAX_HEAD_BYTES:
                break
            head = _head(bytes(self._data[begin:end]))
            begin = searched = end + 4
            if head.status >= 200:
                return head, bytes(self._data[begin:])
            self._interim += 1
            if self._interim > MAX_INTERIM_ANSWERS:
                raise HttpError(f"more than {MAX_INTERIM_ANSWERS} interim answers came before the real one")
        del self._data[:begin]
        if len(self._data) > MAX_HEAD_BYTES:
            raise HttpError(f"its headers are longer than {MAX_HEAD_BYTES} bytes")
        if not b"HTTP/1.".startswith(self._data[:7]):
            raise HttpError("it does not speak HTTP")
        return None


def body_of(head: Head) -> Body:
    """The framing of an answer to a POST."""
    if head.status in (204, 304):
        return SizedBody(0)
    if "transfer-encoding" in head.headers:
        if head.headers["transfer-encoding"].lower() != "chunked":
            raise HttpError("its transfer encoding is not chunked")
        return ChunkedBody()
    length = head.headers.get("content-length")
    if length is None:
        return OpenBody()
    sizes = {size.strip() for size in length.split(",")}
    size = sizes.pop()
    if sizes or not (size.isascii() and size.isdigit()):
        raise HttpError("its content length is no number")
    return SizedBody(int(size))


class Unzip:
    """A content encoding undone, in pieces of a limited size however well it was packed."""

    def __init__(self) -> None:
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces these bytes unpack to. Raises `HttpError`."""
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
    """The decoder of a content encoding; None for none. Raises `HttpError` for one that was not asked for."""
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return Unzip()
        case other:
            raise HttpError(f"its content encoding ({other[:20]}) was not asked for")


class SizedBody:
    """A body of a stated length."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.is_done = size == 0
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """The body's part of these bytes."""
        taken = data[: self._left]
        self._left -= len(taken)
        self.is_done = self._left == 0
        self.rest += data[len(taken) :]
        return taken

    def end(self) -> None:
        """Complete only when every byte came."""
        if self._left:
            raise HttpError(
                f"{counted(self._left, 'byte')} of the answer {'is' if self._left == 1 else 'are'} missing"
            )


class OpenBody:
    """A body that ends with the connection."""

    def __init__(self) -> None:
        self.is_done = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Everything is body."""
        return data

    def end(self) -> None:
        """The end of the connection is the end of the body."""
        self.is_done = True


class ChunkedBody:
    """A body in chunks; extensions and trailers are ignored."""

    def __init__(self) -> None:
        self._pending: bytes = b""
        self._left = 0
        self._state = "size"
        self._trailers = 0
        self.is_done = False
        self.rest: bytes = b""

    def feed(self, data: bytes) -> bytes:
        """The payload of every chunk (or part of one) these bytes hold."""
        if self._state == "data" and len(data) < self._left:
            self._left -= len(data)  # inside a large chunk: nothing to parse
            return data
        data = self._pending + data
        self._pending = b""
        out: list[bytes] = []
        at = 0
        while not self.is_done:
            if self._state == "data":
                taken = data[at : at + self._left]
                out.append(taken)
                at += len(taken)
                self._left -= len(taken)
                if self._left:
                    return b"".join(out)
                self._state = "data end"
            end = data.find(b"\r\n", at)
            if end < 0:
                self._pending = data[at:]
                if len(self._pending) > MAX_CHUNK_LINE:
                    raise HttpError("a chunk of it has no size")
                return b"".join(out)
            self._line(data[at:end])
            at = end + 2
        self.rest += data[at:]
        return b"".join(out)

    def end(self) -> None:
        """Complete only after the last chunk."""
        if not self.is_done:
            raise HttpError("the answer has no end")

    def _line(self, line: bytes) -> None:
        match self._state:
            case "data end":
                if line:
                    raise HttpError("a chunk of it is longer than it said")
                self._state = "size"
            case "size":
                digits = line.partition(b";")[0].strip()
                if not digits or len(digits) > 15 or not HEX.issuperset(digits):
                    raise HttpError("a chunk of it has no size")
                self._left = int(digits, 16)
                self._state = "data" if self._left else "trailers"
            case _:
                self.is_done = not line
                self._trailers += 1
                if self._trailers > MAX_TRAILERS:
                    raise HttpError(f"more than {MAX_TRAILERS} trailers follow it")


def _head(data: bytes) -> Head:
    lines = data.decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    status = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (
        status.isascii() and status.isdigit() and len(status) == 3
    ):
        raise HttpError("it does not speak HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise HttpError("one of its headers is malformed")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    connection = headers.get("connection", "").lower()
    is_reusable = version == "HTTP/1.1" and "close" not in connection
    # Both framings at once is how answers are smuggled: the chunks count, the connection does not live on.
    if "transfer-encoding" in headers and "content-length" in headers:
        is_reusable = False
    return Head(int(status), headers, is_reusable)
