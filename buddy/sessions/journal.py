"""The journal writer: records are appended on the event loop; one thread writes each batch atomically."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from buddy.safety.seal import Seal
from buddy.sessions.errors import NotSavedError
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.line_codec import checksum, encode


class Appender:
    """An open journal file. Owned by the writing thread.

    `end` is where the good bytes end. After a failure the file is cut back to it, at once where that works,
    otherwise before the next write, so that a reader never finds half a line in the middle.
    """

    def __init__(self, files: JournalFiles, path: str, end: int) -> None:
        self.path = path
        self.end = end
        self._files = files
        self._descriptor = files.open(path, os.O_RDWR | os.O_CREAT)
        self._ragged = True
        self._identity = files.identity(self._descriptor)

    def append(self, data: bytes) -> None:
        """Append whole lines and sync. After an `OSError` nothing of `data` is in the file, or it will be cut
        off before the next write."""
        if self._ragged:
            self._files.truncate(self._descriptor, self.end)
        self._ragged = True
        try:
            self._files.write_all(self._descriptor, data, self.end)
            self._files.sync(self._descriptor)
            self._check_place()
        except OSError:
            with contextlib.suppress(OSError):  # tried again by the next append
                self._files.truncate(self._descriptor, self.end)
                self._ragged = False
            raise
        self._ragged = False
        self.end += len(data)

    def move(self, path: str) -> None:
        """Continue in a copy of this file at `path`. Works for a deleted file that is still open. After an
        `OSError` nothing has changed."""
        data = self._files.read_open(self._descriptor, 0, self.end)
        if len(data) < self.end:
            raise OSError(f"expected {self.end} bytes in {self.path}, found {len(data)}")
        self._files.replace(path, data)
        descriptor = self._files.open(path, os.O_RDWR)
        self.close()
        self._descriptor, self.path, self._ragged = descriptor, path, False
        self._identity = self._files.identity(descriptor)

    def close(self) -> None:
        """Close the file. Idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                self._files.close(descriptor)

    def _check_place(self) -> None:
        """Raise `OSError` when the file was deleted, replaced or taken over, because its bytes would be lost.
        One lstat, about 2 µs."""
        try:
            in_place = self._files.identity(self.path) == self._identity
        except (FileNotFoundError, NotADirectoryError):
            in_place = False
        if not in_place:
            raise OSError(f"{self.path} was deleted, replaced or taken over")


FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0
LINGER_S = 0.005
"""The time a record that nobody awaits may wait, so that several are written together: a tool turn has
three."""


class SaveState(msgspec.Struct, frozen=True):
    """The state of saving. `saved`: everything is on the disk or on its normal way there. Otherwise `reason`
    is the disk's error, and `waiting` the number of records that are only in memory."""

    saved: bool
    reason: str = ""
    waiting: int = 0


class Position(msgspec.Struct, frozen=True):
    """A saved line: its number, offset and checksum. Number 0 stands for the empty file."""

    number: int
    start: int
    checksum: str


EMPTY = Position(0, 0, "")


class _Waiting(msgspec.Struct, frozen=True):
    number: int
    line: bytes
    saved: asyncio.Future[int]


class _Flush(msgspec.Struct, frozen=True):
    number: int
    flushed: asyncio.Future[None]


class _Move(msgspec.Struct, frozen=True):
    path: str
    moved: asyncio.Future[None]


class Journal:
    """Appends records to one file. Created and used on the event loop; `close` it.

    `position` is the last line on the disk, `last_number` at least its number (a snapshot may know of more),
    `last_at` the newest wall time in the file: times in a journal never go back, whatever the clock does.
    `seal` seals every record.
    """

    def __init__(
        self,
        appender: Appender,
        *,
        position: Position = EMPTY,
        last_number: int = 0,
        last_at: float = 0,
        seal: Seal | None = None,
        clock: Callable[[], float] = time.time,
        changed: Callable[[SaveState], None] | None = None,
    ) -> None:
        self.state = SaveState(saved=True)
        self.position = position
        self.last_number = max(position.number, last_number)
        self.last_at = last_at
        self._appender = appender
        self._seal = seal
        self._clock = clock
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._acknowledged = self.last_number
        self._waiting: deque[_Waiting] = deque()
        self._flushes: list[_Flush] = []
        self._move: _Move | None = None
        self._closing = False
        self._linger: asyncio.TimerHandle | None = None
        self._lock = threading.Lock()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """Return the bytes on the disk."""
        return self._appender.end

    @property
    def path(self) -> str:
        """Return the path of the journal."""
        return self._appender.path

    def append(
        self, kind: str, data: object, task_id: int = 0, *, linger_s: float = 0.0
    ) -> asyncio.Future[int]:
        """Number a record and queue it. The future resolves to the number once the record is on the disk.
        `linger_s` lets it wait for others to be written with it. Raises `NotSavedError` when the journal is
        closed."""
        if self._closing:
            raise NotSavedError(f"the journal {self.path} is closed; a {kind} record came too late")
        self.last_at = max(self._clock(), self.last_at)
        line = encode(self.last_number + 1, kind, task_id, self.last_at, data, self._seal)
        self.last_number += 1
        saved: asyncio.Future[int] = self._loop.create_future()
        with self._lock:
            self._waiting.append(_Waiting(self.last_number, line, saved))
        self._ring_within(linger_s)
        return saved

    async def record(self, kind: str, data: object, task_id: int = 0) -> int:
        """Append and wait until it is on the disk. Cancelling the wait does not take the record back."""
        return await self.append(kind, data, task_id)

    async def flush(self) -> None:
        """Wait until everything appended so far is on the disk. Raises `NotSavedError` when the journal was
        closed before it was."""
        if self._acknowledged < self.last_number:
            if not self._thread.is_alive():
                raise NotSavedError(f"the journal {self.path} is closed; not everything was saved")
            self._flushes.append(_Flush(self.last_number, self._loop.create_future()))
            self._ring()
            await self._flushes[-1].flushed

    async def move_to(self, path: str) -> None:
        """Continue in a new file with everything saved so far and what still waits. Raises `OSError`."""
        moved: asyncio.Future[None] = self._loop.create_future()
        self._move = _Move(path, moved)
        self._ring()
        await moved

    async def close(self) -> None:
        """Write the waiting records, retry once after a failure, and end the thread. Raises `NotSavedError`
        when records are lost with this."""
        self._closing = True
        self._ring()
        await asyncio.to_thread(self._thread.join)
        self._appender.close()
        if self._waiting:
            raise NotSavedError(
                f"{len(self._waiting)} records could not be written to {self.path}: {self.state.reason}"
            )

    def _work(self) -> None:
        """Write batches in order until the journal is closed. Runs in the thread."""
        pause_s = 0.0
        reason = "the writer ended"
        try:
            while True:
                batch, move, closing = self._next(pause_s)
                if move is not None:
                    self._carry_out(move)
                try:
                    self._write(batch)
                    pause_s = 0.0
                except OSError as error:
                    reason = str(error)
                    pause_s = min(max(pause_s * 2, FIRST_PAUSE_S), LONGEST_PAUSE_S)
                    self._post(self._note_failure, reason)
                if closing and (pause_s or not self._waiting):
                    return
        finally:
            self._post(self._give_up, reason)

    def _ring_within(self, seconds: float) -> None:
        until = self._loop.time() + seconds
        if seconds <= 0:
            self._ring()
        elif self._linger is None or self._linger.when() > until:
            if self._linger is not None:
                self._linger.cancel()
            self._linger = self._loop.call_at(until, self._ring)

    def _ring(self) -> None:
        """Wake the thread."""
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._bell.put(None)

    def _next(self, pause_s: float) -> tuple[list[_Waiting], _Move | None, bool]:
        """Return the next batch, the move, and whether to end. After a failure new records wait out the
        pause; a move or the end do not."""
        until = time.monotonic() + pause_s
        with contextlib.suppress(queue.Empty):
            while not self._closing:
                self._bell.get(timeout=max(0.0, until - time.monotonic()) if pause_s else None)
                if not pause_s or self._move is not None:
                    break
        with contextlib.suppress(queue.Empty):
            while True:
                self._bell.get_nowait()
        with self._lock:
            move, self._move = self._move, None
            return list(self._waiting), move, self._closing

    def _write(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        self._appender.append(b"".join(waiting.line for waiting in batch))
        last = batch[-1]
        position = Position(last.number, self._appender.end - len(last.line), checksum(last.line))
        with self._lock:
            for _ in batch:
                self._waiting.popleft()
        self._post(self._confirm, batch, position)

    def _carry_out(self, move: _Move) -> None:
        try:
            self._appender.move(move.path)
            self._post(_resolve, move.moved)
        except OSError as error:
            self._post(_fail, move.moved, error)

    def _post(self, call: Callable[..., None], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop ended without closing the journal
            self._loop.call_soon_threadsafe(call, *args)

    def _confirm(self, batch: list[_Waiting], position: Position) -> None:
        self.position = position
        self._acknowledged = position.number
        for waiting in batch:
            if not waiting.saved.done():
                waiting.saved.set_result(waiting.number)
        for flush in [flush for flush in self._flushes if flush.number <= position.number]:
            self._flushes.remove(flush)
            _resolve(flush.flushed)
        self._show(SaveState(saved=True))

    def _note_failure(self, reason: str) -> None:
        self._show(SaveState(saved=False, reason=reason, waiting=len(self._waiting)))

    def _give_up(self, reason: str) -> None:
        self._closing = True
        error = NotSavedError(f"{len(self._waiting)} records could not be written to {self.path}: {reason}")
        for waiting in self._waiting:
            if not waiting.saved.done():
                waiting.saved.set_exception(error)
                waiting.saved.exception()  # nobody has to wait for a record: one nobody did is no mistake
        for flush in self._flushes:
            _fail(flush.flushed, error)
        if self._move is not None:
            _fail(self._move.moved, error)

    def _show(self, state: SaveState) -> None:
        if state != self.state:
            self.state = state
            if self._changed is not None:
                self._changed(state)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
