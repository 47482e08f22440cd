"""Records of commands that may change a workspace, found by their names alone: every start looks for them."""

from __future__ import annotations

import hashlib
import os

ENDED = ".ended"
"""After a record's name: the file whose time says when the last command of a killed buddy was gone."""


def record_prefix(root: str) -> str:
    """Return how the names of a workspace's records begin."""
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:16] + "-"


def records_of(folder: str, root: str) -> tuple[str, ...]:
    """Return the records of a workspace, held or not."""
    try:
        names = os.listdir(folder)
    except OSError:
        return ()
    prefix = record_prefix(root)
    found = (name for name in sorted(names) if name.startswith(prefix) and not name.endswith(ENDED))
    return tuple(os.path.join(folder, name) for name in found)
