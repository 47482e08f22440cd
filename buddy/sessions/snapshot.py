"""`snapshot.json`: the state after some record, so that a resume reads only the lines behind it. A cache:
when it is missing, damaged, of another version or not of this journal, the journal tells everything.

It is one line in the journal's own format: checksum, number of the last record it contains, data, seal.
Sealed, it also proves whose the session is where the journal can't: see `load`.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import msgspec

from buddy.agent.messages import Message
from buddy.safety.seal import Seal
from buddy.sessions.files import JournalFiles
from buddy.sessions.journal import Position
from buddy.sessions.line import LineError, complete, decode, payload
from buddy.sessions.records import SessionHeader
from buddy.sessions.replay import SessionState

NAME = "snapshot.json"
FORMAT = 1


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
        """The state with the messages in their places."""
        tasks = tuple(
            msgspec.structs.replace(task, history=history)
            for task, history in zip(self.state.tasks, self.histories, strict=False)
        )
        return msgspec.structs.replace(self.state, tasks=tasks)


def snapshot_of(
    state: SessionState, *, header: SessionHeader, last_number: int, last_at: float, position: Position
) -> AgentSessionSnapshot:
    """The snapshot of a state that contains every record up to `last_number`."""
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


def encoded(snapshot: AgentSessionSnapshot, seal: Seal | None = None) -> bytes:
    """The file's bytes. Message by message with a pause between: run in a thread, it must not keep the
    interpreter from the event loop for the 100 ms that a large session takes in one piece."""
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
    """Put it in place, whole or not at all; its size. Blocks: run it in a thread. Raises `OSError`."""
    data = encoded(snapshot, seal)
    files.replace(os.path.join(directory, NAME), data)
    return len(data)


def read_snapshot(
    directory: str, session_id: str, files: JournalFiles, seal: Seal | None = None
) -> tuple[AgentSessionSnapshot | None, str]:
    """The snapshot, None when there is none that can be used; and why a file that is there can't. With
    `seal` only a sealed one is used."""
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
