"""Moves and deletions are taken back and made again like edits: nothing is read, nothing is overwritten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buddy.agent.display import Diff, FileDiff
from buddy.agent.tool import ToolError
from buddy.tools.files.edit import edit_file
from buddy.tools.files.move import copy_file, delete_file, move_file
from buddy.tools.files.task_diff import task_diff
from buddy.workspace.undo.moves import RenamedPath
from tests.support.tool_project import ToolProject
from tests.support.undo_logs import undo_log


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    return ToolProject(tmp_path)


def tree(project: ToolProject) -> dict[str, bytes]:
    found = sorted(path for path in project.root.rglob("*") if ".buddyx" not in path.parts and path.is_file())
    return {str(path.relative_to(project.root)): path.read_bytes() for path in found}


async def test_each_kind_is_taken_back_in_reverse_and_made_again_in_order(project: ToolProject) -> None:
    project.put("a.txt", b"\x00one")
    project.put("dir/b.txt", "two\n")
    states = [tree(project)]
    await project.call(copy_file, source="a.txt", target="c.txt")
    states.append(tree(project))
    await project.call(move_file, source="dir", target="lib/dir2")
    states.append(tree(project))
    await project.call(edit_file, path="lib/dir2/b.txt", old="two", new="three")
    states.append(tree(project))
    await project.call(delete_file, path="lib")
    states.append(tree(project))
    await project.call(delete_file, path="a.txt")
    states.append(tree(project))
    assert states[-1] == {"c.txt": b"\x00one"}
    for wanted in reversed(states[:-1]):
        project.undo.undo(project.locks)
        assert tree(project) == wanted
    for wanted in states[1:]:
        project.undo.redo(project.locks)
        assert tree(project) == wanted


async def test_links_and_empty_folders_come_back_as_they_were(project: ToolProject) -> None:
    (project.root / "empty").mkdir(mode=0o750)
    project.put("a.txt", "x")
    os.symlink("a.txt", project.root / "link")
    for name in ("empty", "link"):
        await project.call(delete_file, path=name)
        project.undo.undo(project.locks)
    assert (project.root / "empty").stat().st_mode & 0o777 == 0o750
    assert (os.readlink(project.root / "link"), project.bytes("a.txt")) == ("a.txt", b"x")


async def test_what_stands_in_the_old_place_by_now_is_never_overwritten(project: ToolProject) -> None:
    project.put("a.txt", "mine\n")
    await project.call(delete_file, path="a.txt")
    project.put("a.txt", "theirs\n")
    with pytest.raises(ToolError, match=r"a\.txt exists again; move it away first\. Nothing was changed"):
        project.undo.undo(project.locks)
    assert project.bytes("a.txt") == b"theirs\n"
    assert len(project.undo.entries()) == 1


async def test_what_is_gone_from_the_new_place_is_said_so(project: ToolProject) -> None:
    project.put("a.txt", "x")
    await project.call(move_file, source="a.txt", target="b.txt")
    (project.root / "b.txt").unlink()
    with pytest.raises(ToolError, match=r"b\.txt is not there any more"):
        project.undo.undo(project.locks)


async def test_what_the_person_restored_already_counts_as_taken_back(project: ToolProject) -> None:
    project.put("a.txt", "x")
    await project.call(delete_file, path="a.txt")
    project.trash.restore()
    assert project.undo.undo(project.locks).tool == "delete_file"
    assert project.bytes("a.txt") == b"x"
    project.undo.redo(project.locks)
    assert not (project.root / "a.txt").exists()
    assert [item.name for item in project.trash.list()] == ["a.txt"]


async def test_a_move_that_fails_leaves_nothing_to_take_back(project: ToolProject) -> None:
    project.put("a.txt", "x")
    project.put("file", "y")
    answer = await project.ask(move_file, source="a.txt", target="file/b.txt")
    assert answer.startswith("refused")
    assert (project.undo.entries(), project.bytes("a.txt")) == ((), b"x")


async def test_a_new_program_takes_back_what_an_old_one_moved(project: ToolProject, tmp_path: Path) -> None:
    project.put("a.txt", "x")
    await project.call(move_file, source="a.txt", target="b.txt")
    again = undo_log(str(tmp_path / ".buddyx" / "sessions" / "s" / "undo"))
    assert again.undo(project.locks).paths == (str(project.root / "a.txt"), str(project.root / "b.txt"))
    assert tree(project) == {"a.txt": b"x"}


async def test_REL_065_a_crash_before_the_move_leaves_an_entry_that_changes_nothing(
    project: ToolProject,
) -> None:
    from_, to = project.put("a.txt", "x"), project.root / "b.txt"
    renamed = project.undo.prepare_renames(1, "c", "move_file", [_renamed(from_, to)])
    assert project.undo.undo(project.locks) == renamed
    assert tree(project) == {"a.txt": b"x"}


def _renamed(source: Path, target: Path) -> RenamedPath:
    return RenamedPath(str(source), str(target))


async def test_the_diff_of_a_task_shows_moves_and_deletions(project: ToolProject) -> None:
    project.put("a.txt", "x\n")
    project.put("b.txt", "y\n")
    project.put("dir/c.txt", "z\n")
    await project.call(move_file, source="a.txt", target="new.txt")
    await project.call(delete_file, path="b.txt")
    await project.call(delete_file, path="dir")
    await project.call(delete_file, path="new.txt", task_id=2)
    assert task_diff(project.undo, 1, str(project.root)) == Diff(
        (
            FileDiff("a.txt", "move", "", 0, 0, new_path="new.txt"),
            FileDiff("b.txt", "delete", "@@ -1 +0,0 @@\n-y\n", 0, 1),
            FileDiff("dir", "delete", "in the trash\n", 0, 0),
        )
    )


async def test_each_tasks_moves_are_its_own(project: ToolProject) -> None:
    project.put("a.txt", "a")
    project.put("b.txt", "b")
    await project.call(move_file, source="a.txt", target="a2.txt", task_id=1)
    await project.call(delete_file, path="b.txt", task_id=2)
    project.undo.undo(project.locks, 1)
    assert tree(project) == {"a.txt": b"a"}
    project.undo.undo(project.locks, 2)
    assert tree(project) == {"a.txt": b"a", "b.txt": b"b"}
