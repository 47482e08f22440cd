"""Deleted from another disk than the one of the trash: copied first; no step that fails loses anything."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.workspace.undo.trash import Trash, fill_box, leave_box
from tests.capabilities import requires

pytestmark = requires("two disks")


@pytest.fixture
def elsewhere() -> Generator[Path]:
    """A folder with two files, on another disk than `tmp_path`."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        made = Path(folder).resolve() / "made"
        made.mkdir()
        (made / "a").write_text("one")
        (made / "b").write_text("two")
        yield made


def content(folder: Path) -> dict[str, str]:
    return {one.name: one.read_text() for one in sorted(folder.iterdir())}


def test_it_goes_into_the_trash_and_comes_back(tmp_path: Path, elsewhere: Path) -> None:
    trash = Trash(str(tmp_path / "trash"))
    trash.take(str(elsewhere), 1)
    assert not elsewhere.exists()
    trash.restore()
    assert content(elsewhere) == {"a": "one", "b": "two"}
    assert trash.list() == ()


def test_what_could_be_removed_only_in_part_stays_in_the_trash_whole(tmp_path: Path, elsewhere: Path) -> None:
    def remove(path: str) -> None:
        Path(path, "a").unlink()
        raise PermissionError(errno.EACCES, "Permission denied", path)

    trash = Trash(str(tmp_path / "trash"))
    with pytest.raises(ToolError, match="made could not be removed whole: Permission denied"):
        fill_box(str(tmp_path / "trash" / "1-x"), str(elsewhere), 1, remove=remove)
    assert content(elsewhere) == {"b": "two"}
    assert [(one.id, one.real) for one in trash.list()] == [("1-x", str(elsewhere))]
    elsewhere.rename(elsewhere.with_name("rest"))
    trash.restore()
    assert content(elsewhere) == {"a": "one", "b": "two"}


def test_what_comes_back_only_in_part_is_taken_away_again(tmp_path: Path, elsewhere: Path) -> None:
    trash = Trash(str(tmp_path / "trash"))
    pipe = tmp_path / "trash" / trash.take(str(elsewhere), 1).id / "it" / "pipe"
    os.mkfifo(pipe)  # can't be copied
    with pytest.raises(shutil.Error, match="named pipe"):
        trash.restore()
    assert not elsewhere.exists()
    pipe.unlink()
    trash.restore()
    assert content(elsewhere) == {"a": "one", "b": "two"}


def test_what_somebody_put_there_meanwhile_stays(tmp_path: Path, elsewhere: Path) -> None:
    box = tmp_path / "trash" / Trash(str(tmp_path / "trash")).take(str(elsewhere), 1).id
    elsewhere.write_text("somebody's")
    with pytest.raises(FileExistsError):
        leave_box(str(box), str(elsewhere))
    assert [(one.name, one.read_text()) for one in elsewhere.parent.iterdir()] == [("made", "somebody's")]
    assert content(box / "it") == {"a": "one", "b": "two"}
