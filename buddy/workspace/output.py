"""Log of a command's output: beginning and end in memory, the whole on disk once it is long.

Memory stays bounded however much arrives. The file is written only when head and tail together no longer
hold everything; up to a cap, after which whoever owns the process is told to stop it. Secrets are painted
over in the file; what is given to a model or a person from memory is cleaned where it is given.
"""

from __future__ import annotations

import msgspec

from buddy.agent.counting import counted
from buddy.safety.redact import Finder, secret_spans
from buddy.workspace.spill import SpillFile

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
            self._spill(data)
            # Cut only now and then: dropping the front of the buffer costs a copy.
            if len(self._tail) > 2 * self._bounds.tail_bytes:
                del self._tail[: -self._bounds.tail_bytes]

    def _spill(self, data: bytes) -> None:
        if not self.trouble and self.path:
            self._file.add(data if self._file.size else bytes(self._head + self._tail))

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
    """Both ends of an output as text. Pure."""
    if total <= bounds.head_bytes + bounds.tail_bytes:
        return (head + tail).decode("utf-8", "replace")
    tail = tail[-bounds.tail_bytes :]
    left_out = total - len(head) - len(tail)
    first = whole_characters(head).decode("utf-8", "replace")
    last = from_character(tail).decode("utf-8", "replace")
    return f"{first}\n[… {counted(left_out, 'byte')} left out; {where} …]\n{last}"


def whole_characters(data: bytes) -> bytes:
    """The bytes without a character that was cut in two at their end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needed > back else data
    return data


def from_character(data: bytes) -> bytes:
    """The bytes without the rest of a character that was cut in two at their beginning."""
    for skip in range(min(3, len(data))):
        if data[skip] & 0xC0 != 0x80:
            return data[skip:]
    return data[min(3, len(data)) :]


def _size(count: int) -> str:
    if count >= 1_000_000:
        return f"{count / 1_000_000:.0f} MB"
    return f"{count / 1000:.0f} kB" if count >= 1000 else counted(count, "byte")
