"""A program that takes changes back, or applies them again, through a disk that kills it at the n-th call.
Run by test_undo_faults.

python -m tests.faults.undo_victim FOLDER NUMBER undo|redo
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from buddy.workspace.files.atomic_replace import Disk
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.undo.log import Effect
from buddy.workspace.undo.restore import LINK
from tests.faults.edit_victim import FaultyDisk
from tests.support.undo_logs import undo_log

BEFORE = {"changed.txt": "old\nlines\n", "deleted.txt": "it was here\n", "link": "-> deleted.txt"}
AFTER = {"changed.txt": "new\n", "created.txt": "it came\n", "deeper/created.txt": "it came\n", "link": "a\n"}


def held(folder: Path) -> dict[str, str]:
    """Return the contents of a folder by path."""
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def _effect(folder: Path, name: str) -> Effect:
    before, after = BEFORE.get(name), AFTER.get(name)
    is_link = before is not None and before.startswith("-> ")
    return Effect(
        str(folder / name),
        None if before is None else before.removeprefix("-> ").encode(),
        None if after is None else after.encode(),
        LINK if is_link else 0o644 if before is not None else 0,
        0o644 if after is not None else 0,
    )


def main(folder: Path, number: int, way: str) -> None:
    work = folder / "work"
    (work / "deeper").mkdir(parents=True)
    for name, text in AFTER.items():
        (work / name).write_text(text)
    names = sorted({*BEFORE, *AFTER})
    undo_log(str(folder / "undo")).record(1, "c", "run_shell", [_effect(work, name) for name in names])
    if way == "redo":
        undo_log(str(folder / "undo")).undo(FileLocks())
    faults = FaultyDisk("kill", number)
    disk = Disk(faults.write, faults.sync, faults.rename, faults.exchange)
    log = undo_log(str(folder / "undo"), disk)
    if way == "redo":
        log.redo(FileLocks())
    else:
        log.undo(FileLocks())
    print(f"done: {faults.steps} steps")


if __name__ == "__main__":
    main(Path(os.path.realpath(sys.argv[1])), int(sys.argv[2]), sys.argv[3])
