"""Undo logs for tests: all of one session, so that a second log of the same folder is its next run."""

from __future__ import annotations

from buddy.safety.seal import Seal
from buddy.workspace.files.atomic_replace import DISK, Disk
from buddy.workspace.undo.log import UndoLog

SEAL = Seal(b"the key of the tests")


def undo_log(folder: str, disk: Disk = DISK) -> UndoLog:
    """The log of a session that may work anywhere."""
    return UndoLog(folder, disk, seal=SEAL, trees=("/",))
