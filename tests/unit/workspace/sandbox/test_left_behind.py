"""Files that belong to no record of a command are removed; records and what is being written stay."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path

from buddy.workspace.sandbox.left_behind import remove_lost_files

RECORD = "0123456789abcdef-0123456789abcdef"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_marks_without_a_record_and_files_nobody_writes_go(tmp_path: Path) -> None:
    for name in (f"{RECORD}.ended", f".{RECORD}"):
        (tmp_path / name).write_text("x")
    remove_lost_files(str(tmp_path), now=time.time() + 7200)
    assert names(tmp_path) == []


def test_records_their_marks_and_other_files_stay(tmp_path: Path) -> None:
    kept = sorted((RECORD, f"{RECORD}.ended", ".other", "notes.ended", f"{RECORD}x.ended"))
    for name in kept:
        (tmp_path / name).write_text("x")
    (tmp_path / f".{RECORD[:-1]}0").symlink_to("notes.ended")
    remove_lost_files(str(tmp_path), now=time.time() + 7200)
    assert names(tmp_path) == sorted((*kept, f".{RECORD[:-1]}0"))


def test_what_is_new_or_locked_stays(tmp_path: Path) -> None:
    new, locked = tmp_path / f"{RECORD}.ended", tmp_path / f".{RECORD}"
    new.write_text("x")
    locked.write_text("x")
    remove_lost_files(str(tmp_path), now=time.time())
    assert names(tmp_path) == sorted((new.name, locked.name))
    with locked.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_lost_files(str(tmp_path), now=time.time() + 7200)
        assert names(tmp_path) == [locked.name]


def test_a_missing_folder_is_no_error(tmp_path: Path) -> None:
    remove_lost_files(str(tmp_path / "none"), now=time.time())
