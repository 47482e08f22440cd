"""A command's output: beginning and end in memory, the whole on disk without secrets, and its way to the
screen."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
from collections.abc import Callable, Sequence

import msgspec

from buddy.agent.formatting import format_count
from buddy.safety.paths import make_private_folders
from buddy.safety.secrets.key_shapes import Span
from buddy.safety.secrets.redact import Finder, mask_spans, secret_spans

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
        """Finish: nothing more will come: write what waits, let go of the file."""
        try:
            while self.catch_up():
                pass
            if self._waiting:
                self._write(last=True)
        finally:
            self.abandon()

    def give_up(self) -> None:
        """Stop writing to the disk, which refused: half of an output is no use, and its room is."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self._waiting.clear()
        self.abandon()

    def abandon(self) -> None:
        """Release the file as it is."""
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
        end = len(text) if last else _safe_end(text, spans)
        if end == 0 and block < MOST_BYTES:
            self._block = block + BLOCK_BYTES
            return
        end = end or len(text)
        self._block = BLOCK_BYTES
        if not last:
            spans = [span for span in spans if span[1] <= max(end, len(text) - OPEN_CHARS)]
        before = [span for span in spans if span[0] < end]
        after = [(start - end, stop - end, kind) for start, stop, kind in spans[len(before) :]]
        data = mask_spans(text[:end], before).encode("utf-8", "surrogateescape")
        rest = mask_spans(text[end:], after).encode("utf-8", "surrogateescape")
        if self._file < 0:
            self._file = _create(self.path)
        _write_all(self._file, data)
        self._written += len(data)
        self._waiting[:block] = rest


def _safe_end(text: str, spans: Sequence[Span]) -> int:
    """Return the position up to which nothing that follows can turn the text into a secret, or into a longer
    one; 0 when it is too short to say, or one secret that may go on."""
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


HEAD_BYTES = 64 * 1024
TAIL_BYTES = 64 * 1024
CAP_BYTES = 50 * 1000 * 1000


class OutputBounds(msgspec.Struct, frozen=True):
    """Limits on the output that is kept: in memory at both ends, and on disk."""

    head_bytes: int = HEAD_BYTES
    tail_bytes: int = TAIL_BYTES
    cap_bytes: int = CAP_BYTES


class OutputLog:
    """The output of one command. `path` is where the whole goes when it is long; "": nowhere."""

    def __init__(self, path: str, bounds: OutputBounds, find: Finder = secret_spans) -> None:
        self.path = path
        self.total = 0
        self.trouble = ""
        self._bounds = bounds
        self._head = bytearray()
        self._tail = bytearray()
        self._file = SpillFile(path, bounds.cap_bytes, find)

    @property
    def over_cap(self) -> bool:
        """Tell whether more output arrived than is kept on disk."""
        return self.total > self._bounds.cap_bytes

    @property
    def spilled(self) -> bool:
        """Tell whether a file holds the whole output (up to the cap)."""
        return self._file.size > 0 and not self.trouble

    def add(self, data: bytes) -> None:
        """Take what was just read; `catch_up` brings it to the disk."""
        self.total += len(data)
        room = self._bounds.head_bytes - len(self._head)
        if room > 0:
            self._head += data[:room]
        if len(data) > room:
            self._tail += data[max(room, 0) :]
        if self.total > self._bounds.head_bytes + self._bounds.tail_bytes:
            if not self.trouble and self.path:
                self._file.add(data if self._file.size else bytes(self._head + self._tail))
            # Cut only now and then: dropping the front of the buffer costs a copy.
            if len(self._tail) > 2 * self._bounds.tail_bytes:
                del self._tail[: -self._bounds.tail_bytes]

    def catch_up(self) -> bool:
        """Bring a block of what came to the disk; whether another one waits. Some milliseconds at most: call
        it again before more is added."""
        try:
            return not self.trouble and self._file.catch_up()
        except OSError as error:
            self._give_up(error)
            return False

    def close(self) -> None:
        """Nothing more will come: finish the file. Reading goes on working."""
        try:
            self._file.close()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.trouble = f"the whole output could not be kept: {error.strerror}"
        self._file.give_up()

    def text(self) -> str:
        """Return the output for a model: all of it, or both ends with a line between them that states what is
        missing and where the whole is."""
        return render(bytes(self._head), bytes(self._tail), self.total, self._bounds, self._where())

    def _where(self) -> str:
        if self.trouble or not self.path:
            return self.trouble or "the whole was not kept"
        first = f" (the first {_size(self._bounds.cap_bytes)})" if self.over_cap else ""
        return f"the whole{first} is in {self.path}"

    async def read(self, offset: int, limit: int) -> tuple[int, bytes]:
        """Up to `limit` bytes from `offset` (negative: from the end), and where they really start: later
        than asked for when the middle was not kept."""
        start = max(0, self.total + offset) if offset < 0 else min(offset, self.total)
        if start < len(self._head):
            return start, bytes(self._head[start : start + limit])
        tail_start = self.total - len(self._tail)
        if start >= tail_start:
            return start, bytes(self._tail[start - tail_start :][:limit])
        if self.spilled and start < self._file.size:
            return start, await self._from_file(start, limit)
        return tail_start, bytes(self._tail[:limit])

    async def _from_file(self, start: int, limit: int) -> bytes:
        try:
            return await self._file.read(start, limit)
        except OSError as error:
            return f"[the kept output cannot be read: {error.strerror}]".encode()


def render(head: bytes, tail: bytes, total: int, bounds: OutputBounds, where: str) -> str:
    """Return both ends of an output as text. Pure."""
    if total <= bounds.head_bytes + bounds.tail_bytes:
        return (head + tail).decode("utf-8", "replace")
    tail = tail[-bounds.tail_bytes :]
    left_out = total - len(head) - len(tail)
    first = whole_characters(head).decode("utf-8", "replace")
    last = from_character(tail).decode("utf-8", "replace")
    return f"{first}\n[… {format_count(left_out, 'byte')} left out; {where} …]\n{last}"


def whole_characters(data: bytes) -> bytes:
    """Return the bytes without a character that was cut in two at their end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needed > back else data
    return data


def from_character(data: bytes) -> bytes:
    """Return the bytes without the rest of a character that was cut in two at their beginning."""
    for skip in range(min(3, len(data))):
        if data[skip] & 0xC0 != 0x80:
            return data[skip:]
    return data[min(3, len(data)) :]


def _size(count: int) -> str:
    if count >= 1_000_000:
        return f"{count / 1_000_000:.0f} MB"
    return f"{count / 1000:.0f} kB" if count >= 1000 else format_count(count, "byte")


INTERVAL_S = 0.05
MAX_PIECE_BYTES = 4096


class ProgressFeed:
    """Passes output on as text, at most every 50 ms and at most 4 kB at a time; what is too much for that is
    left out with a line that says so."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = bytearray()
        self._skipped = 0
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        """Take what was just read."""
        self._waiting += data
        excess = len(self._waiting) - MAX_PIECE_BYTES
        if excess > 0:
            del self._waiting[:excess]
            self._skipped += excess
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._flush)

    def _flush(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        note = ""
        if self._skipped:
            # The decoder may hold half a character of what is now left out.
            self._decoder.reset()
            self._waiting = bytearray(from_character(bytes(self._waiting)))
            note = f"\n[… {format_count(self._skipped, 'byte')} not shown …]\n"
            self._skipped = 0
        text = note + self._decoder.decode(bytes(self._waiting))
        self._waiting.clear()
        if text:
            self._show(text)

    def close(self) -> None:
        """Pass on what waits; nothing more will come."""
        if self._timer is not None:
            self._timer.cancel()
        self._flush()
        rest = self._decoder.decode(b"", final=True)
        if rest:
            self._show(rest)
