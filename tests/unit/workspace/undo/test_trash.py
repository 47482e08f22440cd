"""The trash is emptied by age and by size, and only of what this person's buddy put there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.workspace.undo.trash import Trash, Trashed, fill_box
from tests.support.tool_project import ToolProject

DAY_S = 86_400.0
NOW = 1_000 * DAY_S


def seal(box_id: str, real: str, deleted_at: float) -> str:
    return f"by me: {box_id} {os.path.basename(real)} {deleted_at}"


def box(folder: Path, name: str, *, days: float, size: int = 10, kept: Callable[..., str] = seal) -> Path:
    """Something that was deleted days ago."""
    at = NOW - days * DAY_S
    made = Trashed(
        f"box-{name}", f"/project/{name}", name, 1, at, size, kept(f"box-{name}", f"/project/{name}", at)
    )
    path = folder / f"box-{name}"
    path.mkdir(parents=True)
    (path / "where.json").write_text(
        json.dumps({field: getattr(made, field) for field in made.__struct_fields__})
    )
    (path / "it").mkdir()
    (path / "it" / "file").write_text(name)
    return path


def emptied(trash: Trash, *, days: float = 30, size: int = 0, before: float = NOW) -> list[str]:
    gone = trash.empty(max_age_s=days * DAY_S, max_bytes=size, before=lambda: before, now=NOW)
    return [one.name for one in gone]


def names(trash: Trash) -> list[str]:
    return [one.name for one in trash.list()]


def test_what_is_old_goes_for_good_and_what_is_young_stays(tmp_path: Path) -> None:
    trash = Trash(str(tmp_path), seal)
    for name, days in (("old", 31.0), ("older", 400.0), ("young", 29.0)):
        box(tmp_path, name, days=days)
    assert (emptied(trash), names(trash)) == (["older", "old"], ["young"])
    assert os.listdir(tmp_path) == ["box-young"]
    assert emptied(trash, days=0) == []


@pytest.mark.parametrize("text", ["[" * 100_000, '{"id": ' + "[" * 100_000, "", "{", '"\udcff"', "\udcff"])
def test_a_box_that_says_nonsense_is_none_of_ours(tmp_path: Path, text: str) -> None:
    trash = Trash(str(tmp_path), seal)
    box(tmp_path, "old", days=31)
    odd = box(tmp_path, "odd", days=31)
    (odd / "where.json").write_text(text, errors="surrogateescape")
    assert (names(trash), emptied(trash)) == (["old"], ["old"])
    assert os.listdir(tmp_path) == ["box-odd"]


def test_of_too_much_the_oldest_go_first_and_no_more_than_must(tmp_path: Path) -> None:
    trash = Trash(str(tmp_path), seal)
    for days, name in enumerate("dcba"):
        box(tmp_path, name, days=days, size=100)
    assert (emptied(trash, size=250), names(trash)) == (["a", "b"], ["d", "c"])
    assert emptied(trash, size=200) == []


def test_nothing_goes_that_was_deleted_since_the_sessions_in_use_began(tmp_path: Path) -> None:
    trash = Trash(str(tmp_path), seal)
    for name, days in (("a", 90.0), ("b", 60.0), ("c", 40.0)):
        box(tmp_path, name, days=days)
    assert (emptied(trash, size=1, before=NOW - 61 * DAY_S), names(trash)) == (["a"], ["c", "b"])


def test_nobody_is_asked_what_is_in_use_where_nothing_is_due(tmp_path: Path) -> None:
    box(tmp_path, "young", days=1)

    def asked() -> float:
        raise AssertionError

    trash = Trash(str(tmp_path), seal)
    assert trash.empty(max_age_s=30 * DAY_S, max_bytes=1_000, before=asked, now=NOW) == ()
    missing = Trash(str(tmp_path / "missing"), seal)
    assert missing.empty(max_age_s=1, max_bytes=1, before=asked, now=NOW) == ()


def test_what_a_repository_brought_is_neither_shown_nor_restored_nor_removed(tmp_path: Path) -> None:
    folder, precious = tmp_path / "trash", tmp_path / "precious"
    precious.mkdir()
    (precious / "it").write_text("mine")
    foreign = box(folder, "foreign", days=99, kept=lambda *_: "")
    copied = box(folder, "copied", days=99)
    shutil.move(copied, folder / "other name")
    (folder / "link").symlink_to(precious)
    trash = Trash(str(folder), seal)
    assert (names(trash), emptied(trash)) == ([], [])
    with pytest.raises(ToolError, match="nothing in the trash is called"):
        trash.restore("/project/foreign")
    assert (foreign / "it" / "file").read_text() == "foreign"
    assert (precious / "it").read_text() == "mine"


def test_links_in_what_goes_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    old = box(tmp_path / "trash", "old", days=99)
    (old / "it" / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "trash" / "other").symlink_to(old)
    assert emptied(Trash(str(tmp_path / "trash"), seal)) == ["old"]
    assert (tmp_path / "precious" / "file").read_text() == "mine"


def test_a_removal_that_broke_off_is_finished_and_never_offered(tmp_path: Path) -> None:
    old = box(tmp_path, "old", days=99)
    old.rename(tmp_path / "going-box-old")
    trash = Trash(str(tmp_path), seal)
    assert trash.list() == ()
    assert os.listdir(tmp_path) == []


async def test_a_deleted_file_knows_its_size_and_redo_puts_it_back_into_its_box(tmp_path: Path) -> None:
    project = ToolProject(tmp_path / "work", session=tmp_path / "session")
    project.trash = Trash(str(tmp_path / "trash"), seal)
    project.put("dir/a.txt", "12345")
    project.put("dir/sub/b.txt", "123")
    fill_box(project.trash.place().removesuffix("/it"), str(project.root / "dir"), 1, seal=seal)
    (found,) = project.trash.list()
    assert (found.name, found.size_bytes) == ("dir", 8)
    project.trash.restore(found.id)
    assert (project.trash.list(), project.bytes("dir/sub/b.txt")) == ((), b"123")
    fill_box(str(tmp_path / "trash" / found.id), str(project.root / "dir"), 0)
    assert project.trash.list() == (found,)
