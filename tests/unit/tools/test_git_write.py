"""Commits of several tasks in one working tree: each holds its own task's files, and nobody else's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buddy.agent.tool import Tool, ToolError, ToolResult
from buddy.tools.files.write import write_file
from buddy.tools.git_write import git_add, git_commit
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.files.read_tracking import FileViews
from buddy.workspace.undo.log import UndoLog
from tests.security.test_git_hostile import config, git, program
from tests.support.tool_project import CommandProject, tool_project
from tests.support.undo_logs import undo_log


def _repository(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    config(folder, ("user.name", "A"), ("user.email", "a@example.org"))
    (folder / "base.txt").write_text("base\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "base")


class _Tasks:
    """Calls of several tasks of one session."""

    def __init__(self, project: CommandProject) -> None:
        self._project = project
        log = undo_log(str(project.root.parent / "undo"))
        self._services = {
            **project.context().services, UndoLog: log, FileLocks: FileLocks(), Approved: Approved(),
        }  # fmt: skip
        self._views: dict[int, FileViews] = {}

    async def call(self, task_id: int, tool: Tool, **arguments: Any) -> ToolResult:
        views = self._views.setdefault(task_id, FileViews())
        services = {**self._services, FileViews: views}
        context = msgspec.structs.replace(self._project.context(), task_id=task_id, services=services)
        return await tool.run(context, tool.decode(msgspec.json.encode(arguments).decode()))

    async def write(self, task_id: int, name: str, content: str) -> None:
        await self.call(task_id, write_file, path=name, content=content)


def _files(folder: Path, commit: str = "HEAD") -> list[str]:
    return git(folder, "show", "--format=", "--name-only", commit).split()


async def test_RU_P4_6_three_tasks_that_write_add_and_commit_never_mix_their_files(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        _repository(project.root)
        (project.root / "mine.txt").write_text("the person's\n")
        git(project.root, "add", "mine.txt")
        tasks = _Tasks(project)

        async def work(task_id: int) -> None:
            for turn in range(4):
                name = f"t{task_id}-{turn}.txt"
                await tasks.write(task_id, name, f"{name}\n")
                await tasks.call(task_id, git_add, paths=[name])
                await asyncio.sleep(0)
                await tasks.call(task_id, git_commit, message=f"task {task_id}")

        await asyncio.gather(*(work(task_id) for task_id in (1, 2, 3)))
        commits = git(project.root, "log", "--format=%H %s", "HEAD~12..HEAD").splitlines()
        assert len(commits) == 12
        for line in commits:
            commit, _, number = line.partition(" task ")
            (name,) = _files(project.root, commit)
            assert name.startswith(f"t{number}-")
        assert git(project.root, "status", "--porcelain") == "A  mine.txt\n"
        assert list((project.root / ".git").glob("buddy-*")) == []


async def test_RU_P4_6_tasks_that_add_the_whole_folder_do_not_mix_either(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        _repository(project.root)
        tasks = _Tasks(project)
        for task_id in (1, 2, 3):
            await tasks.write(task_id, f"t{task_id}.txt", "x\n")
        (project.root / "built.txt").write_text("by a command\n")
        added = await tasks.call(1, git_add, paths=["."])
        assert "left out, as another task changed it: t2.txt (task 2), t3.txt (task 3)" in added.text
        await tasks.call(1, git_commit, message="one")
        assert _files(project.root) == ["built.txt", "t1.txt"]
        await tasks.call(2, git_add, paths=["."])
        await tasks.call(2, git_commit, message="two")
        assert _files(project.root) == ["t2.txt"]
        await tasks.call(3, git_add, paths=["t3.txt"])
        await tasks.call(3, git_commit, message="three", paths=["."])
        assert _files(project.root) == ["t3.txt"]


async def test_RU_P4_6_a_named_folder_leaves_out_what_others_staged(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        _repository(project.root)
        tasks = _Tasks(project)
        await tasks.write(1, "one.txt", "1\n")
        await tasks.write(2, "two.txt", "2\n")
        await tasks.call(1, git_add, paths=["one.txt"])
        await tasks.call(2, git_add, paths=["two.txt"])
        done = await tasks.call(1, git_commit, message="all of it", paths=["."])
        assert _files(project.root) == ["one.txt"]
        assert "two.txt (task 2)" in done.text
        assert git(project.root, "status", "--porcelain") == "A  two.txt\n"


async def test_RU_P4_6_hunks_of_one_file_staged_by_two_tasks(tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(20)]
    async with tool_project(tmp_path) as project:
        _repository(project.root)
        file = project.root / "both.txt"
        file.write_text("".join(lines))
        git(project.root, "add", ".")
        git(project.root, "commit", "-qm", "both")
        tasks = _Tasks(project)
        file.write_text("".join(["first\n", *lines[1:]]))
        await tasks.call(1, git_add, paths=["both.txt"])
        file.write_text("".join(["first\n", *lines[1:-1], "last\n"]))
        await tasks.call(2, git_add, paths=["both.txt"])
        done = await tasks.call(1, git_commit, message="the first line")
        assert "also staged by another task: both.txt (task 2)" in done.text
        assert git(project.root, "show", "HEAD:both.txt") == "".join(["first\n", *lines[1:]])
        await tasks.call(2, git_commit, message="the last line")
        assert git(project.root, "show", "--format=", "-U0", "HEAD").endswith("-line 19\n+last\n")
        assert git(project.root, "status", "--porcelain") == ""


async def test_RU_P4_6_an_older_version_never_takes_back_a_newer_commit(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        _repository(project.root)
        tasks = _Tasks(project)
        file = project.root / "base.txt"
        file.write_text("base\nof task 1\n")
        await tasks.call(1, git_add, paths=["base.txt"])
        file.write_text("base\nof task 1\nof task 2\n")
        await tasks.call(2, git_add, paths=["base.txt"])
        await tasks.call(2, git_commit, message="two")
        with pytest.raises(ToolError, match="nothing"):
            await tasks.call(1, git_commit, message="one")
        assert git(project.root, "show", "HEAD:base.txt") == "base\nof task 1\nof task 2\n"


async def test_RU_P4_6_a_task_that_staged_nothing_commits_what_the_person_staged(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        _repository(project.root)
        tasks = _Tasks(project)
        (project.root / "mine.txt").write_text("the person's\n")
        git(project.root, "add", "mine.txt")
        await tasks.write(2, "two.txt", "2\n")
        await tasks.call(2, git_add, paths=["two.txt"])
        done = await tasks.call(1, git_commit, message="as staged")
        assert _files(project.root) == ["mine.txt"]
        assert "still staged, not in this commit: two.txt (task 2)" in done.text
        with pytest.raises(ToolError, match=r"this task has staged nothing; two\.txt \(task 2\)"):
            await tasks.call(1, git_commit, message="again")


async def test_RU_P4_6_what_the_person_unstaged_is_not_committed(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        _repository(project.root)
        tasks = _Tasks(project)
        for name in ("a.txt", "b.txt"):
            await tasks.write(1, name, "x\n")
        await tasks.call(1, git_add, paths=["a.txt", "b.txt"])
        git(project.root, "rm", "-q", "--cached", "b.txt")
        await tasks.call(1, git_commit, message="a alone")
        assert _files(project.root) == ["a.txt"]
        assert git(project.root, "status", "--porcelain") == "?? b.txt\n"


async def test_RU_P4_6_deletions_moves_and_odd_names_are_committed_as_staged(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        _repository(project.root)
        tasks = _Tasks(project)
        (project.root / "mine.txt").write_text("the person's\n")
        git(project.root, "add", "mine.txt")
        (project.root / "base.txt").unlink()
        (project.root / "base.txt").mkdir()
        odd = 'base.txt/-n "ä"\t*.txt'
        (project.root / odd).write_text("odd\n")
        await tasks.call(1, git_add, paths=["base.txt"])
        await tasks.call(1, git_commit, message="a folder instead")
        assert git(project.root, "ls-tree", "-r", "-z", "--name-only", "HEAD") == f"{odd}\0"
        assert git(project.root, "status", "--porcelain") == "A  mine.txt\n"


@pytest.mark.parametrize("born", [True, False])
async def test_RU_P4_6_the_first_commit_of_a_repository_does_not_mix(tmp_path: Path, born: bool) -> None:
    async with tool_project(tmp_path) as project:
        if born:
            _repository(project.root)
        else:
            git(project.root, "init", "-q", "-b", "main")
            config(project.root, ("user.name", "A"), ("user.email", "a@example.org"))
        tasks = _Tasks(project)
        for task_id in (1, 2):
            await tasks.write(task_id, f"t{task_id}.txt", "x\n")
            await tasks.call(task_id, git_add, paths=[f"t{task_id}.txt"])
        await tasks.call(2, git_commit, message="two")
        assert _files(project.root) == ["t2.txt"]
        assert git(project.root, "status", "--porcelain") == "A  t1.txt\n"


async def test_RU_P4_6_what_a_hook_adds_to_a_commit_is_not_taken_back_in_the_index(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        _repository(project.root)
        hook = program(project.root / ".git" / "hooks", "pre-commit")
        hook.write_text("#!/bin/sh\necho formatted > a.txt\necho made > made.txt\ngit add a.txt made.txt\n")
        tasks = _Tasks(project)
        (project.root / "mine.txt").write_text("the person's\n")
        git(project.root, "add", "mine.txt")
        await tasks.write(1, "a.txt", "x\n")
        await tasks.call(1, git_add, paths=["a.txt"])
        await tasks.call(1, git_commit, message="a")
        assert _files(project.root) == ["a.txt", "made.txt"]
        assert git(project.root, "status", "--porcelain") == "A  mine.txt\n"


async def test_RU_P4_6_a_merge_is_committed_whole(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        _repository(project.root)
        git(project.root, "checkout", "-qb", "topic")
        (project.root / "topic.txt").write_text("t\n")
        git(project.root, "add", ".")
        git(project.root, "commit", "-qm", "topic")
        git(project.root, "checkout", "-q", "main")
        git(project.root, "merge", "-q", "--no-ff", "--no-commit", "topic")
        tasks = _Tasks(project)
        await tasks.write(1, "a.txt", "x\n")
        await tasks.call(1, git_add, paths=["a.txt"])
        await tasks.call(1, git_commit, message="merge")
        assert git(project.root, "log", "-1", "--format=%P").count(" ") == 1
        assert git(project.root, "status", "--porcelain") == ""
