"""A copy of a session up to some record, as a session of its own that names its parent."""

from __future__ import annotations

import os

from buddy.sessions.files import JournalFiles
from buddy.sessions.identity import Signer
from buddy.sessions.line import LineError, encode, payload, raw_data
from buddy.sessions.load import JOURNAL
from buddy.sessions.records import GrantChanged, SessionHeader
from buddy.sessions.scan import Found, scan


def copy_records(
    source: str, directory: str, header: SessionHeader, *, signer: Signer, trusted: bool, files: JournalFiles
) -> None:
    """Write the journal of `directory`: `header` (which says where the copy ends, 0 for everything), then
    the records of `source`, numbered anew. From a session that is not `trusted`, grants and approvals are
    left behind. Raises `OSError`."""
    lines = [encode(1, "session", 0, header.created_at, header)]
    for found in scan(files.read_all(os.path.join(source, JOURNAL))).lines:
        line = found.line
        if header.parent_number and line.number > header.parent_number:
            break
        data = _copied(found, header, signer=signer, trusted=trusted)
        if data is not None:
            lines.append(encode(len(lines) + 1, line.kind, line.task_id, line.at, data))
    files.replace(os.path.join(directory, JOURNAL), b"".join(lines))


def _copied(found: Found, header: SessionHeader, *, signer: Signer, trusted: bool) -> object | None:
    """What a record becomes in the copy, None when it stays behind. A seal counts in one session only; a job
    runs for one."""
    line = found.line
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
