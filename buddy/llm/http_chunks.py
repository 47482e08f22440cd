"""Small chunks of a body, joined before they are parsed: h11 and httpcore2 take 15 µs for each chunk, and a
model server sends one for every token."""

from __future__ import annotations

from functools import lru_cache

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
        """The same chunks, fewer of them; b"" while only the beginning of a size line came."""
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
    """The number in a size line, 0 when it holds anything else. Most chunks of an answer are about as long
    as the one before."""
    return int(digits, 16) if HEX.issuperset(digits) else 0


def _chunk(pieces: list[bytes]) -> bytes:
    body = b"".join(pieces)
    return b"%x\r\n%b\r\n" % (len(body), body) if body else b""
