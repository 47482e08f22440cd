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
from tests.support.files_desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_copy_has_the_same_bytes_and_mode(desk: Desk) -> None:
    desk.put("run.sh", b"\xff\0bytes").chmod(0o755)
    answer = await desk.ask(copy_file, source="run.sh", target="new/run2.sh")
    assert answer == "run.sh: copied to new/run2.sh, 7 bytes"
    copy = desk.root / "new/run2.sh"
    assert (copy.read_bytes(), copy.stat().st_mode & 0o777) == (b"\xff\0bytes", 0o755)


async def test_nothing_is_overwritten_by_a_copy_or_a_move(desk: Desk) -> None:
    desk.put("a", "1")
    desk.put("b", "2")
    for tool in (copy_file, move_file):
        assert "b exists already" in await desk.ask(tool, source="a", target="b")
    assert desk.bytes("b") == b"2"


async def test_a_delete_says_that_the_file_was_written_since_it_was_read(desk: Desk) -> None:
    desk.put("a.txt", "one\n")
    await desk.ask(read_file, path="a.txt")
    await desk.call(move_file, source="a.txt", target="b.txt")
    await desk.call(write_file, path="b.txt", content="two\n")
    await desk.ask(read_file, path="b.txt", task_id=2)
    await desk.call(write_file, path="b.txt", content="two and more\n")
    answer = await desk.ask(delete_file, path="b.txt", task_id=2)
    assert "Note: it was written after you read it; what you have not seen of it is in the trash" in answer
    desk.put("c.txt", "one\n")
    await desk.ask(read_file, path="c.txt")
    await desk.call(move_file, source="c.txt", target="d.txt")
    assert "Note" not in await desk.ask(delete_file, path="d.txt")


async def test_a_folder_as_target_means_into_it(desk: Desk) -> None:
    desk.put("a.txt", "1")
    (desk.root / "dir").mkdir()
    await desk.call(copy_file, source="a.txt", target="dir")
    assert desk.bytes("dir/a.txt") == b"1"
    desk.put("b.txt", "2")
    await desk.call(move_file, source="b.txt", target="dir")
    assert desk.bytes("dir/b.txt") == b"2"


async def test_a_move_keeps_what_was_read(desk: Desk) -> None:
    desk.put("a.txt", "one\n")
    await desk.call(read_file, path="a.txt")
    assert await desk.ask(move_file, source="a.txt", target="sub/b.txt") == "a.txt: file moved to sub/b.txt"
    await desk.call(write_file, path="sub/b.txt", content="two\n")
    assert desk.bytes("sub/b.txt") == b"two\n"


async def test_folders_move_and_not_into_themselves(desk: Desk) -> None:
    desk.put("dir/a.txt", "1")
    await desk.call(move_file, source="dir", target="other/dir2")
    assert desk.bytes("other/dir2/a.txt") == b"1"
    assert "into itself" in await desk.ask(move_file, source="other", target="other/dir2/x")


async def test_a_deleted_file_is_in_the_trash_and_comes_back(desk: Desk) -> None:
    desk.put("dir/a.txt", "1")
    answer = await desk.ask(delete_file, path="dir/a.txt")
    assert answer.startswith("dir/a.txt (1 byte): deleted (in the trash as ")
    assert not (desk.root / "dir/a.txt").exists()
    assert [item.name for item in desk.trash.list()] == ["a.txt"]
    desk.trash.restore()
    assert desk.bytes("dir/a.txt") == b"1"
    assert desk.trash.list() == ()


async def test_a_folder_goes_whole_and_comes_back_whole(desk: Desk) -> None:
    desk.put("dir/a.txt", "1")
    desk.put("dir/sub/b.txt", "2")
    assert desk.preview(delete_file, "c", path="dir") == Plain(
        "delete folder dir (2 files) (goes to the trash)"
    )
    await desk.call(delete_file, call_id="c", path="dir")
    assert not (desk.root / "dir").exists()
    desk.trash.restore("dir")
    assert desk.bytes("dir/sub/b.txt") == b"2"


async def test_what_was_restored_never_covers_something_newer(desk: Desk) -> None:
    desk.put("a.txt", "old")
    await desk.call(delete_file, path="a.txt")
    desk.put("a.txt", "newer")
    with pytest.raises(ToolError, match="exists again"):
        desk.trash.restore("a.txt")
    assert desk.bytes("a.txt") == b"newer"


async def test_the_trash_says_when_there_is_nothing(desk: Desk) -> None:
    with pytest.raises(ToolError, match="the trash is empty"):
        desk.trash.restore()
    with pytest.raises(ToolError, match="nothing in the trash is called 'x'"):
        desk.trash.restore("x")


async def test_deleting_a_link_leaves_its_target(desk: Desk) -> None:
    desk.put("real.txt", "1")
    (desk.root / "link").symlink_to("real.txt")
    await desk.call(delete_file, path="link")
    assert desk.bytes("real.txt") == b"1"
    assert not (desk.root / "link").is_symlink()


@pytest.mark.parametrize("path", [".", "..", "/", "~"])
async def test_the_workspace_and_what_holds_it_are_never_deleted_or_moved(desk: Desk, path: str) -> None:
    desk.put("a.txt", "1")
    assert (await desk.ask(delete_file, path=path)).startswith("refused: ")
    assert (await desk.ask(move_file, source=path, target="elsewhere")).startswith("refused: ")
    assert desk.bytes("a.txt") == b"1"


async def test_missing_things_are_answered_with_near_names(desk: Desk) -> None:
    desk.put("report.txt", "1")
    for answer in (
        await desk.ask(delete_file, path="reprot.txt"),
        await desk.ask(move_file, source="reprot.txt", target="x"),
        await desk.ask(copy_file, source="reprot.txt", target="x"),
    ):
        assert answer == "refused: reprot.txt does not exist. Did you mean report.txt?"


async def test_a_name_that_is_no_text_is_deleted_and_comes_back(desk: Desk) -> None:
    odd = os.fsencode(desk.root) + b"/dir/\xff"
    (desk.root / "dir").mkdir()
    Path(os.fsdecode(odd)).write_bytes(b"x")
    await desk.call(delete_file, path="dir")
    assert not os.path.lexists(odd)
    desk.undo.undo(desk.locks)
    assert os.path.lexists(odd)
    trash = Trash(str(desk.root / "trash"))
    trash.take(os.fsdecode(odd), 1)
    (found,) = trash.list()
    assert found.real == os.fsdecode(odd)
    trash.restore(found.id)
    assert os.path.lexists(odd)
