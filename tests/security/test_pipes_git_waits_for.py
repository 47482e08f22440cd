"""Pipes in the place of files that git reads: buddy's own git is not left waiting for them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from buddy.agent.tool import Survey, ToolError, ToolResult
from buddy.repl.branch import read_branch
from buddy.safety.paths import Boundary
from buddy.tools.git import git_diff, git_status
from buddy.tools.git_write import git_add
from buddy.workspace.checkpoints.checkpoints import Checkpoints, Mark, Taken
from buddy.workspace.git.survey import UNKNOWN, survey_restore
from buddy.workspace.git.waiting import find_waiting
from tests.security.test_git_hostile import git, repository
from tests.support.tool_project import CommandProject, tool_project
from tests.support.undo_logs import undo_log

MUCH_LESS_THAN_GITS_LIMIT_S = 12.0
"""Of git's own limits the shortest that shows here is 30 s: 10 s for each of three tries."""

IN_THE_TREE = (".gitignore", ".gitattributes", "sub/deep/.gitignore", "sub/deep/.gitattributes")
IN_GIT = (".git/info/exclude", ".git/config", ".git/info/attributes", ".git/refs/heads/main")


def pipe(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def tree(root: Path) -> Path:
    repository(root)
    (root / "sub/deep").mkdir(parents=True)
    (root / "sub/deep/c.txt").write_text("c\n")
    git(root, "add", "sub")
    git(root, "commit", "-qm", "third")
    (root / "sub/deep/c.txt").write_text("d\n")
    (root / "sub/deep/new.txt").write_text("n\n")
    return root


def checkpoints_of(root: Path) -> Checkpoints:
    session = root / ".buddyx/sessions/s"
    variables = {"PATH": os.environ["PATH"], "HOME": str(root.parent)}
    return Checkpoints(str(session / "checkpoints"), str(root), undo_log(str(session / "undo")), variables)


@pytest.mark.parametrize("name", [*IN_THE_TREE, *IN_GIT[:3]])
async def test_M2_a_checkpoint_is_left_out_and_says_why(tmp_path: Path, name: str) -> None:
    root = tree(tmp_path.resolve() / "work")
    pipe(root / name)
    checkpoints = checkpoints_of(root)
    begin = time.monotonic()
    told = await checkpoints.begin(1, "c1", "run_shell")
    assert isinstance(told, str)
    assert f"{name} is a named pipe" in told
    assert "too large" not in told
    assert await checkpoints.begin(1, "c2", "run_shell") == ""  # said once
    assert time.monotonic() - begin < MUCH_LESS_THAN_GITS_LIMIT_S
    (root / name).unlink()
    if name == ".git/config":
        (root / name).write_text("[core]\n\trepositoryformatversion = 0\n")
    mark = await checkpoints.begin(1, "c3", "run_shell")  # and it is over with the pipe
    assert isinstance(mark, Mark), mark
    (root / "a.txt").write_text("other\n")
    taken = await checkpoints.end(mark)
    assert isinstance(taken, Taken)
    assert taken.paths == ("a.txt",)


@pytest.mark.parametrize("name", [*IN_THE_TREE, "fresh/folder/.gitignore"])
async def test_M2_a_pipe_that_a_command_makes_is_named_after_it(tmp_path: Path, name: str) -> None:
    root = tree(tmp_path.resolve() / "work")
    checkpoints = checkpoints_of(root)
    mark = await checkpoints.begin(1, "c1", "run_shell")
    assert isinstance(mark, Mark), mark
    pipe(root / name)
    (root / Path(name).parent / "made.txt").write_text("made\n")
    begin = time.monotonic()
    told = await checkpoints.end(mark)
    assert isinstance(told, str)
    assert f"{name} is a named pipe" in told
    assert time.monotonic() - begin < MUCH_LESS_THAN_GITS_LIMIT_S
    (root / name).unlink()
    assert isinstance(await checkpoints.begin(1, "c2", "run_shell"), Mark)


def _status(project: CommandProject) -> Awaitable[ToolResult]:
    return project.call(git_status)


def _diff(project: CommandProject) -> Awaitable[ToolResult]:
    return project.call(git_diff)


def _add(project: CommandProject) -> Awaitable[ToolResult]:
    return project.call(git_add, paths=["sub/deep/new.txt"])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        *((_status, name) for name in (*IN_THE_TREE, ".buddyx/.gitignore", *IN_GIT)),
        *((call, name) for call in (_diff, _add) for name in (IN_THE_TREE[3], IN_GIT[3])),
    ],
)
async def test_M2_a_git_tool_ends_soon(
    tmp_path: Path, name: str, call: Callable[[CommandProject], Awaitable[ToolResult]]
) -> None:
    async with tool_project(tmp_path) as project:
        tree(project.root)
        pipe(project.root / name)
        begin = time.monotonic()
        try:
            await call(project)  # not every git reads every file
        except ToolError as error:
            assert name in str(error)  # noqa: PT017 - an error is one of two right ends
            assert "pipe" in str(error)  # noqa: PT017
        assert time.monotonic() - begin < MUCH_LESS_THAN_GITS_LIMIT_S


async def test_M2_git_status_names_a_pipe_deep_in_the_tree(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        tree(project.root)
        pipe(project.root / "sub/deep/.gitignore")
        with pytest.raises(ToolError, match=r"found a named pipe.*: sub/deep/\.gitignore; remove it"):
            await project.call(git_status)


async def test_M2_the_footer_does_not_wait(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        tree(project.root)
        (project.root / "a.txt").write_text("two\n")
        pipe(project.root / "sub/deep/.gitattributes")
        async with asyncio.timeout(MUCH_LESS_THAN_GITS_LIMIT_S):
            await read_branch(project.children, Boundary(str(project.root), str(project.root), str(tmp_path)))


def test_M2_a_survey_does_not_wait(tmp_path: Path) -> None:
    root = tree(tmp_path.resolve() / "work")
    (root / "sub/deep/c.txt").write_text("e\n")
    pipe(root / ".git/refs/heads/main")
    boundary = Boundary(str(root), str(root), str(tmp_path))
    begin = time.monotonic()
    survey = survey_restore(boundary, "main", ["sub"])
    assert isinstance(survey, Survey)
    assert survey.unknown == UNKNOWN
    assert time.monotonic() - begin < MUCH_LESS_THAN_GITS_LIMIT_S


@pytest.mark.parametrize(
    "name",
    [
        *IN_THE_TREE,
        *IN_GIT,
        *(
            ".gitmodules",
            ".mailmap",
            ".git/index",
            ".git/HEAD",
            ".git/packed-refs",
            ".git/logs/refs/heads/main",
        ),
        *(".git/objects/ab/cdef", ".git/objects/pack/pack-1.idx", ".git/objects/info/commit-graph"),
        *("lib/.git/config", ".git/modules/lib/config", ".git/worktrees/x/HEAD"),
    ],
)
def test_a_pipe_is_found_wherever_git_would_read_it(tmp_path: Path, name: str) -> None:
    root = repository(tmp_path.resolve() / "work")
    assert find_waiting(str(root)) == ""
    pipe(root / name)
    assert find_waiting(str(root)) == str(root / name)


@pytest.mark.parametrize("name", ["pipe", "sub/.env", "node_modules/x", ".git/my-editor", ".git/hooks/pipe"])
def test_other_pipes_are_nobodys_business(tmp_path: Path, name: str) -> None:
    root = repository(tmp_path.resolve() / "work")
    pipe(root / name)
    assert find_waiting(str(root)) == ""


def test_a_worktree_finds_the_pipe_of_the_shared_repository(tmp_path: Path) -> None:
    root = repository(tmp_path.resolve() / "work")
    git(root, "worktree", "add", "-q", str(root.parent / "other"))
    pipe(root / ".git/config")
    assert find_waiting(str(root.parent / "other")) == str(root / ".git/config")


def test_links_to_pipes_count_and_loops_end(tmp_path: Path) -> None:
    root = repository(tmp_path.resolve() / "work")
    os.mkfifo(tmp_path / "pipe")
    (root / "loop").symlink_to(".")
    (root / ".gitignore").symlink_to(".gitignore")
    (root / "sub").mkdir()
    (root / "sub/.gitignore").symlink_to("/dev/null")
    assert find_waiting(str(root)) == ""
    (root / ".mailmap").symlink_to(tmp_path / "pipe")
    assert find_waiting(str(root)) == str(root / ".mailmap")
