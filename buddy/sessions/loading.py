"""Loading of a session from its snapshot and later journal lines, or from the journal alone, and its
repair."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import msgspec

from buddy.agent.history import repair_history
from buddy.agent.messages import Call, Message
from buddy.safety.seal import Seal
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.identity import Signer
from buddy.sessions.journal import EMPTY, Position
from buddy.sessions.line_codec import (
    JournalLine,
    LineError,
    Scan,
    checksum,
    complete,
    decode,
    first_line,
    payload,
    scan,
)
from buddy.sessions.records import KINDS, SEALED_VERSION, VERSION, SessionHeader, upgrade_record
from buddy.sessions.replay import Replay, SessionState, TaskRecord

NAME = "snapshot.json"
FORMAT = 2
"""A snapshot of another format is not used but written anew from the journal."""


class AgentSessionSnapshot(msgspec.Struct, frozen=True):
    """A session after record `last_number`. The tasks in `state` are without their messages; those stand in
    `histories`, in the same order. `position` is a journal line at or before that record: reading goes on
    there, and the line proves that the snapshot belongs to the journal. `header` is the journal's first line
    (None in snapshots of older versions)."""

    format: int
    session_id: str
    last_number: int
    last_at: float
    position: Position
    state: SessionState
    histories: tuple[tuple[Message, ...], ...]
    header: SessionHeader | None = None

    def whole_state(self) -> SessionState:
        """Return the state with the messages in their places."""
        tasks = tuple(
            msgspec.structs.replace(task, history=history)
            for task, history in zip(self.state.tasks, self.histories, strict=False)
        )
        return msgspec.structs.replace(self.state, tasks=tasks)


def snapshot_of(
    state: SessionState, *, header: SessionHeader, last_number: int, last_at: float, position: Position
) -> AgentSessionSnapshot:
    """Return the snapshot of a state that contains every record up to `last_number`."""
    bare = tuple(msgspec.structs.replace(task, history=()) for task in state.tasks)
    return AgentSessionSnapshot(
        FORMAT,
        header.session_id,
        last_number,
        last_at,
        position,
        msgspec.structs.replace(state, tasks=bare),
        tuple(task.history for task in state.tasks),
        header,
    )


def encode_snapshot(snapshot: AgentSessionSnapshot, seal: Seal | None = None) -> bytes:
    """Encode a snapshot, message by message with pauses: in one piece a large session would keep the
    interpreter from the event loop for 100 ms, even from a thread."""
    bare = msgspec.structs.replace(snapshot, histories=())
    front = _json(
        {"n": snapshot.last_number, "kind": "snapshot", "task": 0, "at": snapshot.last_at, "data": bare}
    )
    bare_histories = '"histories":[]'
    at_histories = front.rindex(bare_histories) + len(bare_histories) - 1
    pieces = [front[1:at_histories]]
    for number, history in enumerate(snapshot.histories):
        pieces.append(",[" if number else "[")
        for at, message in enumerate(history):
            pieces.append(("," if at else "") + _json(message))
            time.sleep(0)
        pieces.append("]")
    pieces.append(front[at_histories:].removesuffix("}"))
    return complete("".join(pieces).encode("ascii"), seal)


def _json(value: Any) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=True, separators=(",", ":"))


def write_snapshot(
    directory: str, snapshot: AgentSessionSnapshot, files: JournalFiles, seal: Seal | None = None
) -> int:
    """Write a snapshot atomically; return its size. Blocks: run it in a thread. Raises `OSError`."""
    data = encode_snapshot(snapshot, seal)
    files.replace(os.path.join(directory, NAME), data)
    return len(data)


def read_snapshot(
    directory: str, session_id: str, files: JournalFiles, seal: Seal | None = None
) -> tuple[AgentSessionSnapshot | None, str]:
    """Return the snapshot, or None and the reason why an existing file can't be used. With `seal` only a
    sealed snapshot is used."""
    try:
        data = files.read_all(os.path.join(directory, NAME))
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"it can't be read: {error.strerror or error}"
    try:
        snapshot = payload(decode(data.rstrip(b"\r\n"), seal), AgentSessionSnapshot)
    except LineError as error:
        return None, f"it is damaged: {error}"
    if snapshot.format != FORMAT:
        return None, ""  # of another version: written anew
    whole = len(snapshot.histories) == len(snapshot.state.tasks)
    if snapshot.session_id != session_id or not whole:
        return None, "it is of another session" if whole else "it is not whole"
    return snapshot, ""


JOURNAL = "journal.jsonl"
HEAD_BYTES = 65_536
UNFINISHED_REASON = "buddy ended while this task was running"
OLDER = (
    "this session was written by an older buddy, without seals: its messages are used; its grants, open "
    "requests, undo log and checkpoints are not"
)
ASKED_AGAIN = frozenset({"ask_user"})
"""Tools that only ask the person: an unanswered call is offered again after a restart."""


class ResumedTask(msgspec.Struct, frozen=True):
    """A task ready to continue: its history is legal and includes the partial reply, and a running task is
    paused. `repairs` are sentences about the changes; `not_run_calls` may be offered again."""

    record: TaskRecord
    repairs: tuple[str, ...]
    not_run_calls: tuple[Call, ...]
    was_running: bool


class LoadedSession(msgspec.Struct, frozen=True):
    """The content of a session's folder.

    `state` is the result of the records, `tasks` are its tasks ready to continue. `header` is None when the
    first line is lost. `foreign`: not made by this person on this machine for this workspace; its grants and
    approvals are left out. `made_in`: the other workspace a session of this person was made in, "" for this
    one. `older`: written before records were sealed; only its messages are used. `read_only`: why nothing may
    be added, "" when it may. `problems`: what was damaged or unknown. `rebuild`: the journal no longer holds
    this state and has to be rewritten before anything is appended. The other fields tell a writer where to
    continue.
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
    made_in: str = ""
    older: bool = False
    rebuild: bool = False

    @property
    def from_snapshot(self) -> bool:
        """Tell whether the state comes from a snapshot, without reading the whole journal."""
        return self.snapshot_number > 0


class Ownership(msgspec.Struct, frozen=True):
    """The owner of a session: this person or somebody else (`foreign`). `seal` is the session's key, None
    where it has none (older sessions, and those of others)."""

    header: SessionHeader | None
    seal: Seal | None
    foreign: bool = False
    made_in: str = ""

    @property
    def older(self) -> bool:
        """Tell whether the session was written before records were sealed."""
        return self.header is not None and self.header.version < SEALED_VERSION


def ownership(directory: str, header: SessionHeader | None, signer: Signer, workspace: str = "") -> Ownership:
    """Find the owner of a session by its header. `workspace` is the folder that is worked in, "" where a
    session is only looked at, wherever it was made. Without a header the seals of the other lines tell."""
    here = os.path.realpath(workspace) if workspace else ""
    if header is None:
        return Ownership(None, signer.session_seal(os.path.basename(directory), here))
    if not signer.verify_header(header):
        return Ownership(header, None, foreign=True)
    seal = None
    if header.version >= SEALED_VERSION:
        seal = signer.session_seal(header.session_id, header.workspace)
    if here and os.path.realpath(header.workspace) != here:
        return Ownership(header, seal, foreign=True, made_in=header.workspace)
    return Ownership(header, seal)


def load(
    directory: str, signer: Signer, files: JournalFiles | None = None, *, workspace: str = ""
) -> LoadedSession:
    """Read a session, for use in `workspace` ("": only to look at it). Raises `OSError` where the journal
    can't be read at all."""
    files = files or JournalFiles()
    path = os.path.join(directory, JOURNAL)
    owner = ownership(directory, read_header(path, files), signer, workspace)
    header, foreign = owner.header, owner.foreign
    snapshot, damage = None, ""
    name = header.session_id if header is not None else os.path.basename(directory)
    if not foreign or owner.made_in:
        snapshot, damage = read_snapshot(directory, name, files, owner.seal)
    problems = [f"the snapshot was not used: {damage}; the journal was read instead"] if damage else []
    reading = _read(path, owner, snapshot, files, is_damaged=bool(damage))
    found, start, rebuild = reading.found, reading.start, reading.rebuild
    foreign = foreign or reading.foreign
    last = found.lines[-1] if found.lines else None
    problems += [*reading.problems, *found.problems]
    if rebuild and header is None:
        problems.append("the first line of the journal is damaged; it is written anew")
        header = snapshot.header if snapshot is not None else None
    state = _replay(found, start, unsealed=foreign or owner.older, problems=problems)
    state = _without_foreign_grants(state, owner, header.session_id if header is not None else name, signer)
    if found.torn:
        problems.append(f"the last {found.torn} bytes are half a record and were left out")
    if owner.older:
        problems.append(OLDER)
    return LoadedSession(
        directory=directory,
        header=header,
        foreign=foreign,
        read_only=_read_only(header),
        state=state,
        tasks=tuple(_resume_task(task) for task in state.tasks),
        problems=tuple(problems),
        position=_position(last) if last is not None else EMPTY,
        last_number=max(last.line.number if last else 0, start.last_number if start else 0),
        last_at=max(last.line.at if last else 0, start.last_at if start else 0),
        end=found.end,
        unterminated=found.unterminated,
        torn=found.torn,
        snapshot_number=start.last_number if start is not None else 0,
        made_in=owner.made_in,
        older=owner.older,
        rebuild=rebuild,
    )


class _Reading(msgspec.Struct, frozen=True):
    """The lines to replay, after the snapshot `start` where there is one."""

    found: Scan
    start: AgentSessionSnapshot | None = None
    foreign: bool = False
    rebuild: bool = False
    problems: tuple[str, ...] = ()


def _read(
    path: str,
    owner: Ownership,
    snapshot: AgentSessionSnapshot | None,
    files: JournalFiles,
    *,
    is_damaged: bool,
) -> _Reading:
    """Choose between journal and snapshot. `is_damaged`: a snapshot exists and can't be used."""
    found = _from_snapshot(path, snapshot, files, owner.seal) if snapshot is not None else None
    if found is not None:
        return _Reading(found, snapshot, rebuild=owner.header is None)
    data = files.read_all(path)
    found = scan(data, seal=owner.seal)
    if snapshot is None:
        if found.lines or owner.header is not None:
            return _Reading(found, rebuild=owner.header is None and not owner.foreign)
        unproven = scan(data)
        return _Reading(unproven, foreign=is_damaged or bool(unproven.lines))
    last = found.lines[-1].line.number if found.lines else 0
    if last >= snapshot.last_number:
        told = "the snapshot does not belong to this journal; the whole journal was read"
        return _Reading(found, rebuild=owner.header is None, problems=(told,))
    # The journal ends before the snapshot, or is gone.
    told = (
        f"the journal ends at record {last}, the snapshot holds {snapshot.last_number}: the session goes on "
        "from the snapshot"
    )
    return _Reading(found, snapshot, rebuild=True, problems=(told,))


def read_header(path: str, files: JournalFiles) -> SessionHeader | None:
    """Return the first line, without reading the rest."""
    line = first_line(files.read_all(path, 0, HEAD_BYTES))
    if line is None or line.kind != "session":
        return None
    try:
        return payload(line, SessionHeader)
    except LineError:
        return None


def _from_snapshot(
    path: str, snapshot: AgentSessionSnapshot, files: JournalFiles, seal: Seal | None
) -> Scan | None:
    """Return the lines from the snapshot's position on; None when the line there is another one."""
    position = snapshot.position
    if position.start < 0:
        return None
    found = scan(files.read_all(path, position.start), position.start, position.number - 1, seal)
    if not found.lines or _position(found.lines[0]) != position:
        return None
    return found


def _position(found: JournalLine) -> Position:
    return Position(found.line.number, found.start, checksum(found.raw))


def _replay(
    found: Scan, snapshot: AgentSessionSnapshot | None, *, unsealed: bool, problems: list[str]
) -> SessionState:
    replay = Replay(snapshot.whole_state() if snapshot is not None else None)
    known = snapshot.last_number if snapshot is not None else 0
    unknown: dict[str, int] = {}
    for each in found.lines:
        line = each.line
        if line.number <= known or (unsealed and line.kind in ("grant", "approval")):
            continue
        record = KINDS.get(line.kind)
        if record is None:
            unknown[line.kind] = unknown.get(line.kind, 0) + 1
            continue
        try:
            replay.apply(upgrade_record(payload(line, record)), line.task_id)
        except LineError as error:
            problems.append(str(error))
    problems += [f"{count} records of unknown kind {kind[:40]!r} are kept" for kind, count in unknown.items()]
    return replay.state()


def _read_only(header: SessionHeader | None) -> str:
    if header is not None and header.version > VERSION:
        return f"it was written by a newer buddy (format {header.version}, this one knows {VERSION})"
    return ""


def _without_foreign_grants(
    state: SessionState, owner: Ownership, session_id: str, signer: Signer
) -> SessionState:
    """Keep only the grants this person gave in this session; drop all, and the open requests, where nothing
    proves that."""
    if owner.foreign or owner.older:
        tasks = tuple(msgspec.structs.replace(task, approvals=()) for task in state.tasks)
        return msgspec.structs.replace(state, grants=(), tasks=tasks)
    grants = tuple(grant for grant in state.grants if signer.verify_grant(session_id, grant))
    return state if grants == state.grants else msgspec.structs.replace(state, grants=grants)


def _resume_task(record: TaskRecord) -> ResumedTask:
    history = record.history if record.partial is None else (*record.history, record.partial)
    repair = repair_history(
        history, {begun.call_id for begun in record.begun if begun.name not in ASKED_AGAIN}
    )
    was_running = record.task.state in ("running", "waiting")
    task = record.task
    if was_running:
        task = msgspec.structs.replace(task, state="paused", reason=UNFINISHED_REASON)
    whole = msgspec.structs.replace(record, history=repair.history, partial=None, task=task)
    return ResumedTask(whole, repair.notes, repair.not_run_calls, was_running)
