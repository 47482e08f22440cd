"""Notices to a task about changes in files it has read."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.tools.files.edit import edit_file
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.workspace.files.read_tracking import MAX_VIEWS, FileViews, changed_since
from tests.support.tool_project import ToolProject


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    return ToolProject(tmp_path)


def told(project: ToolProject, task_id: int = 1) -> tuple[str, ...]:
    views = project.services(task_id)[FileViews]
    assert isinstance(views, FileViews)
    return changed_since(views, lambda real: str(Path(real).relative_to(project.root)))


async def test_a_change_by_a_shell_command_is_told_once_and_then_known(project: ToolProject) -> None:
    path = project.put("a.py", "import b\nimport a\nx = 1\n")
    await project.call(read_file, path="a.py")
    assert told(project) == ()
    path.write_text("import a\nimport b\nx = 1\n")
    assert told(project) == ("a.py changed since you read it:", "+1     import a", "-2     import a")
    assert told(project) == ()
    await project.call(write_file, path="a.py", content="whole\n")
    assert project.bytes("a.py") == b"whole\n"


async def test_another_tasks_write_is_told_and_the_own_one_is_not(project: ToolProject) -> None:
    project.put("a.py", "x = 1\n")
    await project.call(read_file, path="a.py", task_id=1)
    await project.call(edit_file, path="a.py", old="1", new="2", task_id=2)
    assert told(project, 1) == ("a.py changed since you read it:", "-1     x = 1", "+1     x = 2")
    assert told(project, 2) == ()


async def test_a_touched_file_is_no_change_and_a_deleted_one_is(project: ToolProject) -> None:
    path = project.put("a.py", "x\n")
    await project.call(read_file, path="a.py")
    path.touch()
    assert told(project) == ()
    path.unlink()
    assert told(project) == ("a.py: deleted",)
    assert told(project) == ()


async def test_at_most_twenty_lines_and_what_was_not_told_does_not_count_as_seen(
    project: ToolProject,
) -> None:
    paths = [project.put(f"{n}.txt", "old\n" * 30) for n in range(4)]
    for path in paths:
        await project.call(read_file, path=path.name)
    for path in paths:
        path.write_text("new\n" * 30)
    lines = told(project)
    assert len(lines) == 20
    assert lines[0] == "0.txt changed since you read it:"
    assert "only a part" in await project.ask(write_file, path="0.txt", content="x")


async def test_files_that_turn_into_something_else_are_told(project: ToolProject) -> None:
    path = project.put("a.txt", "x\n")
    await project.call(read_file, path="a.txt")
    path.unlink()
    path.mkdir()
    assert told(project) == (
        "a.txt: can no longer be read (a.txt is a folder; only regular files can be read or written)",
    )


async def test_a_copied_conversation_knows_what_its_origin_knew(project: ToolProject) -> None:
    project.put("a.txt", "x\n")
    await project.call(read_file, path="a.txt")
    project.views[2] = project.views[1].copy()
    await project.call(write_file, path="a.txt", content="y\n", task_id=2)
    assert told(project, 1) == ("a.txt changed since you read it:", "-1     x", "+1     y")


async def test_the_number_of_files_kept_in_mind_is_bounded(project: ToolProject) -> None:
    for number in range(MAX_VIEWS + 5):
        project.put(f"f{number}", "x\n")
        await project.call(read_file, path=f"f{number}")
    assert len(project.views[1].paths()) == MAX_VIEWS
