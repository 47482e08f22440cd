"""`copy_file`, `move_file`, `delete_file` and the way back from the trash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buddy.agent.display import Plain
from buddy.agent.tool import ToolError
from buddy.tools.files.move import copy_file, delete_file, move_file
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.workspace.undo.trash import Trash
from tests.support.tool_project import ToolProject


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    return ToolProject(tmp_path)


async def test_a_copy_has_the_same_bytes_and_mode(project: ToolProject) -> None:
    project.put("run.sh", b"\xff\0bytes").chmod(0o755)
    answer = await project.ask(copy_file, source="run.sh", target="new/run2.sh")
    assert answer == "run.sh: copied to new/run2.sh, 7 bytes"
    copy = project.root / "new/run2.sh"
    assert (copy.read_bytes(), copy.stat().st_mode & 0o777) == (b"\xff\0bytes", 0o755)


async def test_nothing_is_overwritten_by_a_copy_or_a_move(project: ToolProject) -> None:
    project.put("a", "1")
    project.put("b", "2")
    for tool in (copy_file, move_file):
        assert "b exists already" in await project.ask(tool, source="a", target="b")
    assert project.bytes("b") == b"2"


async def test_a_delete_says_that_the_file_was_written_since_it_was_read(project: ToolProject) -> None:
    project.put("a.txt", "one\n")
    await project.ask(read_file, path="a.txt")
    await project.call(move_file, source="a.txt", target="b.txt")
    await project.call(write_file, path="b.txt", content="two\n")
    await project.ask(read_file, path="b.txt", task_id=2)
    await project.call(write_file, path="b.txt", content="two and more\n")
    answer = await project.ask(delete_file, path="b.txt", task_id=2)
    assert "Note: it was written after you read it; what you have not seen of it is in the trash" in answer
    project.put("c.txt", "one\n")
    await project.ask(read_file, path="c.txt")
    await project.call(move_file, source="c.txt", target="d.txt")
    assert "Note" not in await project.ask(delete_file, path="d.txt")


async def test_a_folder_as_target_means_into_it(project: ToolProject) -> None:
    project.put("a.txt", "1")
    (project.root / "dir").mkdir()
    await project.call(copy_file, source="a.txt", target="dir")
    assert project.bytes("dir/a.txt") == b"1"
    project.put("b.txt", "2")
    await project.call(move_file, source="b.txt", target="dir")
    assert project.bytes("dir/b.txt") == b"2"


async def test_a_move_keeps_what_was_read(project: ToolProject) -> None:
    project.put("a.txt", "one\n")
    await project.call(read_file, path="a.txt")
    assert (
        await project.ask(move_file, source="a.txt", target="sub/b.txt") == "a.txt: file moved to sub/b.txt"
    )
    await project.call(write_file, path="sub/b.txt", content="two\n")
    assert project.bytes("sub/b.txt") == b"two\n"


async def test_folders_move_and_not_into_themselves(project: ToolProject) -> None:
    project.put("dir/a.txt", "1")
    await project.call(move_file, source="dir", target="other/dir2")
    assert project.bytes("other/dir2/a.txt") == b"1"
    assert "into itself" in await project.ask(move_file, source="other", target="other/dir2/x")


async def test_a_deleted_file_is_in_the_trash_and_comes_back(project: ToolProject) -> None:
    project.put("dir/a.txt", "1")
    answer = await project.ask(delete_file, path="dir/a.txt")
    assert answer.startswith("dir/a.txt (1 byte): deleted (in the trash as ")
    assert not (project.root / "dir/a.txt").exists()
    assert [item.name for item in project.trash.list()] == ["a.txt"]
    project.trash.restore()
    assert project.bytes("dir/a.txt") == b"1"
    assert project.trash.list() == ()


async def test_a_folder_goes_whole_and_comes_back_whole(project: ToolProject) -> None:
    project.put("dir/a.txt", "1")
    project.put("dir/sub/b.txt", "2")
    assert project.preview(delete_file, "c", path="dir") == Plain(
        "delete folder dir (2 files) (goes to the trash)"
    )
    await project.call(delete_file, call_id="c", path="dir")
    assert not (project.root / "dir").exists()
    project.trash.restore("dir")
    assert project.bytes("dir/sub/b.txt") == b"2"


async def test_what_was_restored_never_covers_something_newer(project: ToolProject) -> None:
    project.put("a.txt", "old")
    await project.call(delete_file, path="a.txt")
    project.put("a.txt", "newer")
    with pytest.raises(ToolError, match="exists again"):
        project.trash.restore("a.txt")
    assert project.bytes("a.txt") == b"newer"


async def test_the_trash_says_when_there_is_nothing(project: ToolProject) -> None:
    with pytest.raises(ToolError, match="the trash is empty"):
        project.trash.restore()
    with pytest.raises(ToolError, match="nothing in the trash is called 'x'"):
        project.trash.restore("x")


async def test_deleting_a_link_leaves_its_target(project: ToolProject) -> None:
    project.put("real.txt", "1")
    (project.root / "link").symlink_to("real.txt")
    await project.call(delete_file, path="link")
    assert project.bytes("real.txt") == b"1"
    assert not (project.root / "link").is_symlink()


@pytest.mark.parametrize("path", [".", "..", "/", "~"])
async def test_the_workspace_and_what_holds_it_are_never_deleted_or_moved(
    project: ToolProject, path: str
) -> None:
    project.put("a.txt", "1")
    assert (await project.ask(delete_file, path=path)).startswith("refused: ")
    assert (await project.ask(move_file, source=path, target="elsewhere")).startswith("refused: ")
    assert project.bytes("a.txt") == b"1"


async def test_missing_things_are_answered_with_near_names(project: ToolProject) -> None:
    project.put("report.txt", "1")
    for answer in (
        await project.ask(delete_file, path="reprot.txt"),
        await project.ask(move_file, source="reprot.txt", target="x"),
        await project.ask(copy_file, source="reprot.txt", target="x"),
    ):
        assert answer == "refused: reprot.txt does not exist. Did you mean report.txt?"


async def test_a_name_that_is_no_text_is_deleted_and_comes_back(project: ToolProject) -> None:
    odd = os.fsencode(project.root) + b"/dir/\xff"
    (project.root / "dir").mkdir()
    Path(os.fsdecode(odd)).write_bytes(b"x")
    await project.call(delete_file, path="dir")
    assert not os.path.lexists(odd)
    project.undo.undo(project.locks)
    assert os.path.lexists(odd)
    trash = Trash(str(project.root / "trash"))
    trash.take(os.fsdecode(odd), 1)
    (found,) = trash.list()
    assert found.real == os.fsdecode(odd)
    trash.restore(found.id)
    assert os.path.lexists(odd)
