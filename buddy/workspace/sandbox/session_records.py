"""buddy's records of sessions as places of a sandbox profile: hidden from commands that only read, except for
the long outputs, whose paths the model is told."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

FOLDER = ".buddyx"
_KINDS = ("sessions", "trash", "exports")
MAX_OUTPUTS = 20
"""The newest sessions whose outputs stay readable: each costs a command about a tenth of a millisecond."""


def record_folders(roots: Iterable[str]) -> Iterator[str]:
    """Yield the existing folders with records of these workspaces."""
    for root in dict.fromkeys(roots):
        for kind in _KINDS:
            path = os.path.join(root, FOLDER, kind)
            if os.path.isdir(path) and not os.path.islink(path):
                yield path


def is_records(path: str) -> bool:
    """Tell whether a path is a folder of records by its name."""
    folder, kind = os.path.split(path)
    return kind in _KINDS and os.path.basename(folder) == FOLDER


def output_folders(records: Iterable[str]) -> tuple[str, ...]:
    """Return the folders with long outputs in some folders of records, the newest first."""
    found: list[tuple[int, str]] = []
    for sessions in records:
        if os.path.basename(sessions) != "sessions" or os.path.realpath(sessions) != sessions:
            continue
        try:
            names = os.listdir(sessions)
        except OSError:
            continue
        for name in names:
            folder = os.path.join(sessions, name)
            path = os.path.join(folder, "output")
            try:
                # Without links: one in a session's folder would open what is hidden elsewhere. `realpath` for
                # each session costs a command 20 microseconds of CPU more.
                state = os.stat(path, follow_symlinks=False)
                if stat.S_ISDIR(state.st_mode) and not os.path.islink(folder):
                    found.append((state.st_mtime_ns, path))
            except OSError:
                continue
    return tuple(path for _, path in sorted(found, reverse=True)[:MAX_OUTPUTS])
