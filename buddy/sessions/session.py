"""An open session: its lock, its writer and its loaded state; opening and repair of a folder."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import Callable

import msgspec

from buddy.agent.cancel import on_failure
from buddy.safety.seal import Seal
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.folder import make_private
from buddy.sessions.identity import Signer
from buddy.sessions.journal import Appender, Journal, Position, SaveState
from buddy.sessions.line_codec import checksum
from buddy.sessions.loading import JOURNAL, LoadedSession, ResumedTask
from buddy.sessions.loading import NAME as SNAPSHOT
from buddy.sessions.lock import SessionLock, acquire
from buddy.sessions.rebuild import journal_of
from buddy.sessions.records import SessionHeader
from buddy.sessions.replay import Replay
from buddy.sessions.writer import SessionWriter

TORN = "journal.torn"


class Watch(msgspec.Struct, frozen=True):
    """Callbacks of a session: `saving` when saving fails and when it works again (NOT SAVED), `warn` with one
    sentence about anything else. `clock` is wall time."""

    saving: Callable[[SaveState], None] = lambda _state: None
    warn: Callable[[str], None] = lambda _text: None
    clock: Callable[[], float] = time.time


class OpenSession:
    """A session this process writes. `close` it."""

    def __init__(
        self, loaded: LoadedSession, writer: SessionWriter, lock: SessionLock, files: JournalFiles
    ) -> None:
        self.loaded = loaded
        self.writer = writer
        self._lock = lock
        self._files = files

    @property
    def session_id(self) -> str:
        """Return the session's id."""
        return self.writer.session_id

    @property
    def seal(self) -> Seal:
        """Return the key that seals the session's undo log and checkpoints."""
        return self.writer.seal

    @property
    def directory(self) -> str:
        """Return its folder."""
        return self.writer.directory

    @property
    def warning(self) -> str:
        """One sentence about a missing protection; "" when none is missing."""
        return self._lock.warning

    async def move_to(self, directory: str) -> None:
        """Move the session to another folder; works when the old folder is gone. After an `OSError` or
        `LockedError` nothing has changed."""
        await asyncio.to_thread(make_private, directory)
        lock = await asyncio.to_thread(acquire, directory, self._files)
        with on_failure(lock.release):
            path = os.path.join(directory, JOURNAL)
            if os.path.lexists(path):
                raise FileExistsError(f"there is a session in {directory} already; choose another folder")
            await self.writer.journal.move_to(path)
        self._lock.release()
        self._lock = lock
        self.writer.follow_move(directory)

    async def close(self) -> None:
        """Save the waiting records, end the writer, release the lock. Raises `NotSavedError` when records are
        lost."""
        try:
            await self.writer.close()
        finally:
            self._lock.release()


def open_writer(
    loaded: LoadedSession,
    header: SessionHeader,
    *,
    signer: Signer,
    files: JournalFiles,
    watch: Watch,
    floor: float,
) -> SessionWriter:
    """Open a writer after the loaded records. A torn tail is moved to a file beside the journal, and repairs
    are recorded. The caller holds the lock. `floor` is the newest time in the workspace's other sessions, so
    that a clock that was set back does not make this session look older. Raises `OSError`."""
    path = os.path.join(loaded.directory, JOURNAL)
    seal = signer.session_seal(header.session_id, header.workspace)
    if loaded.rebuild:
        loaded = _rebuild(path, loaded, header, seal, files)
    end = _cut_tail(path, loaded, files)
    appender = Appender(files, path, end)
    files.sync_directory(loaded.directory)
    journal = Journal(
        appender,
        position=loaded.position,
        last_number=loaded.last_number,
        last_at=max(loaded.last_at, floor),
        seal=seal,
        clock=watch.clock,
        changed=watch.saving,
    )
    writer = SessionWriter(
        journal,
        loaded.directory,
        header,
        signer=signer,
        replay=Replay(loaded.state),
        files=files,
        warn=watch.warn,
        snapshot_number=loaded.snapshot_number,
    )
    if loaded.header is None:
        writer.record_header()
    for task in loaded.tasks:
        _record_repairs(task, loaded, writer)
    return writer


def _rebuild(
    path: str, loaded: LoadedSession, header: SessionHeader, seal: Seal, files: JournalFiles
) -> LoadedSession:
    """Rewrite the journal from the state and keep the damaged one in `journal.torn`. The snapshot is deleted
    afterwards, because it has the old journal's numbers. A crash between the two steps is harmless: the
    snapshot holds the same state."""
    _keep_torn_tail(files.read_all(path), loaded.directory, files)
    lines = journal_of(header, loaded.state, loaded.last_at, seal)
    data = b"".join(lines)
    files.replace(path, data)
    with contextlib.suppress(FileNotFoundError):
        files.unlink(os.path.join(loaded.directory, SNAPSHOT))
    files.sync_directory(loaded.directory)
    position = Position(len(lines), len(data) - len(lines[-1]), checksum(lines[-1]))
    return msgspec.structs.replace(
        loaded,
        header=header,
        position=position,
        last_number=len(lines),
        end=len(data),
        unterminated=False,
        torn=0,
        snapshot_number=0,
    )


def _keep_torn_tail(tail: bytes, directory: str, files: JournalFiles) -> None:
    if tail:
        with files.open_file(os.path.join(directory, TORN), os.O_RDWR | os.O_CREAT) as torn:
            files.write_all(torn, tail, os.fstat(torn).st_size)
            files.sync(torn)


def _cut_tail(path: str, loaded: LoadedSession, files: JournalFiles) -> int:
    """Move the bytes after the last good record into `journal.torn`; return the new end."""
    if loaded.torn:
        _keep_torn_tail(files.read_all(path, loaded.end), loaded.directory, files)
    if not loaded.torn and not loaded.unterminated:
        return loaded.end
    with files.open_file(path, os.O_RDWR) as descriptor:
        files.truncate(descriptor, loaded.end)
        if loaded.unterminated:
            files.write_all(descriptor, b"\n", loaded.end)
        files.sync(descriptor)
    return loaded.end + int(loaded.unterminated)


def _record_repairs(task: ResumedTask, loaded: LoadedSession, writer: SessionWriter) -> None:
    """Record the changes made by resuming, so that journal and memory agree."""
    number = task.record.task_id
    raw = next(record for record in loaded.state.tasks if record.task_id == number)
    if task.record.history != raw.history or raw.partial is not None:
        pairs = zip(raw.history, task.record.history, strict=False)
        kept = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        writer.replace_history(number, "repaired on resume", kept, task.record.history[kept:])
    if task.record.task != raw.task:
        writer.record_task(number, task.record.task)


def release_quietly(lock: SessionLock) -> contextlib.ExitStack:
    """a stack that releases the lock unless `pop_all` is called."""
    stack = contextlib.ExitStack()
    stack.callback(lock.release)
    return stack
