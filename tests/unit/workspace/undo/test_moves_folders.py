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
from tests.support.tool_project import ToolProject
from tests.support.undo_logs import undo_log

FOLDER = stat.S_IFDIR | 0o755


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    return ToolProject(tmp_path)


def folders(project: ToolProject) -> list[str]:
    found = (path for path in project.root.rglob("*") if path.is_dir() and ".buddyx" not in path.parts)
    return sorted(str(path.relative_to(project.root)) for path in found)


async def test_a_file_in_new_folders_is_taken_back_with_them(project: ToolProject) -> None:
    (project.root / "there").mkdir()
    await project.call(write_file, path="there/a/b/c.txt", content="x\n")
    assert folders(project) == ["there", "there/a", "there/a/b"]
    project.undo.undo(project.locks)
    assert folders(project) == ["there"]
    project.undo.redo(project.locks)
    assert project.bytes("there/a/b/c.txt") == b"x\n"
    project.undo.undo(project.locks)
    assert folders(project) == ["there"]


@pytest.mark.parametrize("tool", [copy_file, move_file])
async def test_copies_and_moves_into_new_folders_as_well(project: ToolProject, tool: object) -> None:
    project.put("a.txt", "x")
    await project.call(tool, source="a.txt", target="new/deep/b.txt")  # type: ignore[arg-type]
    project.undo.undo(project.locks)
    assert folders(project) == []
    project.undo.redo(project.locks)
    assert folders(project) == ["new", "new/deep"]


async def test_a_folder_with_something_of_the_persons_stays(project: ToolProject) -> None:
    await project.call(write_file, path="a/b/c.txt", content="x\n")
    project.put("a/mine.txt", "mine")
    project.undo.undo(project.locks)
    assert (folders(project), project.bytes("a/mine.txt")) == (["a"], b"mine")
    project.undo.redo(project.locks)
    assert folders(project) == ["a", "a/b"]
    project.undo.undo(project.locks)
    (project.root / "a/mine.txt").unlink()
    project.undo.redo(project.locks)
    project.undo.undo(project.locks)
    assert folders(project) == []


async def test_a_folder_the_person_made_while_a_change_was_taken_back_stays(project: ToolProject) -> None:
    await project.call(write_file, path="a/b/c.txt", content="x\n")
    project.undo.undo(project.locks)
    (project.root / "a").mkdir()
    for _ in range(2):
        project.undo.redo(project.locks)
        assert folders(project) == ["a", "a/b"]
        project.undo = undo_log(str(project.root / ".buddyx/sessions/s/undo"))  # the next program knows
        project.undo.undo(project.locks)
        assert folders(project) == ["a"]
    (project.root / "a").rmdir()
    project.undo.redo(project.locks)
    project.undo.undo(project.locks)
    assert folders(project) == []


async def test_a_folder_the_person_made_again_after_a_command_removed_it_stays(project: ToolProject) -> None:
    place = str(project.root / "it")
    project.undo.record(1, "c", "run_shell", [], [FolderVersions(place, FOLDER, 0)])
    (project.root / "it").mkdir()
    for _ in range(2):
        project.undo.undo(project.locks)
        project.undo.redo(project.locks)
        assert folders(project) == ["it"]


async def test_an_undone_delete_makes_the_folders_that_are_gone_and_its_redo_removes_them(
    project: ToolProject,
) -> None:
    project.put("a/b/c.txt", "x")
    (project.root / "a").chmod(0o750)
    await project.call(delete_file, path="a/b/c.txt")
    (project.root / "a/b").rmdir()
    (project.root / "a").rmdir()
    project.undo.undo(project.locks)
    assert project.bytes("a/b/c.txt") == b"x"
    project.undo.redo(project.locks)
    assert folders(project) == []
    project.undo.undo(project.locks)
    assert project.bytes("a/b/c.txt") == b"x"


async def test_a_folder_whose_permissions_somebody_changed_gets_them_again(project: ToolProject) -> None:
    await project.call(write_file, path="a/c.txt", content="x\n")
    (project.root / "a").chmod(0o700)
    project.undo.undo(project.locks)
    project.undo.redo(project.locks)
    assert stat.S_IMODE((project.root / "a").stat().st_mode) == 0o700


async def test_a_write_that_fails_leaves_no_folder_behind(tmp_path: Path) -> None:
    full = False

    def rename_fails(source: str, target: str, folder: int) -> None:
        raise OSError(28, "No space left on device")

    def write(descriptor: int, data: memoryview) -> int:
        if full and b"second" in bytes(data) and b"kind" not in bytes(data):
            raise OSError(28, "No space left on device")
        return DISK.write(descriptor, data)

    project = ToolProject(tmp_path, disk=Disk(write, DISK.sync, rename_fails, DISK.exchange))
    full = True
    text = "*** Begin Patch\n*** Add File: one/a\n+first\n*** Add File: two/b\n+second\n*** End Patch"
    assert "the disk is full" in await project.ask(apply_patch, patch=text)
    assert (folders(project), project.undo.entries()) == ([], ())


async def test_a_file_may_take_the_place_of_a_folder_and_back(project: ToolProject) -> None:
    place = str(project.root / "it")
    project.put("it", "file\n")
    effects = [Effect(place, None, b"file\n", 0, 0o644), Effect(f"{place}/a", b"a\n", None, 0o644, 0)]
    project.undo.record(1, "c", "run_shell", effects, [FolderVersions(place, FOLDER, 0)])
    project.undo.undo(project.locks)
    assert project.bytes("it/a") == b"a\n"
    project.undo.redo(project.locks)
    assert project.bytes("it") == b"file\n"
    project.undo.undo(project.locks)
    project.put("it/mine", "mine")
    with pytest.raises(ToolError, match="it is a folder, and something is in it; move it away first"):
        project.undo.redo(project.locks)
    assert (project.bytes("it/a"), project.bytes("it/mine")) == (b"a\n", b"mine")


async def test_where_a_folder_was_and_something_else_is_now_nothing_is_changed(project: ToolProject) -> None:
    place = str(project.root / "it")
    project.put("b", "after\n")
    effects = [Effect(str(project.root / "b"), b"before\n", b"after\n", 0o644, 0o644)]
    project.undo.record(1, "c", "run_shell", effects, [FolderVersions(place, FOLDER, 0)])
    project.put("it", "mine")
    with pytest.raises(ToolError, match=r"it is no folder any more; move it away first; nothing was changed"):
        project.undo.undo(project.locks)
    assert (project.bytes("it"), project.bytes("b")) == (b"mine", b"after\n")


async def test_a_move_that_cannot_be_made_again_leaves_no_folder_behind(project: ToolProject) -> None:
    project.put("a.txt", "x")
    await project.call(move_file, source="a.txt", target="new/b.txt")
    project.undo.undo(project.locks)
    (project.root / "a.txt").unlink()
    with pytest.raises(ToolError, match=r"a\.txt is not there any more"):
        project.undo.redo(project.locks)
    assert folders(project) == []


async def test_only_permissions_that_a_change_was_about_are_taken_back(project: ToolProject) -> None:
    path = project.put("a", "x\n")
    path.chmod(0o755)
    project.undo.record(1, "c", "run_shell", [Effect(str(path), b"x\n", b"x\n", 0o644, 0o755)])
    os.link(path, project.root / "other")
    path.chmod(0o750)  # the person: nobody else
    project.undo.undo(project.locks)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.stat().st_nlink == 2
    project.undo.redo(project.locks)
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


async def test_a_change_that_made_a_file_read_only_is_taken_back(project: ToolProject) -> None:
    path = project.put("a", "x\ny\n")
    path.chmod(0o444)
    project.undo.record(1, "c", "run_shell", [Effect(str(path), b"x\n", b"x\ny\n", 0o644, 0o444)])
    project.undo.undo(project.locks)
    assert (project.bytes("a"), stat.S_IMODE(path.stat().st_mode)) == (b"x\n", 0o644)


async def test_two_names_of_one_file_are_taken_back_together(project: ToolProject) -> None:
    path = project.put("a", "x\ny\n")
    os.link(path, project.root / "b")
    effects = [Effect(str(project.root / name), b"x\n", b"x\ny\n", 0o644, 0o644) for name in ("a", "b")]
    project.undo.record(1, "c", "run_shell", effects)
    project.undo.undo(project.locks)
    assert (project.bytes("a"), project.bytes("b")) == (b"x\n", b"x\n")
    project.undo.redo(project.locks)
    assert (project.bytes("a"), project.bytes("b")) == (b"x\ny\n", b"x\ny\n")


async def test_the_next_program_knows_the_folders_too(project: ToolProject, tmp_path: Path) -> None:
    await project.call(write_file, path="a/b/c.txt", content="x\n")
    kept = str(tmp_path / ".buddyx/sessions/s/undo")
    undo_log(kept).undo(project.locks)
    assert folders(project) == []
    undo_log(kept).redo(project.locks)
    assert folders(project) == ["a", "a/b"]
    undo_log(kept).undo(project.locks)
    assert folders(project) == []
