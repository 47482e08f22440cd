"""A copy of a session up to some record, as a session of its own that names its parent."""

from __future__ import annotations

import os

from buddy.safety.seal import Seal
from buddy.sessions.files import JournalFiles
from buddy.sessions.identity import Signer
from buddy.sessions.line import LineError, encode, payload, raw_data
from buddy.sessions.load import JOURNAL, LoadedSession
from buddy.sessions.rebuild import records_of
from buddy.sessions.records import GrantChanged, Renamed, SessionHeader
from buddy.sessions.scan import JournalLine, scan


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
    that is foreign or without seals, grants and approvals are left behind. Raises `OSError`."""
    seal = signer.session_seal(header.session_id, header.workspace)
    lines = [encode(1, "session", 0, header.created_at, header, seal)]

    def add(kind: str, task_id: int, at: float, data: object) -> None:
        lines.append(encode(len(lines) + 1, kind, task_id, at, data, seal))

    if source.rebuild:
        trusted = not (source.foreign or source.older)
        for kind, task_id, record in records_of(source.state):
            if isinstance(record, GrantChanged):
                record = signer.sealed(header.session_id, record)
            if kind != "job" and (trusted or kind not in ("grant", "approval")):
                add(kind, task_id, source.last_at, record)
    else:
        data = files.read_all(os.path.join(source.directory, JOURNAL))
        for found in scan(data, seal=source_seal).lines:
            line = found.line
            if header.parent_number and line.number > header.parent_number:
                break
            copied = _copied(found, header, signer, source)
            if copied is not None:
                add(line.kind, line.task_id, line.at, copied)
    if name:
        add("renamed", 0, header.created_at, Renamed(name, source.state.title))
    files.replace(os.path.join(directory, JOURNAL), b"".join(lines))


def _copied(
    found: JournalLine, header: SessionHeader, signer: Signer, source: LoadedSession
) -> object | None:
    """The record as it stands in the copy, None when it stays behind. A seal counts in one session only; a
    job runs for one."""
    line = found.line
    trusted = not (source.foreign or source.older)
    if line.kind in ("session", "job") or (line.kind in ("grant", "approval") and not trusted):
        return None
    if line.kind != "grant":
        return raw_data(line)
    try:
        grant = payload(line, GrantChanged)
    except LineError:
        return None
    if grant.grant is not None and not signer.granted(header.parent, grant):
        return None
    return signer.sealed(header.session_id, grant)
