"""The sessions of one workspace: create, find, open, fork, name, delete."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import os
from collections.abc import Sequence

import msgspec

from buddy.agent.messages import Message
from buddy.safety.seal import Seal
from buddy.sessions import lock as locking
from buddy.sessions.errors import (
    FolderError,
    ForeignSessionError,
    NoSuchSessionError,
    ReadOnlySessionError,
    SessionError,
)
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.folder import (
    FOLDER,
    check_real,
    check_session_folder,
    make_exports_folder,
    make_session_folder,
    make_sessions_folder,
    new_session_id,
)
from buddy.sessions.identity import Signer
from buddy.sessions.journal import EMPTY
from buddy.sessions.line_codec import JournalLine, LineError, encode, payload, raw_data, scan
from buddy.sessions.listing import Brief, SessionSummary, brief, is_blank, newest_at, save_times, summary
from buddy.sessions.loading import JOURNAL, LoadedSession, load, ownership, read_header
from buddy.sessions.rebuild import records_of
from buddy.sessions.records import (
    VERSION,
    FocusSet,
    GrantChanged,
    Record,
    Renamed,
    SessionHeader,
    TaskChanged,
    redact_record,
)
from buddy.sessions.replay import SessionState
from buddy.sessions.session import OpenSession, Watch, open_writer, release_quietly


def copy_records(
    source: LoadedSession,
    directory: str,
    header: SessionHeader,
    *,
    signer: Signer,
    source_seal: Seal | None,
    name: str,
    files: JournalFiles,
) -> None:
    """Write the journal of `directory`: `header` (which says where the copy ends, 0 for everything), then
    the records of `source`, numbered and sealed anew, and the copy's own `name` ("" for none). From a session
    that is foreign or without seals, some are left behind. Raises `OSError`."""
    seal = signer.session_seal(header.session_id, header.workspace)
    lines = [encode(1, "session", 0, header.created_at, header, seal)]

    def add(kind: str, task_id: int, at: float, data: object) -> None:
        lines.append(encode(len(lines) + 1, kind, task_id, at, data, seal))

    left_behind = _left_behind(source)
    if source.rebuild:
        for kind, task_id, record in records_of(source.state):
            if isinstance(record, GrantChanged):
                record = signer.seal_grant(header.session_id, record)
            if kind not in left_behind:
                add(kind, task_id, source.last_at, record)
    else:
        data = files.read_all(os.path.join(source.directory, JOURNAL))
        for found in scan(data, seal=source_seal).lines:
            line = found.line
            if header.parent_number and line.number > header.parent_number:
                break
            copied = _copy_record(found, header, signer) if line.kind not in left_behind else None
            if copied is not None:
                add(line.kind, line.task_id, line.at, copied)
    if name:
        add("renamed", 0, header.created_at, Renamed(name, source.state.title))
    files.replace(os.path.join(directory, JOURNAL), b"".join(lines))


def _left_behind(source: LoadedSession) -> frozenset[str]:
    """Return the kinds of records that a copy does not get: seals and jobs belong to one session, answers to
    whom they were asked of; and what a stranger had queued, saved and permitted to spend is not this person's
    wish."""
    kinds = {"session", "job"}
    if source.foreign or source.older:
        kinds |= {"grant", "approval"}
    if source.foreign and not source.made_in:
        kinds |= {"queue", "checkpoint", "budget"}
    return frozenset(kinds)


def _copy_record(found: JournalLine, header: SessionHeader, signer: Signer) -> object | None:
    """Return the record for the copy, None for a grant that was not given in its parent."""
    line = found.line
    if line.kind != "grant":
        return raw_data(line)
    try:
        grant = payload(line, GrantChanged)
    except LineError:
        return None
    if grant.grant is not None and not signer.verify_grant(header.parent, grant):
        return None
    return signer.seal_grant(header.session_id, grant)


TICK_S = 0.001


class SessionStore:
    """`.buddyx/sessions` below `root`, for work in `workspace` (`root` by default). No folder is made before
    the first session."""

    def __init__(
        self,
        root: str,
        signer: Signer,
        *,
        workspace: str = "",
        files: JournalFiles | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.root = root
        self.workspace = os.path.realpath(workspace or root)
        self.folder = os.path.join(root, FOLDER, "sessions")
        self._signer = signer
        self._files = files or JournalFiles()
        self._watch = watch or Watch()

    def make_exports_folder(self) -> str:
        """`.buddyx/exports`, private, ignored by git. Raises `FolderError`."""
        return make_exports_folder(self.root, self._files)

    async def create(
        self, *, name: str = "", title: str = "", headless: bool = False, session_id: str = ""
    ) -> OpenSession:
        """Create a session, its header on the disk, with the given id or a new one. Raises `SessionError`
        where the id is taken, `OSError`, `FolderError`."""
        header, directory = await asyncio.to_thread(self._make, "", 0, session_id)
        header = msgspec.structs.replace(header, headless=headless)
        lock = locking.acquire(directory, self._files)
        with release_quietly(lock) as release:
            empty = _empty_session(directory)
            opened = await self._open_session(empty, header, lock)
            release.pop_all()
        if name or title:
            opened.writer.rename(name=name, title=title)
        await opened.writer.journal.flush()
        return opened

    async def open(self, reference: str, *, take_over: bool = False) -> OpenSession:
        """Open a session to continue it. `reference` is an id, a unique prefix of one, a name, or "last".

        Raises `SessionError` (or one of its kinds), `LockedError` while another process has it (unless
        `take_over`), `FolderError`, `OSError`. What can't be opened can be read or forked.
        """
        directory = await asyncio.to_thread(self.find, reference)
        await asyncio.to_thread(check_session_folder, directory)
        journal = os.path.join(directory, JOURNAL)
        if take_over:
            lock = await asyncio.to_thread(locking.take_over, directory, journal, self._files)
        else:
            lock = await asyncio.to_thread(locking.acquire, directory, self._files)
        with release_quietly(lock) as release:
            loaded = await asyncio.to_thread(self._load, directory)
            opened = await self._open_session(loaded, self._header_to_continue(loaded), lock)
            release.pop_all()
        return opened

    def read(self, reference: str) -> LoadedSession:
        """Read a session without locking or changing it."""
        return self._load(self.find(reference))

    def find(self, reference: str) -> str:
        """Return the folder of a session. "last" and names never mean a foreign one, "last" one in which
        nothing was said only where there is no other. Raises `SessionError`."""
        self._check_folders()
        sessions = brief(self.folder, self._signer, self._files, self.workspace)
        own = [session for session in sessions if not session.foreign]
        if reference == "last":
            if not own:
                raise NoSuchSessionError(f"there is no session to resume in {self.root}")
            return next((one for one in own if not self._is_blank(one)), own[0]).directory
        matching = [session for session in sessions if session.session_id.startswith(reference.lower())]
        if not reference or not matching:
            matching = [session for session in own if self._summary_name(session) == reference]
        if len(matching) == 1:
            return matching[0].directory
        if not matching:
            known = [name for one in own for name in (one.session_id, self._summary_name(one)) if name]
            hint = _nearest(reference, known)
            raise NoSuchSessionError(f"there is no session {reference!r} in {self.root}; {hint}")
        several = ", ".join(session.session_id for session in matching[:5])
        raise SessionError(f"{reference!r} means {len(matching)} sessions ({several}); write more of the id")

    def list(self) -> tuple[SessionSummary, ...]:
        """Return all sessions, the newest first."""
        with contextlib.suppress(FolderError):
            self._check_folders()
            return tuple(self._summaries(brief(self.folder, self._signer, self._files, self.workspace)))
        return ()

    def fork(self, reference: str, *, through: int = 0) -> str:
        """Copy a session up to record `through` (0: all of it); the new id. Works on sessions that are in
        use, foreign or damaged. Raises `SessionError`, `OSError`."""
        directory = self.find(reference)
        loaded = self._load(directory)
        if loaded.read_only:
            raise ReadOnlySessionError(f"{reference} can't be forked: {loaded.read_only}")
        parent = loaded.header.session_id if loaded.header is not None else os.path.basename(directory)
        header, target = self._make(parent, through)
        owner = ownership(directory, loaded.header, self._signer, self.workspace)
        # Without its first line a session seems to have this person's key, which fits no line of a stranger.
        is_strangers = loaded.foreign and not loaded.made_in
        copy_records(
            loaded,
            target,
            header,
            signer=self._signer,
            source_seal=None if is_strangers else owner.seal,
            name=self._free_name(loaded.state.name),
            files=self._files,
        )
        return header.session_id

    def add(self, name: str, title: str, messages: Sequence[Message]) -> str:
        """Write a session that begins with this history, in one idle task; the new id. Raises `SessionError`,
        `OSError`."""
        header, directory = self._make("", 0)
        seal = self._signer.session_seal(header.session_id, header.workspace)
        records: list[tuple[str, int, Record]] = [
            ("session", 0, header),
            ("task", 1, TaskChanged("", "idle")),
            ("focus", 1, FocusSet()),
            ("renamed", 0, Renamed(name, title)),
            *(("message", 1, message) for message in messages),
            ("task", 1, TaskChanged(title, "idle")),
        ]
        lines = (
            encode(number, kind, task_id, header.created_at, redact_record(record), seal)
            for number, (kind, task_id, record) in enumerate(records, 1)
        )
        self._files.replace(os.path.join(directory, JOURNAL), b"".join(lines))
        return header.session_id

    def _free_name(self, name: str) -> str:
        """Return a name for a copy that no session has: resuming by name must mean one of them."""
        if not name:
            return ""
        own = (
            one for one in brief(self.folder, self._signer, self._files, self.workspace) if not one.foreign
        )
        taken = {self._summary_name(one) for one in own}
        copies = (f"{name}-fork{number}" for number in itertools.count(2))
        return next(one for one in itertools.chain((f"{name}-fork",), copies) if one not in taken)

    def delete(self, reference: str) -> None:
        """Remove a session. Raises `LockedError` while a process has it, `SessionError`, `OSError`."""
        self._remove(self.find(reference))

    def forget_old(self, *, max_age_s: float, max_count: int, current: str = "") -> tuple[str, ...]:
        """Remove sessions older than `max_age_s` or beyond the newest `max_count` (0: no such limit); their
        ids. The current session, those in use and foreign ones stay. A tenth more than `max_count` may exist,
        so that not every run has to examine all sessions when it ends. Raises `FolderError`."""
        self._check_folders()
        saved = save_times(self.folder, self._files)
        oldest = min((at for at, _session_id in saved), default=math.inf)
        is_old = max_age_s > 0 and self._watch.clock() - oldest > max_age_s
        if not is_old and not 0 < max_count < len(saved) - max_count // 10:
            return ()
        found = brief(self.folder, self._signer, self._files, self.workspace)
        own = [session for session in found if not session.foreign]
        now = self._watch.clock()
        removed: list[str] = []
        for rank, session in enumerate(own):
            too_old = max_age_s > 0 and now - session.last_at > max_age_s
            too_many = 0 < max_count <= rank
            if session.session_id == current or not (too_old or too_many):
                continue
            with contextlib.suppress(locking.LockedError, OSError):
                self._remove(session.directory)
                removed.append(session.session_id)
        return tuple(removed)

    def in_use_since(self, current: str) -> float:
        """Return the start time of the oldest session that a process has open, the current one included.
        Raises `FolderError`."""
        self._check_folders()
        begun = [self._watch.clock()]
        for session in brief(self.folder, self._signer, self._files, self.workspace):
            mine = session.session_id == current
            if mine or (not session.foreign and locking.is_locked(session.directory, self._files)):
                header = read_header(os.path.join(session.directory, JOURNAL), self._files)
                begun.append(header.created_at if header is not None else 0)
        return min(begun)

    def trash_seal(self, box_id: str, real: str, deleted_at: float) -> str:
        """Return the seal of a deleted file for the trash: proof that this person's buddy deleted it."""
        return self._signer.seal("trash", box_id, real, deleted_at)

    async def _open_session(
        self, loaded: LoadedSession, header: SessionHeader, lock: locking.SessionLock
    ) -> OpenSession:
        newest = await asyncio.to_thread(newest_at, self.folder, self._signer, self._files, self.workspace)
        writer = open_writer(
            loaded, header, signer=self._signer, files=self._files, watch=self._watch, floor=newest + TICK_S
        )
        return OpenSession(loaded, writer, lock, self._files)

    def _load(self, directory: str) -> LoadedSession:
        return load(directory, self._signer, self._files, workspace=self.workspace)

    def _header_to_continue(self, loaded: LoadedSession) -> SessionHeader:
        if loaded.read_only:
            raise ReadOnlySessionError(f"{loaded.directory} is read-only: {loaded.read_only}")
        if loaded.header is None and not loaded.foreign:
            return self._header(os.path.basename(loaded.directory), "", 0)
        if loaded.made_in:
            raise ForeignSessionError(
                f"{loaded.directory} was made in {loaded.made_in}, not here: its undo log, checkpoints and "
                "grants belong there"
            )
        if loaded.header is None or loaded.foreign:
            raise ForeignSessionError(
                f"{loaded.directory} was not made by you on this machine, or its first line is damaged"
            )
        return loaded.header

    def _header(self, session_id: str, parent: str, through: int) -> SessionHeader:
        now = self._watch.clock()
        return self._signer.sign_header(
            SessionHeader(VERSION, session_id, now, self.workspace, "", parent, through)
        )

    def _make(self, parent: str, through: int, chosen: str = "") -> tuple[SessionHeader, str]:
        sessions = make_sessions_folder(self.root, self._files)
        if chosen and os.path.lexists(os.path.join(sessions, chosen)):
            raise SessionError(f"there is a session {chosen} already; --resume continues it")
        while True:
            session_id = chosen or new_session_id()
            with contextlib.suppress(FileExistsError):
                directory = make_session_folder(sessions, session_id)
                self._files.sync_directory(sessions)
                return self._header(session_id, parent, through), directory

    def _check_folders(self) -> None:
        above = os.path.dirname(self.folder)
        if os.path.lexists(above):
            check_real(above)
        if os.path.lexists(self.folder):
            check_real(self.folder)

    def _summaries(self, sessions: list[Brief]) -> list[SessionSummary]:
        found: list[SessionSummary] = []
        for session in sessions:
            with contextlib.suppress(OSError):
                found.append(summary(session, self._files))
        return found

    def _summary_name(self, session: Brief) -> str | None:
        with contextlib.suppress(OSError):
            return summary(session, self._files).name
        return None

    def _is_blank(self, session: Brief) -> bool:
        with contextlib.suppress(OSError):
            return is_blank(session, self._files)
        return False

    def _remove(self, directory: str) -> None:
        lock = locking.acquire(directory, self._files)
        try:
            doomed = os.path.join(self.folder, f".deleted-{os.urandom(6).hex()}")
            self._files.rename(directory, doomed)
        finally:
            lock.release()
        _remove_tree(doomed)


def _nearest(reference: str, known: list[str]) -> str:
    import difflib  # here: 1 ms that a start need not pay

    near = difflib.get_close_matches(reference, known, n=1)
    return f"did you mean {near[0]}?" if near else "see `buddy sessions`"


def _empty_session(directory: str) -> LoadedSession:
    return LoadedSession(
        directory=directory,
        header=None,
        foreign=False,
        read_only="",
        state=SessionState(),
        tasks=(),
        problems=(),
        position=EMPTY,
        last_number=0,
        last_at=0.0,
        end=0,
        unterminated=False,
        torn=0,
        snapshot_number=0,
    )


def _remove_tree(path: str) -> None:
    for folder, directories, names in os.walk(path, topdown=False):
        for name in names:
            os.unlink(os.path.join(folder, name))
        for name in directories:
            inner = os.path.join(folder, name)
            if os.path.islink(inner):
                os.unlink(inner)
            else:
                os.rmdir(inner)
    os.rmdir(path)
