"""Records of commands that may change a workspace, found by their names only, because every start looks for
them."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os

from buddy.agent.lazy_regex import pattern

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


_UNFINISHED = pattern(r"\.[0-9a-f]{16}-[0-9a-f]{16}")
_MARK = pattern(r"[0-9a-f]{16}-[0-9a-f]{16}\.ended")
_LOST_AFTER_S = 3600
_MAX_NAMES = 5_000


def remove_lost_files(folder: str, now: float) -> None:
    """Remove files that belong to no record: unfinished ones that nobody writes, and marks whose record was
    deleted. Blocks; never raises `OSError`."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in itertools.islice(entries, _MAX_NAMES):
            with contextlib.suppress(OSError):
                if _is_lost(entry, now):
                    os.unlink(entry.path)


def _is_lost(entry: os.DirEntry[str], now: float) -> bool:
    if now - entry.stat(follow_symlinks=False).st_ctime < _LOST_AFTER_S:
        return False  # just created: its writer has not locked it, or its record is being judged
    if _MARK().fullmatch(entry.name):
        return not os.path.lexists(entry.path.removesuffix(ENDED))
    return bool(_UNFINISHED().fullmatch(entry.name)) and not _is_locked(entry.path)


def _is_locked(path: str) -> bool:
    import fcntl  # only here: every start imports this module

    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
