"""A session in use: its lock, its writer, what was loaded; and how a folder becomes one."""

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
    """Listeners of a session's saving: `saving` when the disk refuses and when it takes again (NOT SAVED),
    `warn` in one sentence about anything else. `clock` is wall time."""

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
        """The session's id."""
        return self.writer.session_id

    @property
    def seal(self) -> Seal:
        """The key that seals what belongs to the session: its undo log, its checkpoints."""
        return self.writer.seal

    @property
    def directory(self) -> str:
        """Its folder."""
        return self.writer.directory

    @property
    def warning(self) -> str:
        """Say in one sentence which protection is missing; "" when none is."""
        return self._lock.warning

    async def move_to(self, directory: str) -> None:
        """Save elsewhere: everything so far goes into this folder, and the session goes on there. Works when
        the old folder is gone. Raises `OSError` or `LockedError`, and then nothing has changed."""
        await asyncio.to_thread(make_private, directory)
        lock = await asyncio.to_thread(acquire, directory, self._files)
        with on_failure(lock.release):
            path = os.path.join(directory, JOURNAL)
            if os.path.lexists(path):
                raise FileExistsError(f"there is a session in {directory} already; choose another folder")
            await self.writer.journal.move_to(path)
        self._lock.release()
        self._lock = lock
        self.writer.moved(directory)

    async def close(self) -> None:
        """Save what waits, end the writer, free the lock. Raises `NotSavedError` when records are lost."""
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
    """Go on behind what was loaded: the torn tail is kept beside the journal and cut off, repairs become
    records. The lock is held already. `floor` is the newest time in the workspace's other sessions: a clock
    that was set back must not make this session look older than those. Raises `OSError`."""
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
    """Write a journal that tells all of the state; the damaged one is kept in `journal.torn`. The snapshot
    goes after that: its numbers are those of the old journal. A crash between the two is harmless, the
    snapshot then tells the same."""
    _keep_torn(files.read_all(path), loaded.directory, files)
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


def _keep_torn(tail: bytes, directory: str, files: JournalFiles) -> None:
    if tail:
        with files.opened(os.path.join(directory, TORN), os.O_RDWR | os.O_CREAT) as torn:
            files.write_all(torn, tail, os.fstat(torn).st_size)
            files.sync(torn)


def _cut_tail(path: str, loaded: LoadedSession, files: JournalFiles) -> int:
    """Move what is no whole record behind the last good one into `journal.torn`; where to go on."""
    if loaded.torn:
        _keep_torn(files.read_all(path, loaded.end), loaded.directory, files)
    if not loaded.torn and not loaded.unterminated:
        return loaded.end
    with files.opened(path, os.O_RDWR) as descriptor:
        files.truncate(descriptor, loaded.end)
        if loaded.unterminated:
            files.write_all(descriptor, b"\n", loaded.end)
        files.sync(descriptor)
    return loaded.end + int(loaded.unterminated)


def _record_repairs(task: ResumedTask, loaded: LoadedSession, writer: SessionWriter) -> None:
    """Record what resuming changed, so that the journal and the state in memory agree."""
    number = task.record.number
    raw = next(record for record in loaded.state.tasks if record.number == number)
    if task.record.history != raw.history or raw.partial is not None:
        pairs = zip(raw.history, task.record.history, strict=False)
        kept = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        writer.replace_history(number, "repaired on resume", kept, task.record.history[kept:])
    if task.record.task != raw.task:
        writer.record_task(number, task.record.task)


def release_quietly(lock: SessionLock) -> contextlib.ExitStack:
    """A block that frees the lock unless it is left with `pop_all`."""
    stack = contextlib.ExitStack()
    stack.callback(lock.release)
    return stack
