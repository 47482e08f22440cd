"""A session read back: snapshot and the journal lines behind it, or the journal alone, put right so that it
can go on. Nothing is written here, whatever is found; nothing found makes it fail but a disk that can't be
read."""

from __future__ import annotations

import os

import msgspec

from buddy.agent.history import repaired
from buddy.agent.messages import Call
from buddy.sessions.files import JournalFiles
from buddy.sessions.identity import Signer
from buddy.sessions.journal import EMPTY, Position
from buddy.sessions.line import LineError, checksum, payload
from buddy.sessions.records import KINDS, VERSION, SessionHeader
from buddy.sessions.replay import Replay, SessionState, TaskRecord
from buddy.sessions.scan import Found, Scan, first_line, scan
from buddy.sessions.snapshot import AgentSessionSnapshot, read_snapshot

JOURNAL = "journal.jsonl"
HEAD_BYTES = 65_536
UNFINISHED_REASON = "buddy ended while this task was running"
ASKED_AGAIN = frozenset({"ask_user"})
"""Calls that do nothing but ask the person: one that began and was not answered is offered again."""


class ResumedTask(msgspec.Struct, frozen=True):
    """A task ready to go on: its history is legal, its partial reply part of it, and what was running is
    paused. `repairs` says what had to be done, a sentence each; `not_run_calls` may be offered again."""

    record: TaskRecord
    repairs: tuple[str, ...]
    not_run_calls: tuple[Call, ...]
    was_running: bool


class LoadedSession(msgspec.Struct, frozen=True):
    """What a session's folder holds.

    `state` is what the records add up to, `tasks` the same tasks ready to go on. `header` is None when the
    first line is lost. `foreign`: not made by this person on this machine; its grants and approvals are left
    out. `read_only`: why nothing may be added, "" when it may. `problems`: what was damaged or unknown.
    The rest tells a writer where to go on.
    """

    directory: str
    header: SessionHeader | None
    foreign: bool
    read_only: str
    state: SessionState
    tasks: tuple[ResumedTask, ...]
    problems: tuple[str, ...]
    position: Position
    last_number: int
    last_at: float
    end: int
    unterminated: bool
    torn: int
    snapshot_number: int

    @property
    def from_snapshot(self) -> bool:
        """Whether a snapshot saved reading the whole journal."""
        return self.snapshot_number > 0


def load(directory: str, signer: Signer, files: JournalFiles | None = None) -> LoadedSession:
    """Read a session. Raises `OSError` where the journal can't be read at all."""
    files = files or JournalFiles()
    path = os.path.join(directory, JOURNAL)
    header = read_header(path, files)
    foreign = header is not None and not signer.made(header)
    snapshot = None
    if header is not None and not foreign:
        snapshot = read_snapshot(directory, header.session_id, files)
    found = _from_snapshot(path, snapshot, files) if snapshot is not None else None
    start = snapshot if found is not None else None
    if found is None:
        found = scan(files.read_all(path))
    problems = [*found.problems]
    if snapshot is not None and start is None:
        problems.append("the snapshot does not belong to this journal; the whole journal was read")
    if header is None and found.lines:
        foreign = True
    state = _replayed(found, start, foreign=foreign, problems=problems)
    if found.torn:
        problems.append(f"the last {found.torn} bytes are no whole record")
    last = found.lines[-1] if found.lines else None
    return LoadedSession(
        directory=directory,
        header=header,
        foreign=foreign,
        read_only=_read_only(header),
        state=_trusted(state, header, signer),
        tasks=tuple(_resumed(task) for task in state.tasks),
        problems=tuple(problems),
        position=_position(last) if last is not None else EMPTY,
        last_number=max(last.line.number if last else 0, start.last_number if start else 0),
        last_at=max(last.line.at if last else 0, start.last_at if start else 0),
        end=found.end,
        unterminated=found.unterminated,
        torn=found.torn,
        snapshot_number=start.last_number if start is not None else 0,
    )


def read_header(path: str, files: JournalFiles) -> SessionHeader | None:
    """The first line, without reading the rest."""
    line = first_line(files.read_all(path, 0, HEAD_BYTES))
    if line is None or line.kind != "session":
        return None
    try:
        return payload(line, SessionHeader)
    except LineError:
        return None


def _from_snapshot(path: str, snapshot: AgentSessionSnapshot, files: JournalFiles) -> Scan | None:
    """The lines from the snapshot's position on; None when the line there is another one."""
    position = snapshot.position
    if position.start < 0:
        return None
    found = scan(files.read_all(path, position.start), position.start, position.number - 1)
    if not found.lines or _position(found.lines[0]) != position:
        return None
    return found


def _position(found: Found) -> Position:
    return Position(found.line.number, found.start, checksum(found.raw))


def _replayed(
    found: Scan, snapshot: AgentSessionSnapshot | None, *, foreign: bool, problems: list[str]
) -> SessionState:
    replay = Replay(snapshot.whole_state() if snapshot is not None else None)
    known = snapshot.last_number if snapshot is not None else 0
    unknown: dict[str, int] = {}
    for each in found.lines:
        line = each.line
        if line.number <= known or (foreign and line.kind in ("grant", "approval")):
            continue
        record = KINDS.get(line.kind)
        if record is None:
            unknown[line.kind] = unknown.get(line.kind, 0) + 1
            continue
        try:
            replay.apply(payload(line, record), line.task_id)
        except LineError as error:
            problems.append(str(error))
    problems += [f"{count} records of unknown kind {kind[:40]!r} are kept" for kind, count in unknown.items()]
    return replay.state()


def _read_only(header: SessionHeader | None) -> str:
    if header is not None and header.version > VERSION:
        return f"it was written by a newer buddy (format {header.version}, this one knows {VERSION})"
    return ""


def _trusted(state: SessionState, header: SessionHeader | None, signer: Signer) -> SessionState:
    """Only grants this person gave in this session."""
    session_id = header.session_id if header is not None else ""
    grants = tuple(grant for grant in state.grants if signer.granted(session_id, grant))
    return state if grants == state.grants else msgspec.structs.replace(state, grants=grants)


def _resumed(record: TaskRecord) -> ResumedTask:
    history = record.history if record.partial is None else (*record.history, record.partial)
    repair = repaired(history, {begun.call_id for begun in record.begun if begun.name not in ASKED_AGAIN})
    was_running = record.task.state in ("running", "waiting")
    task = record.task
    if was_running:
        task = msgspec.structs.replace(task, state="paused", reason=UNFINISHED_REASON)
    whole = msgspec.structs.replace(record, history=repair.history, partial=None, task=task)
    return ResumedTask(whole, repair.notes, repair.not_run_calls, was_running)
