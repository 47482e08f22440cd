"""The list of sessions, without loading them: only the first line, the last one, and the lines with names and
titles are read."""

from __future__ import annotations

import contextlib
import os

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.folder import SESSION_ID
from buddy.sessions.identity import Signer
from buddy.sessions.line_codec import LineError, decode, last_line, payload
from buddy.sessions.loading import JOURNAL, load, ownership, read_header
from buddy.sessions.lock import is_locked
from buddy.sessions.records import VERSION, Renamed, SessionHeader

TAIL_BYTES = 65_536
MAX_LISTED_BYTES = 64_000_000
"""The most that a list reads of a journal: a foreign one may be as large as its author liked."""
_NAMING = pattern(rb'\{"crc":"[0-9a-f]{8}","n":\d+,"kind":"(task|renamed)","task":(\d+),[^\n]*')
_ANSWER = b'"role":"assistant"'
"""These bytes occur unescaped only in records of replies."""
_KIND = pattern(rb'\{"crc":"[0-9a-f]{8}","n":\d+,"kind":"(\w+)"')
_SAYS_NOTHING = frozenset({b"session", b"task", b"grant", b"budget", b"focus"})


class SessionSummary(msgspec.Struct, frozen=True):
    """One line of a list. `last_at` is the time of the newest saved record; `foreign`: not made by this
    person on this machine; `newer`: written by a newer buddy; `locked`: in use by another process;
    `headless`: begun without a terminal; `answered`: a model answered at least once."""

    session_id: str
    directory: str
    name: str
    title: str
    tasks: int
    created_at: float
    last_at: float
    size_bytes: int
    foreign: bool
    newer: bool
    locked: bool
    made_in: str = ""
    headless: bool = False
    answered: bool = True

    def matters(self) -> bool:
        """Tell whether a person would look for it: it has a conversation or a name."""
        return bool(self.name) or self.locked or (self.answered and not self.headless)

    def marks(self) -> str:
        """Say in a few words what prevents continuing it."""
        known = {
            "in use": self.locked,
            "made in another folder": bool(self.made_in),
            "not yours": self.foreign and not self.made_in,
            "newer buddy": self.newer,
        }
        return ", ".join(word for word, holds in known.items() if holds)


class Brief(msgspec.Struct, frozen=True):
    """The facts needed to choose a session."""

    session_id: str
    directory: str
    last_at: float
    foreign: bool
    made_in: str = ""
    has_said: bool = False
    """It is known to hold a task, although its journal does not show it."""


def brief(sessions: str, signer: Signer, files: JournalFiles, workspace: str) -> list[Brief]:
    """Return all sessions, the newest first. Folders that are no sessions are left out."""
    found: list[Brief] = []
    for session_id in _ids(sessions):
        directory = os.path.join(sessions, session_id)
        path = os.path.join(directory, JOURNAL)
        with contextlib.suppress(OSError):
            header = read_header(path, files)
            last_at = _last_at(path, files)
            found.append(_brief(session_id, directory, header, last_at, signer, files, workspace))
    return sorted(found, key=lambda session: (session.last_at, session.session_id), reverse=True)


def _brief(
    session_id: str,
    directory: str,
    header: SessionHeader | None,
    last_at: float,
    signer: Signer,
    files: JournalFiles,
    workspace: str,
) -> Brief:
    if header is not None:
        owner = ownership(directory, header, signer, workspace)
        foreign = owner.foreign or header.session_id != session_id
        return Brief(session_id, directory, last_at, foreign, owner.made_in)
    # The first line is lost, or was never written: rare enough to read the whole.
    with files.open_file(os.path.join(directory, JOURNAL), os.O_RDONLY) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > MAX_LISTED_BYTES:
            seal = ownership(directory, None, signer, workspace).seal
            end = files.read_open(descriptor, size - MAX_LISTED_BYTES, size)
            return Brief(session_id, directory, last_at, last_line(end, seal) is None, has_said=True)
    loaded = load(directory, signer, files, workspace=workspace)
    return Brief(session_id, directory, loaded.last_at, loaded.foreign, has_said=bool(loaded.state.tasks))


def _is_own(session_id: str, header: SessionHeader | None, signer: Signer, workspace: str) -> bool:
    if header is None or header.session_id != session_id:
        return False
    return not ownership("", header, signer, workspace).foreign


def newest_at(sessions: str, signer: Signer, files: JournalFiles, workspace: str) -> float:
    """Return the time when the newest of this person's sessions was last saved; 0 when there is none. Every
    start calls this, so only the end of most sessions is read."""
    for last_at, session_id in save_times(sessions, files):
        with contextlib.suppress(OSError):
            header = read_header(os.path.join(sessions, session_id, JOURNAL), files)
            if _is_own(session_id, header, signer, workspace):
                return last_at
    return 0.0


def save_times(sessions: str, files: JournalFiles) -> list[tuple[float, str]]:
    """Return the time of the last save and the id of every session, newest first, including those of other
    people."""
    found: list[tuple[float, str]] = []
    for session_id in _ids(sessions):
        with contextlib.suppress(OSError):
            found.append((_last_at(os.path.join(sessions, session_id, JOURNAL), files), session_id))
    return sorted(found, reverse=True)


def is_blank(session: Brief, files: JournalFiles) -> bool:
    """Tell whether a session is empty: buddy was killed before the first prompt. Raises `OSError`."""
    if session.has_said:
        return False
    with files.open_file(os.path.join(session.directory, JOURNAL), os.O_RDONLY) as descriptor:
        size = os.fstat(descriptor).st_size
        data = files.read_open(descriptor, 0, size) if size <= TAIL_BYTES else b""
    return size <= TAIL_BYTES and _SAYS_NOTHING.issuperset(_KIND().findall(data))


def summary(session: Brief, files: JournalFiles) -> SessionSummary:
    """Return the details of a session. Raises `OSError`."""
    path = os.path.join(session.directory, JOURNAL)
    header = read_header(path, files)
    with files.open_file(path, os.O_RDONLY) as descriptor:
        size = os.fstat(descriptor).st_size
        data = files.read_open(descriptor, 0, min(size, MAX_LISTED_BYTES))
    renamed, tasks = _name_and_task_count(data)
    return SessionSummary(
        session_id=session.session_id,
        directory=session.directory,
        name=renamed.name,
        title=renamed.title,
        tasks=tasks,
        created_at=header.created_at if header is not None else 0.0,
        last_at=session.last_at,
        size_bytes=size,
        foreign=session.foreign,
        newer=header is not None and header.version > VERSION,
        locked=not session.foreign and is_locked(session.directory, files),
        made_in=session.made_in,
        headless=header is not None and header.headless,
        answered=_ANSWER in data,
    )


def _ids(sessions: str) -> list[str]:
    try:
        with os.scandir(sessions) as entries:
            return [
                entry.name
                for entry in entries
                if SESSION_ID().fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _last_at(path: str, files: JournalFiles) -> float:
    """Return the time of the last good record; reads more than the tail only when that lies inside one huge
    record. The time of the file where the record is larger than what is read."""
    with files.open_file(path, os.O_RDONLY) as descriptor:
        state = os.fstat(descriptor)
        size = state.st_size
        for length in (4096, TAIL_BYTES, MAX_LISTED_BYTES):
            line = last_line(files.read_open(descriptor, max(0, size - length), size))
            if line is not None:
                return line.at
        return state.st_mtime if size > MAX_LISTED_BYTES else 0.0


def _name_and_task_count(data: bytes) -> tuple[Renamed, int]:
    """Return the last name, and how many tasks there are."""
    renamed = Renamed("", "")
    tasks: set[bytes] = set()
    for found in _NAMING().finditer(data):
        if found[1] == b"task":
            tasks.add(found[2])
            continue
        try:
            renamed = payload(decode(found[0].rstrip(b"\r")), Renamed)
        except LineError:
            continue
    return renamed, len(tasks)
