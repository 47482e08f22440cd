"""A tool never makes a file that acts as its owner; what else a file is survives its edit."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from buddy.tools.files.edit import edit_file
from buddy.tools.files.move import copy_file, delete_file, move_file
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.workspace.undo.trash import Trash
from tests.capabilities import requires
from tests.support.tool_project import ToolProject

SPECIAL = 0o7755
NOTE = "Note: a was setuid or setgid; it is not any more, as after any write."


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    found = ToolProject(tmp_path)
    found.put("a", "one\n").chmod(SPECIAL)
    if not found.root.joinpath("a").stat().st_mode & stat.S_ISUID:
        pytest.fail("the file system of the tests keeps no setuid bit")
    return found


def mode(project: ToolProject, name: str) -> int:
    return stat.S_IMODE((project.root / name).lstat().st_mode)


async def test_a_copy_has_the_permissions_and_none_of_the_special_bits(project: ToolProject) -> None:
    await project.call(copy_file, source="a", target="b")
    assert (mode(project, "a"), mode(project, "b")) == (SPECIAL, 0o755)
    project.undo.undo(project.locks)
    project.undo.redo(project.locks)
    assert mode(project, "b") == 0o755


async def test_an_edit_takes_setuid_and_setgid_away_as_a_write_does_and_says_so(project: ToolProject) -> None:
    done = await project.call(edit_file, path="a", old="one", new="two")
    assert done.text.split("\n")[-1] == NOTE
    assert mode(project, "a") == 0o1755
    project.undo.undo(project.locks)
    assert (project.bytes("a"), mode(project, "a")) == (b"one\n", 0o1755)


async def test_a_whole_write_and_a_patch_do_the_same(project: ToolProject) -> None:
    await project.call(
        apply_patch, patch="*** Begin Patch\n*** Update File: a\n@@\n-one\n+two\n*** End Patch"
    )
    assert mode(project, "a") == 0o1755
    (project.root / "a").chmod(SPECIAL)
    await project.call(read_file, path="a")
    done = await project.call(write_file, path="a", content="three\n")
    assert done.text.endswith(NOTE)
    assert mode(project, "a") == 0o1755


async def test_a_patch_that_moves_a_file_makes_no_setuid_one(project: ToolProject) -> None:
    moved = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-one\n+two\n*** End Patch"
    await project.call(apply_patch, patch=moved)
    assert mode(project, "b") == 0o755
    project.undo.undo(project.locks)
    assert (project.bytes("a"), mode(project, "a")) == (b"one\n", 0o755)


async def test_moved_and_deleted_whole_it_stays_what_it_was(project: ToolProject) -> None:
    await project.call(move_file, source="a", target="b")
    assert mode(project, "b") == SPECIAL
    await project.call(delete_file, path="b")
    project.undo.undo(project.locks)
    assert mode(project, "b") == SPECIAL


async def test_attributes_survive_an_edit_and_capabilities_do_not(project: ToolProject) -> None:
    path = project.put("b", "one\n")
    try:
        os.setxattr(path, "user.note", b"kept")
    except (OSError, AttributeError):
        return  # a file system without
    if os.geteuid() == 0:
        # Version 2, nothing permitted: what `setcap` writes.
        os.setxattr(path, "security.capability", bytes.fromhex("0000000200040000000000000000000000000000"))
    await project.call(edit_file, path="b", old="one", new="two")
    assert [one for one in os.listxattr(path) if one.startswith(("user.", "security.cap"))] == ["user.note"]
    assert os.getxattr(path, "user.note") == b"kept"


async def test_a_file_of_somebody_else_stays_theirs_where_that_can_be(project: ToolProject) -> None:
    path = project.put("b", "one\n")
    owner = (1234, 1235) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(path, *owner)
    path.chmod(0o664)
    await project.call(edit_file, path="b", old="one", new="two")
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (*owner, 0o664)


@requires("two disks")
def test_copied_to_another_disk_a_thing_keeps_its_owner_or_no_longer_acts_as_one(tmp_path: Path) -> None:
    made = Path(f"/dev/shm/buddy-{os.getpid()}-{os.urandom(3).hex()}")
    made.mkdir()
    owner = (1234, 1235) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    (made / "a").write_text("x")
    for path in (made, made / "a"):
        os.chown(path, *owner)
    (made / "a").chmod(0o4755)
    trash = Trash(str(tmp_path / "trash"))
    kept = Path(trash.place())
    trash.take(str(made), 1, str(kept))
    status = (kept / "a").lstat()
    assert ((kept.lstat().st_uid, kept.lstat().st_gid), (status.st_uid, status.st_gid)) == (owner, owner)
    assert stat.S_IMODE(status.st_mode) == 0o4755
