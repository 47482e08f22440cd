"""Records of commands that may change a workspace, found by their names only, because every start looks for
them."""

from __future__ import annotations

import hashlib
import os

ENDED = ".ended"
"""Suffix of the file beside a record whose time tells when the last command of a killed buddy ended."""


def record_prefix(root: str) -> str:
    """Return the common beginning of the names of a workspace's records."""
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:16] + "-"


def records_of(folder: str, root: str) -> tuple[str, ...]:
    """Return the records of a workspace, locked or not."""
    try:
        names = os.listdir(folder)
    except OSError:
        return ()
    prefix = record_prefix(root)
    found = (name for name in sorted(names) if name.startswith(prefix) and not name.endswith(ENDED))
    return tuple(os.path.join(folder, name) for name in found)
