"""`write_file`: new files, and files the model has seen whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from buddy.agent.tool import Tool, ToolRegistry
from buddy.tools.files.edit import edit_file
from buddy.tools.files.move import move_file
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import UNDONE, write_file
from tests.support.tool_project import TOOLS, ToolProject


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    return ToolProject(tmp_path)


async def test_a_new_file_gets_its_folders_and_exactly_this_content(project: ToolProject) -> None:
    assert (
        await project.ask(write_file, path="a/b/c.txt", content="x\r\ny")
        == "a/b/c.txt: created, 2 lines, 4 bytes"
    )
    assert project.bytes("a/b/c.txt") == b"x\r\ny"


async def test_a_file_nobody_read_is_not_replaced(project: ToolProject) -> None:
    project.put("a.txt", "precious\n")
    assert "you have not read it" in await project.ask(write_file, path="a.txt", content="x")
    assert project.bytes("a.txt") == b"precious\n"


async def test_a_file_read_in_part_is_not_replaced_until_the_rest_is_read(project: ToolProject) -> None:
    project.put("a.txt", "1\n2\n3\n4\n")
    await project.call(read_file, path="a.txt", limit=2)
    assert "only a part" in await project.ask(write_file, path="a.txt", content="x")
    await project.call(read_file, path="a.txt", offset=3)
    await project.call(write_file, path="a.txt", content="x\n")
    assert project.bytes("a.txt") == b"x\n"


async def test_a_file_that_changed_since_is_not_replaced_and_the_change_is_shown(
    project: ToolProject,
) -> None:
    path = project.put("a.txt", "one\n")
    await project.call(read_file, path="a.txt")
    path.write_text("one\nby hand\n")
    refusal = await project.ask(write_file, path="a.txt", content="x")
    assert "a.txt changed since you read it:\n+2     by hand" in refusal
    assert path.read_text() == "one\nby hand\n"


async def test_another_tasks_reading_does_not_count(project: ToolProject) -> None:
    project.put("a.txt", "one\n")
    await project.call(read_file, path="a.txt", task_id=1)
    assert "you have not read it" in await project.ask(write_file, path="a.txt", content="x", task_id=2)


async def test_line_ends_encoding_and_mark_of_a_replaced_file_stay(project: ToolProject) -> None:
    project.put("a.txt", "\ufeffa\r\nb\r\n".encode("utf-16-le"))
    await project.call(read_file, path="a.txt")
    await project.call(write_file, path="a.txt", content="new\nlines\n")
    assert project.bytes("a.txt") == "\ufeffnew\r\nlines\r\n".encode("utf-16-le")


async def test_the_same_content_again_is_refused(project: ToolProject) -> None:
    project.put("a.txt", "one\n")
    await project.call(read_file, path="a.txt")
    assert "already has exactly this content" in await project.ask(write_file, path="a.txt", content="one\n")


async def test_an_empty_file_may_be_filled_without_reading_it(project: ToolProject) -> None:
    project.put("a.txt", "")
    await project.call(write_file, path="a.txt", content="x\n")
    assert project.bytes("a.txt") == b"x\n"


async def test_what_somebody_took_away_is_not_brought_back_unawares(project: ToolProject) -> None:
    again = "make the same call once more"
    patch = "*** Begin Patch\n*** Add File: a.txt\n+mine\n*** End Patch"
    calls: tuple[tuple[Tool, dict[str, Any]], ...] = (
        (write_file, {"path": "a.txt", "content": "mine\n"}),
        (apply_patch, {"patch": patch}),
    )
    for tool, arguments in calls:
        path = project.put("a.txt", "theirs\n")
        await project.ask(read_file, path="a.txt")
        path.unlink()
        said = await project.ask(tool, **arguments)
        assert said.startswith("refused: a.txt was there when you read it: it was deleted or moved since")
        assert (again in said, path.exists()) == (True, False)
        await project.call(tool, **arguments)
        assert path.read_bytes() == b"mine\n"
        path.unlink()
    project.put("b.txt", "x\n")
    await project.ask(read_file, path="b.txt")
    await project.call(move_file, source="b.txt", target="c.txt")
    await project.call(write_file, path="b.txt", content="its own doing\n")
    (project.root / "c.txt").unlink()
    assert "It was there when you read it" in await project.ask(edit_file, path="c.txt", old="x", new="y")


async def test_WALK_6_what_an_undo_removed_is_a_new_file_again(project: ToolProject) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+mine\n*** End Patch"
    again: tuple[tuple[Tool, dict[str, Any]], ...] = (
        (write_file, {"path": "a.txt", "content": "mine\n"}),
        (apply_patch, {"patch": patch}),
    )
    for tool, arguments in again:
        await project.call(tool, **arguments)
        project.undo.undo(project.locks)
        assert not (project.root / "a.txt").exists()
        await project.call(tool, **arguments)  # not refused: it is known who removed it
        assert project.bytes("a.txt") == b"mine\n"
        # What somebody else deletes afterwards is protected as before.
        (project.root / "a.txt").unlink()
        assert "deleted or moved since" in await project.ask(tool, **arguments)


async def test_WALK_6_a_file_removed_after_a_redo_is_not_the_undo_any_more(project: ToolProject) -> None:
    arguments: dict[str, Any] = {"path": "a.txt", "content": "mine\n"}
    await project.call(write_file, **arguments)
    project.undo.undo(project.locks)
    project.undo.redo(project.locks)
    (project.root / "a.txt").unlink()
    assert "deleted or moved since" in await project.ask(write_file, **arguments)


async def test_a_whole_write_after_an_undo_is_none_over_a_strangers_change(project: ToolProject) -> None:
    project.put("a.txt", "one\n")
    await project.ask(read_file, path="a.txt")
    for content in ("two\n", "three\n"):
        await project.call(write_file, path="a.txt", content=content)
    for _ in range(2):
        project.undo.undo(project.locks)
    said = await project.ask(write_file, path="a.txt", content="four\n")
    assert said.endswith(UNDONE.format("a.txt"))
    assert project.bytes("a.txt") == b"four\n"
    # What somebody else writes, before or after an undo, is protected as before.
    project.undo.undo(project.locks)
    project.put("a.txt", "theirs\n")
    assert "changed since you read it" in await project.ask(write_file, path="a.txt", content="five\n")
    assert project.bytes("a.txt") == b"theirs\n"


async def test_an_undo_makes_nothing_known_that_the_model_had_not_seen(project: ToolProject) -> None:
    project.put("a.txt", "".join(f"line {n}\n" for n in range(9)))
    await project.ask(read_file, path="a.txt", limit=2)
    await project.call(edit_file, path="a.txt", old="line 1\n", new="line one\n")
    project.undo.undo(project.locks)
    assert "seen only a part of" in await project.ask(write_file, path="a.txt", content="all new\n")
    assert "changed since you read it" not in await project.ask(write_file, path="a.txt", content="new\n")


@pytest.mark.parametrize("name", ["a.py", "new.py"])
async def test_what_is_wrapped_around_a_whole_file_is_not_written(project: ToolProject, name: str) -> None:
    project.put("a.py", "x = 1\n")
    await project.ask(read_file, path="a.py")
    for content, said in {
        "```python\nx = 2\n```\n": "the content stands between code fences (```)",
        "````\nx = 2\n````": "the content stands between code fences (````)",
        "     1\tx = 2\n     2\ty = 3\n": "every line of the content begins with the line number",
    }.items():
        assert (await project.ask(write_file, path=name, content=content)).startswith(f"refused: {said}")
        section = "\n".join(f"+{line}" for line in content.removesuffix("\n").split("\n"))
        text = f"*** Begin Patch\n*** Add File: {name}\n{section}\n*** End Patch"
        assert (await project.ask(apply_patch, patch=text)).startswith(f"refused: {said}")
    assert project.bytes("a.py") == b"x = 1\n"
    assert not (project.root / "new.py").exists()


async def test_what_may_be_meant_that_way_is_written(project: ToolProject) -> None:
    for name, content in {
        "a.md": "```sh\nls\n```\n",
        "README": "```sh\nls\n```\n",
        "doc.py": '"""\n```sh\nls\n```\n"""\n',
        "part.yaml": "```\nnot closed\n",
        "ids.tsv": "1\tred\n2\tgreen\n",
        "numbered.txt": "     1\tred\n     2\tgreen\n",
        "b.json": '     1\t\n     3\t""\n',
    }.items():
        await project.call(write_file, path=name, content=content)
        assert project.bytes(name).decode() == content
    await project.call(write_file, path="numbered.txt", content="     1\tred\n     2\tblue\n")
    assert project.bytes("numbered.txt") == b"     1\tred\n     2\tblue\n"


async def test_data_may_begin_to_count_and_lines_of_a_text_do_not_get_numbers(project: ToolProject) -> None:
    project.put("ids.tsv", "id\tname\n99999\tred\n")
    await project.ask(read_file, path="ids.tsv")
    await project.call(write_file, path="ids.tsv", content="100000\tred\n100001\tblue\n")
    assert project.bytes("ids.tsv") == b"100000\tred\n100001\tblue\n"
    project.put("a.txt", "red\nblue\n")
    await project.ask(read_file, path="a.txt")
    said = await project.ask(write_file, path="a.txt", content="     1\tred\n     2\tgreen\n")
    assert said.startswith("refused: every line of the content begins with the line number")
    await project.call(write_file, path="a.txt", content="     1\tone\n     2\ttwo\n")
    assert project.bytes("a.txt") == b"     1\tone\n     2\ttwo\n"


async def test_a_line_that_stands_for_code_is_not_written_whichever_way_the_file_is_replaced(
    project: ToolProject,
) -> None:
    path = project.put("a.py", "one = 1\ntwo = 2\nthree = 3\nfour = 4\nfive = 5\n")
    await project.ask(read_file, path="a.py")
    content = "one = 1\n# ... existing code ...\nfive = 6\n"
    section = "\n".join(f"+{line}" for line in content.removesuffix("\n").split("\n"))
    text = f"*** Begin Patch\n*** Add File: a.py\n{section}\n*** End Patch"
    assert "'# ... existing code ...'" in await project.ask(apply_patch, patch=text)
    changed = path.read_text().replace("one", "uno")  # which would be merged with the write
    path.write_text(changed)
    content = "one = 1\n# ... existing code ...\nfour = 4\nfive = 5\n"
    assert "'# ... existing code ...'" in await project.ask(write_file, path="a.py", content=content)
    assert path.read_text() == changed


async def test_a_folder_in_place_of_the_file_or_a_file_in_place_of_the_folder_is_refused(
    project: ToolProject,
) -> None:
    project.put("dir/file", "x")
    assert "is a folder" in await project.ask(write_file, path="dir", content="x")
    assert "refused: " in await project.ask(write_file, path="dir/file/below", content="x")


async def test_the_preview_of_a_new_file_is_what_is_written(project: ToolProject) -> None:
    shown = project.preview(write_file, "c1", path="a.txt", content="x\n")
    assert not (project.root / "a.txt").exists()
    assert (await project.call(write_file, call_id="c1", path="a.txt", content="x\n")).display == shown


async def test_a_file_that_appeared_after_the_preview_is_not_overwritten(project: ToolProject) -> None:
    project.preview(write_file, "c1", path="a.txt", content="x\n")
    project.put("a.txt", "")
    answer = await project.ask(write_file, call_id="c1", path="a.txt", content="x\n")
    assert "changed on disk after this change was shown" in answer


def test_tools_are_found_under_the_names_models_know() -> None:
    registry = ToolRegistry(TOOLS)
    found = {name: registry.get(name) for name in ("create_file", "str_replace", "view", "write_file")}
    assert {name: tool and tool.name for name, tool in found.items()} == {
        "create_file": "write_file",
        "str_replace": "edit_file",
        "view": "read_file",
        "write_file": "write_file",
    }


def test_risks_are_those_of_the_table() -> None:
    assert {tool.name: tool.risk for tool in TOOLS} == {
        "read_file": "low",
        "list_files": "low",
        "write_file": "medium",
        "edit_file": "medium",
        "apply_patch": "medium",
        "copy_file": "medium",
        "move_file": "high",
        "delete_file": "high",
    }


async def test_a_file_where_a_folder_was_meant_is_named(project: ToolProject) -> None:
    project.put("a.txt", "one\n")
    answer = await project.ask(write_file, path="a.txt/b.txt", content="x")
    assert answer == f"refused: a.txt in {project.root}/a.txt is a file; expected a folder"


async def test_a_name_with_a_slash_at_its_end_is_no_file(project: ToolProject) -> None:
    assert "given as a folder" in await project.ask(write_file, path="new/", content="x")
    assert not (project.root / "new").exists()


async def test_a_link_that_leads_nowhere_is_not_proposed_for_itself(project: ToolProject) -> None:
    (project.root / "broken").symlink_to("nowhere")
    said = await project.ask(edit_file, path="broken", old="a", new="b")
    assert said == "refused: broken → nowhere does not exist."
