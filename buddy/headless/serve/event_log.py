"""The numbered records of a served session: each is encoded once, and any number of readers follow them.

A reader is a position, so a slow one costs no memory. The newest records are kept up to a limit of bytes; a
reader that asks for older ones is told to load the session again. Readers that are up to date are live: they
are handed the same bytes in one go, without waking a task for each.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Callable

MAX_KEPT_BYTES = 4_000_000
"""Some ten minutes of ten streaming tasks, so that a phone can lose its network for a while."""


LivePush = Callable[[bytes], bool]
"""Hands records to a reader at once; False where its connection has not taken what it got before."""


class LogReader:
    """One reader of a log. `position` is the number of the last record it was sent; `wake` is set when there
    may be more, and by whoever wants the reader to look up."""

    def __init__(self, log: EventLog, position: int) -> None:
        self._log = log
        self.position = position
        self.wake = asyncio.Event()
        self._push: LivePush | None = None

    def go_live(self, push: LivePush) -> None:
        """Be handed new records by `push` until it refuses some. The reader has all records now."""
        assert self.position == self._log.newest
        self._push = push

    def hand_over(self, chunks: dict[int, bytes]) -> None:
        """Take the new records, or wake up for them. `chunks` are texts by the position they follow, shared
        by all readers."""
        if self._push is not None and self.position == self._log.newest:
            return
        if self._push is not None and not self.is_behind:
            if self.position not in chunks:
                chunks[self.position] = b"".join(self._log.after(self.position, sys.maxsize))
            if self._push(chunks[self.position]):
                self.position = self._log.newest
                return
        self._push = None
        self.wake.set()

    @property
    def is_behind(self) -> bool:
        """Tell whether records after its position are no longer kept."""
        return self.position < self._log.oldest - 1

    def skip_to_end(self) -> None:
        """Leave out everything up to now."""
        self.position = self._log.newest

    def take(self, max_bytes: int) -> bytes:
        """Return the next records as one text: at least one where there is one, no more than `max_bytes`
        beyond that."""
        records = self._log.after(self.position, max_bytes)
        self.position += len(records)
        return b"".join(records)

    def close(self) -> None:
        """Follow the log no more."""
        self._log.readers.discard(self)


class EventLog:
    """The records of one run. Their ids begin with the run's own word, so that an id of an earlier run is
    recognised."""

    def __init__(self, *, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self.readers: set[LogReader] = set()
        self.is_closed = False
        self._run = secrets.token_hex(4)
        self._max_bytes = max_bytes
        self._records: list[bytes] = []
        self._bytes = 0
        self.newest = 0

    @property
    def oldest(self) -> int:
        """Return the number of the oldest record that is kept; of the next one when none is."""
        return self.newest - len(self._records) + 1

    @property
    def kept_bytes(self) -> int:
        """Return the size of the records that are kept."""
        return self._bytes

    def id_of(self, number: int) -> str:
        """Return the id of a record; 0 is before the first."""
        return f"{self._run}-{number}"

    def append(self, name: str, data: bytes) -> None:
        """Add a record; `data` is JSON on one line. Readers hear of it with `announce`."""
        self.newest += 1
        record = b"id: %b\nevent: %b\ndata: %b\n\n" % (self.id_of(self.newest).encode(), name.encode(), data)
        self._records.append(record)
        self._bytes += len(record)
        if self._bytes > self._max_bytes:
            self._drop_oldest()

    def announce(self) -> None:
        """Hand new records to live readers, and wake the others."""
        chunks: dict[int, bytes] = {}
        for reader in self.readers:
            reader.hand_over(chunks)

    def close(self) -> None:
        """End the log: readers get the rest and are done."""
        self.announce()
        self.is_closed = True
        for reader in self.readers:
            reader.wake.set()

    def follow(self, last_id: str) -> LogReader | None:
        """Return a reader that continues after the record with this id, or begins now for "". None for an id
        of another run, or one whose successors are no longer kept."""
        position = self._position_of(last_id) if last_id else self.newest
        if position is None:
            return None
        reader = LogReader(self, position)
        self.readers.add(reader)
        return reader

    def after(self, position: int, max_bytes: int) -> list[bytes]:
        """Return the kept records after a position: at least one where there is one."""
        records: list[bytes] = []
        size = 0
        for at in range(max(0, position - self.oldest + 1), len(self._records)):
            record = self._records[at]
            size += len(record)
            if records and size > max_bytes:
                break
            records.append(record)
        return records

    def _position_of(self, last_id: str) -> int | None:
        run, _, digits = last_id.partition("-")
        if run != self._run or not (digits.isascii() and digits.isdigit() and len(digits) < 16):
            return None
        position = int(digits)
        return position if self.oldest - 1 <= position <= self.newest else None

    def _drop_oldest(self) -> None:
        """Drop a quarter at once: removing records one by one from a list moves all the others each time."""
        dropped = 0
        while dropped < len(self._records) - 1 and self._bytes > self._max_bytes * 3 // 4:
            self._bytes -= len(self._records[dropped])
            dropped += 1
        del self._records[:dropped]
