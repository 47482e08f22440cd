"""The file that takes a long output: every secret in it is painted over before it reaches the disk.

What is painted over keeps its length, so a place in the file is the same place in the output. A secret may
arrive in pieces: the end of what has come waits until more follows, or the output ends.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from buddy.safety.descriptors import make_private_folders
from buddy.safety.redact import Finder, painted_over, secret_spans
from buddy.safety.secret_shapes import Span

BLOCK_BYTES = 16 * 1024
"""How much is looked through at a time, and then others have their turn: two milliseconds, eight at worst."""
MOST_BYTES = 32 * 1024
"""How much is looked through at a time where one secret is all there is: it is longer than any."""
WAITING_CHARS = 4 * 1024
"""So much at least waits for what follows: a name and its secret may be some lines apart."""
OPEN_CHARS = 128
"""A secret that ends this close to the end may go on: an id, and the key that belongs to it."""


class SpillFile:
    """One file, made when the first bytes go to the disk; every method but `read` raises `OSError` where the
    disk does."""

    def __init__(self, path: str, cap_bytes: int, find: Finder = secret_spans) -> None:
        self.path = path
        self._cap = cap_bytes
        self._find = find
        self._waiting = bytearray()
        self._block = BLOCK_BYTES
        self._written = 0
        self._file = -1

    @property
    def size(self) -> int:
        """Size of the output in bytes, including what is not written to disk yet."""
        return self._written + len(self._waiting)

    def add(self, data: bytes) -> None:
        """Take what comes next, up to the cap; `catch_up` brings it to the disk."""
        self._waiting += data[: max(0, self._cap - self.size)]

    def catch_up(self) -> bool:
        """Write a block when there is one; whether there is another."""
        if len(self._waiting) >= self._block:
            self._write(last=False)
        return len(self._waiting) >= self._block

    def close(self) -> None:
        """Nothing more will come: write what waits, let go of the file."""
        try:
            while self.catch_up():
                pass
            if self._waiting:
                self._write(last=True)
        finally:
            self.abandon()

    def give_up(self) -> None:
        """The disk refused: half of an output is no use, and its room is."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self._waiting.clear()
        self.abandon()

    def abandon(self) -> None:
        """Let go of the file as it is."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    async def read(self, start: int, limit: int) -> bytes:
        """Up to `limit` bytes from a place in it. Raises `OSError`."""
        if start >= self._written:
            return bytes(self._waiting[start - self._written :][:limit])
        import aiofiles  # here: few outputs are read back

        limit = min(limit, self._written - start)  # now: what is written meanwhile stands in both
        async with aiofiles.open(self.path, "rb") as file:
            await file.seek(start)
            return await file.read(limit)

    def _write(self, *, last: bool) -> None:
        block = len(self._waiting) if last else self._block
        text = self._waiting[:block].decode("utf-8", "surrogateescape")
        spans = self._find(text)
        end = len(text) if last else _end_of_known(text, spans)
        if end == 0 and block < MOST_BYTES:
            self._block = block + BLOCK_BYTES
            return
        end = end or len(text)
        self._block = BLOCK_BYTES
        if not last:
            spans = [span for span in spans if span[1] <= max(end, len(text) - OPEN_CHARS)]
        before = [span for span in spans if span[0] < end]
        after = [(start - end, stop - end, kind) for start, stop, kind in spans[len(before) :]]
        data = painted_over(text[:end], before).encode("utf-8", "surrogateescape")
        rest = painted_over(text[end:], after).encode("utf-8", "surrogateescape")
        if self._file < 0:
            self._file = _create(self.path)
        _write_all(self._file, data)
        self._written += len(data)
        self._waiting[:block] = rest


def _end_of_known(text: str, spans: Sequence[Span]) -> int:
    """Up to where nothing that follows the text can make a secret of it, or a longer one; 0 when it is too
    short to say, or one secret that may go on."""
    known = max(0, len(text) - WAITING_CHARS)
    end = text.rfind("\n", 0, known) + 1 or known
    return min([end, *(start for start, stop, _kind in spans if start < end < stop)])


def _create(path: str) -> int:
    make_private_folders(os.path.dirname(path))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _write_all(descriptor: int, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
