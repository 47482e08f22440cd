"""Limits of what a server may answer: errors for answers that break them, and packed bodies in pieces."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

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
