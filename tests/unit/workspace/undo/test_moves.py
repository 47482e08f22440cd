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
from tests.support.files_desk import Desk
from tests.support.undo_logs import undo_log


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def tree(desk: Desk) -> dict[str, bytes]:
    found = sorted(path for path in desk.root.rglob("*") if ".buddyx" not in path.parts and path.is_file())
    return {str(path.relative_to(desk.root)): path.read_bytes() for path in found}


async def test_each_kind_is_taken_back_in_reverse_and_made_again_in_order(desk: Desk) -> None:
    desk.put("a.txt", b"\x00one")
    desk.put("dir/b.txt", "two\n")
    states = [tree(desk)]
    await desk.call(copy_file, source="a.txt", target="c.txt")
    states.append(tree(desk))
    await desk.call(move_file, source="dir", target="lib/dir2")
    states.append(tree(desk))
    await desk.call(edit_file, path="lib/dir2/b.txt", old="two", new="three")
    states.append(tree(desk))
    await desk.call(delete_file, path="lib")
    states.append(tree(desk))
    await desk.call(delete_file, path="a.txt")
    states.append(tree(desk))
    assert states[-1] == {"c.txt": b"\x00one"}
    for wanted in reversed(states[:-1]):
        desk.undo.undo(desk.locks)
        assert tree(desk) == wanted
    for wanted in states[1:]:
        desk.undo.redo(desk.locks)
        assert tree(desk) == wanted


async def test_links_and_empty_folders_come_back_as_they_were(desk: Desk) -> None:
    (desk.root / "empty").mkdir(mode=0o750)
    desk.put("a.txt", "x")
    os.symlink("a.txt", desk.root / "link")
    for name in ("empty", "link"):
        await desk.call(delete_file, path=name)
        desk.undo.undo(desk.locks)
    assert (desk.root / "empty").stat().st_mode & 0o777 == 0o750
    assert (os.readlink(desk.root / "link"), desk.bytes("a.txt")) == ("a.txt", b"x")


async def test_what_stands_in_the_old_place_by_now_is_never_overwritten(desk: Desk) -> None:
    desk.put("a.txt", "mine\n")
    await desk.call(delete_file, path="a.txt")
    desk.put("a.txt", "theirs\n")
    with pytest.raises(ToolError, match=r"a\.txt exists again; move it away first\. Nothing was changed"):
        desk.undo.undo(desk.locks)
    assert desk.bytes("a.txt") == b"theirs\n"
    assert len(desk.undo.entries()) == 1


async def test_what_is_gone_from_the_new_place_is_said_so(desk: Desk) -> None:
    desk.put("a.txt", "x")
    await desk.call(move_file, source="a.txt", target="b.txt")
    (desk.root / "b.txt").unlink()
    with pytest.raises(ToolError, match=r"b\.txt is not there any more"):
        desk.undo.undo(desk.locks)


async def test_what_the_person_restored_already_counts_as_taken_back(desk: Desk) -> None:
    desk.put("a.txt", "x")
    await desk.call(delete_file, path="a.txt")
    desk.trash.restore()
    assert desk.undo.undo(desk.locks).tool == "delete_file"
    assert desk.bytes("a.txt") == b"x"
    desk.undo.redo(desk.locks)
    assert not (desk.root / "a.txt").exists()
    assert [item.name for item in desk.trash.list()] == ["a.txt"]


async def test_a_move_that_fails_leaves_nothing_to_take_back(desk: Desk) -> None:
    desk.put("a.txt", "x")
    desk.put("file", "y")
    answer = await desk.ask(move_file, source="a.txt", target="file/b.txt")
    assert answer.startswith("refused")
    assert (desk.undo.entries(), desk.bytes("a.txt")) == ((), b"x")


async def test_a_new_program_takes_back_what_an_old_one_moved(desk: Desk, tmp_path: Path) -> None:
    desk.put("a.txt", "x")
    await desk.call(move_file, source="a.txt", target="b.txt")
    again = undo_log(str(tmp_path / ".buddyx" / "sessions" / "s" / "undo"))
    assert again.undo(desk.locks).paths == (str(desk.root / "a.txt"), str(desk.root / "b.txt"))
    assert tree(desk) == {"a.txt": b"x"}


async def test_REL_065_a_crash_before_the_move_leaves_an_entry_that_changes_nothing(desk: Desk) -> None:
    from_, to = desk.put("a.txt", "x"), desk.root / "b.txt"
    renamed = desk.undo.prepare_renames(1, "c", "move_file", [_renamed(from_, to)])
    assert desk.undo.undo(desk.locks) == renamed
    assert tree(desk) == {"a.txt": b"x"}


def _renamed(source: Path, target: Path) -> RenamedPath:
    return RenamedPath(str(source), str(target))


async def test_the_diff_of_a_task_shows_moves_and_deletions(desk: Desk) -> None:
    desk.put("a.txt", "x\n")
    desk.put("b.txt", "y\n")
    desk.put("dir/c.txt", "z\n")
    await desk.call(move_file, source="a.txt", target="new.txt")
    await desk.call(delete_file, path="b.txt")
    await desk.call(delete_file, path="dir")
    await desk.call(delete_file, path="new.txt", task_id=2)
    assert task_diff(desk.undo, 1, str(desk.root)) == Diff(
        (
            FileDiff("a.txt", "move", "", 0, 0, new_path="new.txt"),
            FileDiff("b.txt", "delete", "@@ -1 +0,0 @@\n-y\n", 0, 1),
            FileDiff("dir", "delete", "in the trash\n", 0, 0),
        )
    )


async def test_each_tasks_moves_are_its_own(desk: Desk) -> None:
    desk.put("a.txt", "a")
    desk.put("b.txt", "b")
    await desk.call(move_file, source="a.txt", target="a2.txt", task_id=1)
    await desk.call(delete_file, path="b.txt", task_id=2)
    desk.undo.undo(desk.locks, 1)
    assert tree(desk) == {"a.txt": b"a"}
    desk.undo.undo(desk.locks, 2)
    assert tree(desk) == {"a.txt": b"a", "b.txt": b"b"}
