"""Taking edits back: never over somebody's newer work, and after a crash as well."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from buddy.agent.tool import ToolError
from buddy.tools.files.edit import edit_file
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.workspace.files.atomic_replace import DISK
from buddy.workspace.undo.restore import Move, carry_out, look
from tests.support.tool_project import ToolProject
from tests.support.undo_logs import undo_log


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    return ToolProject(tmp_path)


async def test_edits_are_taken_back_one_by_one_and_applied_again(project: ToolProject) -> None:
    project.put("a.txt", "0\n").chmod(0o700)
    await project.call(edit_file, path="a.txt", old="0", new="1")
    await project.call(edit_file, path="a.txt", old="1", new="2")
    project.undo.undo(project.locks)
    assert project.bytes("a.txt") == b"1\n"
    project.undo.undo(project.locks)
    assert project.bytes("a.txt") == b"0\n"
    with pytest.raises(ToolError, match="no edit to take back"):
        project.undo.undo(project.locks)
    project.undo.redo(project.locks)
    project.undo.redo(project.locks)
    assert project.bytes("a.txt") == b"2\n"
    with pytest.raises(ToolError, match="nothing was taken back"):
        project.undo.redo(project.locks)
    assert (project.root / "a.txt").stat().st_mode & 0o777 == 0o700


async def test_a_created_file_is_deleted_and_a_deleted_one_comes_back(project: ToolProject) -> None:
    project.put("old.txt", b"\xff\xfe\0").chmod(0o640)
    await project.call(
        apply_patch,
        patch="*** Begin Patch\n*** Add File: new.txt\n+x\n*** Delete File: old.txt\n*** End Patch",
    )
    project.undo.undo(project.locks)
    assert not (project.root / "new.txt").exists()
    assert project.bytes("old.txt") == b"\xff\xfe\0"
    assert (project.root / "old.txt").stat().st_mode & 0o777 == 0o640


async def test_only_the_task_asked_for_is_taken_back(project: ToolProject) -> None:
    project.put("a.txt", "a\n")
    project.put("b.txt", "b\n")
    await project.call(edit_file, task_id=1, path="a.txt", old="a", new="A")
    await project.call(edit_file, task_id=2, path="b.txt", old="b", new="B")
    assert project.undo.undo(project.locks, task_id=1).task_id == 1
    assert (project.bytes("a.txt"), project.bytes("b.txt")) == (b"a\n", b"B\n")


async def test_what_somebody_wrote_since_is_never_thrown_away(project: ToolProject) -> None:
    path = project.put("a.txt", "a\n")
    await project.call(edit_file, path="a.txt", old="a", new="b")
    path.write_text("b\nby hand\n")
    with pytest.raises(ToolError, match="was changed by something else after that edit"):
        project.undo.undo(project.locks)
    assert path.read_text() == "b\nby hand\n"


async def test_one_changed_file_keeps_a_whole_entry_from_being_taken_back(project: ToolProject) -> None:
    project.put("a.txt", "a\n")
    path = project.put("b.txt", "b\n")
    hunks = "*** Update File: a.txt\n@@\n-a\n+A\n*** Update File: b.txt\n@@\n-b\n+B\n"
    await project.call(apply_patch, patch=f"*** Begin Patch\n{hunks}*** End Patch")
    path.write_text("by hand\n")
    with pytest.raises(ToolError):
        project.undo.undo(project.locks)
    assert project.bytes("a.txt") == b"A\n"


async def test_what_cannot_be_kept_for_redo_stays(project: ToolProject, tmp_path: Path) -> None:
    await project.call(write_file, path="a.txt", content="a\n")
    blobs = tmp_path / ".buddyx/sessions/s/undo/blobs"
    blobs.rename(tmp_path / "gone")
    blobs.write_text("in its place")
    with pytest.raises(ToolError, match=r"could not restore: .*File exists.*nothing was changed"):
        project.undo.undo(project.locks)
    assert project.bytes("a.txt") == b"a\n"


async def test_a_new_edit_ends_redoing(project: ToolProject) -> None:
    project.put("a.txt", "0\n")
    await project.call(edit_file, path="a.txt", old="0", new="1")
    project.undo.undo(project.locks)
    await project.call(edit_file, path="a.txt", old="0", new="2")
    with pytest.raises(ToolError, match="nothing was taken back"):
        project.undo.redo(project.locks)


async def test_what_was_taken_back_before_a_new_edit_does_not_stand_again(
    project: ToolProject, tmp_path: Path
) -> None:
    project.put("a.txt", "0\n")
    await project.call(edit_file, path="a.txt", old="0", new="1")
    await project.call(edit_file, path="a.txt", old="1", new="2")
    project.undo.undo(project.locks)
    project.put("b.txt", "b\n")
    await project.call(edit_file, path="b.txt", old="b", new="c")
    assert [entry.id for entry in project.undo.entries()] == [1, 3]
    project.undo.undo(project.locks)
    project.undo.undo(project.locks)
    assert (project.bytes("a.txt"), project.bytes("b.txt")) == (b"0\n", b"b\n")
    again = undo_log(str(tmp_path / ".buddyx/sessions/s/undo"))
    assert again.entries() == ()
    again.redo(project.locks)
    assert [entry.id for entry in again.entries()] == [1]


async def test_the_log_is_read_back_by_the_next_program(project: ToolProject, tmp_path: Path) -> None:
    project.put("a.txt", "0\n")
    await project.call(edit_file, path="a.txt", old="0", new="1")
    await project.call(edit_file, path="a.txt", old="1", new="2")
    project.undo.undo(project.locks)
    folder = tmp_path / ".buddyx/sessions/s/undo"
    with (folder / "log.jsonl").open("ab") as log:
        log.write(b'{"kind":"edit","files":' + b"[" * 100_000 + b"\n\xff\n")  # nobody of us wrote that
        log.write(b'{"kind":"edit","id":9,"task')  # torn by a crash
    again = undo_log(str(folder))
    assert [entry.tool for entry in again.entries()] == ["edit_file"]
    again.redo(project.locks)
    again.undo(project.locks)
    again.undo(project.locks)
    assert project.bytes("a.txt") == b"0\n"


async def test_damaged_content_is_refused_before_anything_is_written(
    project: ToolProject, tmp_path: Path
) -> None:
    project.put("a.txt", "0\n")
    await project.call(edit_file, path="a.txt", old="0", new="1")
    for blob in (tmp_path / ".buddyx/sessions/s/undo/blobs").iterdir():
        blob.write_bytes(b"damaged")
    with pytest.raises(ToolError, match="damaged on disk"):
        project.undo.undo(project.locks)
    assert project.bytes("a.txt") == b"1\n"


async def test_what_was_kept_is_readable_by_its_owner_only(project: ToolProject, tmp_path: Path) -> None:
    project.put("a.txt", "secret\n")
    await project.call(read_file, path="a.txt")
    await project.call(write_file, path="a.txt", content="x\n")
    folder = tmp_path / ".buddyx/sessions/s/undo"
    assert {path.stat().st_mode & 0o077 for path in folder.rglob("*")} == {0}


def test_a_link_is_there_again_when_the_disk_has_no_room_for_the_file_in_its_place(tmp_path: Path) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    link = tmp_path / "link"
    link.symlink_to("elsewhere")
    move = Move(str(link), "link", look(str(link), "link"), b"text", 0o644, already=False)
    with pytest.raises(OSError, match="no space left"):
        carry_out(move, msgspec.structs.replace(DISK, sync=full))
    assert [(one.name, os.readlink(one)) for one in tmp_path.iterdir()] == [("link", "elsewhere")]
