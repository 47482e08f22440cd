"""Folders that a call made go when it is taken back, unless somebody put something into them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.tools.files.move import copy_file, delete_file, move_file
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.write import write_file
from buddy.workspace.files.atomic_replace import DISK, Disk
from buddy.workspace.undo.log import Effect
from buddy.workspace.undo.moves import FolderVersions
from tests.support.files_desk import Desk
from tests.support.undo_logs import undo_log

FOLDER = stat.S_IFDIR | 0o755


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def folders(desk: Desk) -> list[str]:
    found = (path for path in desk.root.rglob("*") if path.is_dir() and ".buddyx" not in path.parts)
    return sorted(str(path.relative_to(desk.root)) for path in found)


async def test_a_file_in_new_folders_is_taken_back_with_them(desk: Desk) -> None:
    (desk.root / "there").mkdir()
    await desk.call(write_file, path="there/a/b/c.txt", content="x\n")
    assert folders(desk) == ["there", "there/a", "there/a/b"]
    desk.undo.undo(desk.locks)
    assert folders(desk) == ["there"]
    desk.undo.redo(desk.locks)
    assert desk.bytes("there/a/b/c.txt") == b"x\n"
    desk.undo.undo(desk.locks)
    assert folders(desk) == ["there"]


@pytest.mark.parametrize("tool", [copy_file, move_file])
async def test_copies_and_moves_into_new_folders_as_well(desk: Desk, tool: object) -> None:
    desk.put("a.txt", "x")
    await desk.call(tool, source="a.txt", target="new/deep/b.txt")  # type: ignore[arg-type]
    desk.undo.undo(desk.locks)
    assert folders(desk) == []
    desk.undo.redo(desk.locks)
    assert folders(desk) == ["new", "new/deep"]


async def test_a_folder_with_something_of_the_persons_stays(desk: Desk) -> None:
    await desk.call(write_file, path="a/b/c.txt", content="x\n")
    desk.put("a/mine.txt", "mine")
    desk.undo.undo(desk.locks)
    assert (folders(desk), desk.bytes("a/mine.txt")) == (["a"], b"mine")
    desk.undo.redo(desk.locks)
    assert folders(desk) == ["a", "a/b"]
    desk.undo.undo(desk.locks)
    (desk.root / "a/mine.txt").unlink()
    desk.undo.redo(desk.locks)
    desk.undo.undo(desk.locks)
    assert folders(desk) == []


async def test_a_folder_the_person_made_while_a_change_was_taken_back_stays(desk: Desk) -> None:
    await desk.call(write_file, path="a/b/c.txt", content="x\n")
    desk.undo.undo(desk.locks)
    (desk.root / "a").mkdir()
    for _ in range(2):
        desk.undo.redo(desk.locks)
        assert folders(desk) == ["a", "a/b"]
        desk.undo = undo_log(str(desk.root / ".buddyx/sessions/s/undo"))  # the next program knows
        desk.undo.undo(desk.locks)
        assert folders(desk) == ["a"]
    (desk.root / "a").rmdir()
    desk.undo.redo(desk.locks)
    desk.undo.undo(desk.locks)
    assert folders(desk) == []


async def test_a_folder_the_person_made_again_after_a_command_removed_it_stays(desk: Desk) -> None:
    place = str(desk.root / "it")
    desk.undo.record(1, "c", "run_shell", [], [FolderVersions(place, FOLDER, 0)])
    (desk.root / "it").mkdir()
    for _ in range(2):
        desk.undo.undo(desk.locks)
        desk.undo.redo(desk.locks)
        assert folders(desk) == ["it"]


async def test_an_undone_delete_makes_the_folders_that_are_gone_and_its_redo_removes_them(desk: Desk) -> None:
    desk.put("a/b/c.txt", "x")
    (desk.root / "a").chmod(0o750)
    await desk.call(delete_file, path="a/b/c.txt")
    (desk.root / "a/b").rmdir()
    (desk.root / "a").rmdir()
    desk.undo.undo(desk.locks)
    assert desk.bytes("a/b/c.txt") == b"x"
    desk.undo.redo(desk.locks)
    assert folders(desk) == []
    desk.undo.undo(desk.locks)
    assert desk.bytes("a/b/c.txt") == b"x"


async def test_a_folder_whose_permissions_somebody_changed_gets_them_again(desk: Desk) -> None:
    await desk.call(write_file, path="a/c.txt", content="x\n")
    (desk.root / "a").chmod(0o700)
    desk.undo.undo(desk.locks)
    desk.undo.redo(desk.locks)
    assert stat.S_IMODE((desk.root / "a").stat().st_mode) == 0o700


async def test_a_write_that_fails_leaves_no_folder_behind(tmp_path: Path) -> None:
    full = False

    def rename_fails(source: str, target: str, folder: int) -> None:
        raise OSError(28, "No space left on device")

    def write(descriptor: int, data: memoryview) -> int:
        if full and b"second" in bytes(data) and b"kind" not in bytes(data):
            raise OSError(28, "No space left on device")
        return DISK.write(descriptor, data)

    desk = Desk(tmp_path, disk=Disk(write, DISK.sync, rename_fails, DISK.exchange))
    full = True
    text = "*** Begin Patch\n*** Add File: one/a\n+first\n*** Add File: two/b\n+second\n*** End Patch"
    assert "the disk is full" in await desk.ask(apply_patch, patch=text)
    assert (folders(desk), desk.undo.entries()) == ([], ())


async def test_a_file_may_take_the_place_of_a_folder_and_back(desk: Desk) -> None:
    place = str(desk.root / "it")
    desk.put("it", "file\n")
    effects = [Effect(place, None, b"file\n", 0, 0o644), Effect(f"{place}/a", b"a\n", None, 0o644, 0)]
    desk.undo.record(1, "c", "run_shell", effects, [FolderVersions(place, FOLDER, 0)])
    desk.undo.undo(desk.locks)
    assert desk.bytes("it/a") == b"a\n"
    desk.undo.redo(desk.locks)
    assert desk.bytes("it") == b"file\n"
    desk.undo.undo(desk.locks)
    desk.put("it/mine", "mine")
    with pytest.raises(ToolError, match="it is a folder, and something is in it; move it away first"):
        desk.undo.redo(desk.locks)
    assert (desk.bytes("it/a"), desk.bytes("it/mine")) == (b"a\n", b"mine")


async def test_where_a_folder_was_and_something_else_is_now_nothing_is_changed(desk: Desk) -> None:
    place = str(desk.root / "it")
    desk.put("b", "after\n")
    effects = [Effect(str(desk.root / "b"), b"before\n", b"after\n", 0o644, 0o644)]
    desk.undo.record(1, "c", "run_shell", effects, [FolderVersions(place, FOLDER, 0)])
    desk.put("it", "mine")
    with pytest.raises(ToolError, match=r"it is no folder any more; move it away first; nothing was changed"):
        desk.undo.undo(desk.locks)
    assert (desk.bytes("it"), desk.bytes("b")) == (b"mine", b"after\n")


async def test_a_move_that_cannot_be_made_again_leaves_no_folder_behind(desk: Desk) -> None:
    desk.put("a.txt", "x")
    await desk.call(move_file, source="a.txt", target="new/b.txt")
    desk.undo.undo(desk.locks)
    (desk.root / "a.txt").unlink()
    with pytest.raises(ToolError, match=r"a\.txt is not there any more"):
        desk.undo.redo(desk.locks)
    assert folders(desk) == []


async def test_only_permissions_that_a_change_was_about_are_taken_back(desk: Desk) -> None:
    path = desk.put("a", "x\n")
    path.chmod(0o755)
    desk.undo.record(1, "c", "run_shell", [Effect(str(path), b"x\n", b"x\n", 0o644, 0o755)])
    os.link(path, desk.root / "other")
    path.chmod(0o750)  # the person: nobody else
    desk.undo.undo(desk.locks)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.stat().st_nlink == 2
    desk.undo.redo(desk.locks)
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


async def test_a_change_that_made_a_file_read_only_is_taken_back(desk: Desk) -> None:
    path = desk.put("a", "x\ny\n")
    path.chmod(0o444)
    desk.undo.record(1, "c", "run_shell", [Effect(str(path), b"x\n", b"x\ny\n", 0o644, 0o444)])
    desk.undo.undo(desk.locks)
    assert (desk.bytes("a"), stat.S_IMODE(path.stat().st_mode)) == (b"x\n", 0o644)


async def test_two_names_of_one_file_are_taken_back_together(desk: Desk) -> None:
    path = desk.put("a", "x\ny\n")
    os.link(path, desk.root / "b")
    effects = [Effect(str(desk.root / name), b"x\n", b"x\ny\n", 0o644, 0o644) for name in ("a", "b")]
    desk.undo.record(1, "c", "run_shell", effects)
    desk.undo.undo(desk.locks)
    assert (desk.bytes("a"), desk.bytes("b")) == (b"x\n", b"x\n")
    desk.undo.redo(desk.locks)
    assert (desk.bytes("a"), desk.bytes("b")) == (b"x\ny\n", b"x\ny\n")


async def test_the_next_program_knows_the_folders_too(desk: Desk, tmp_path: Path) -> None:
    await desk.call(write_file, path="a/b/c.txt", content="x\n")
    kept = str(tmp_path / ".buddyx/sessions/s/undo")
    undo_log(kept).undo(desk.locks)
    assert folders(desk) == []
    undo_log(kept).redo(desk.locks)
    assert folders(desk) == ["a", "a/b"]
    undo_log(kept).undo(desk.locks)
    assert folders(desk) == []
