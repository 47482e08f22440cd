"""Repositories whose own files lead git outside: links, pointers, borrowed objects, named files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from buddy.agent.tool import ToolError
from buddy.safety.paths import Boundary
from buddy.tools.git import git_log
from tests.security.test_git_hostile import config, git
from tests.support.shell_project import ShellProject, shell_project
from tests.support.tool_project import tool_project


def commit(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "private words")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    made = shell_project(tmp_path)
    commit(made.root)
    commit(tmp_path.resolve() / "other")
    (made.home / "key").write_text("KEY\n")
    return made


def other(project: ShellProject) -> Path:
    return project.root.parent / "other"


def link(path: Path, target: str | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def point(project: ShellProject, text: str | Path) -> None:
    shutil.rmtree(project.root / ".git")
    (project.root / ".git").write_text(f"gitdir: {text}\n")


READS = ("git log", "git status", "git bisect log", "git worktree list -v", "git -C src log", "git ls-files")


def levels(project: ShellProject) -> set[str]:
    return {project.analyse(command).level for command in READS}


CONTROL_FILES = (
    *("BISECT_LOG", "worktrees/w/gitdir", "worktrees/w/locked", "objects/info/alternates", "shallow"),
    *("rebase-merge/done", "rebase-merge/git-rebase-todo", "rebase-apply/next", "packed-refs", "MERGE_MSG"),
    *("info/sparse-checkout", "info/exclude", "info/attributes", "info/grafts", "refs/heads/x", "logs/HEAD"),
    *("FETCH_HEAD", "ORIG_HEAD", "config", "index", "sequencer/todo", "refs/heads/objects/ab/x"),
    *("modules/m/HEAD", "objects/pack/pack-1.idx", "objects/ab", "description", "anything/new"),
)


@pytest.mark.parametrize("name", CONTROL_FILES)
async def test_ATTACK_F2_a_link_in_the_git_folder_that_leads_out_asks(
    project: ShellProject, name: str
) -> None:
    assert levels(project) == {"core"}
    link(project.root / ".git" / name, project.home / "key")

    assert levels(project) == {"ask"}
    with pytest.raises(ToolError, match=f"\\.git/{name}"):
        await _log(project)


def test_ATTACK_F2_folders_that_are_links_and_secrets_of_the_workspace_count(project: ShellProject) -> None:
    link(project.root / ".git" / "rebase-merge", project.home)
    assert levels(project) == {"ask"}
    link(project.root / ".git" / "rebase-merge", "../.env")
    assert levels(project) == {"ask"}


def test_ATTACK_F2_a_pipe_nobody_thought_of_asks(project: ShellProject) -> None:
    os.mkfifo(project.root / ".git" / "BISECT_LOG")

    assert levels(project) == {"ask"}


def test_ATTACK_F2_links_inside_the_git_folder_and_hooks_are_fine(project: ShellProject) -> None:
    link(project.root / ".git" / "refs" / "heads" / "alias", "main")
    link(project.root / ".git" / "hooks" / "pre-commit", project.home / "key")

    assert levels(project) == {"core"}


@pytest.mark.parametrize(
    "line", ["{other}/.git/objects", "../../../other/.git/objects", '"/x"', "# x\n{other}"]
)
async def test_ATTACK_F3_borrowed_objects_of_another_repository_ask(project: ShellProject, line: str) -> None:
    path = project.root / ".git" / "objects" / "info" / "alternates"
    path.write_text(line.format(other=other(project)) + "\n")

    assert levels(project) == {"ask"}
    with pytest.raises(ToolError, match="objects of another repository"):
        await _log(project)


def test_ATTACK_F3_borrowing_is_followed_through_the_workspace(project: ShellProject) -> None:
    inner = commit(project.root / "inner")
    (project.root / ".git/objects/info/alternates").write_text("../../inner/.git/objects\n")
    assert project.analyse("git log").level == "core"
    (inner / ".git/objects/info/alternates").write_text(f"{other(project)}/.git/objects\n")
    assert project.analyse("git log").level == "ask"


async def test_ATTACK_F4_a_pointer_to_another_repository_asks(project: ShellProject) -> None:
    point(project, other(project) / ".git")

    assert levels(project) == {"ask"}
    assert "does not know this folder; start buddy there" in project.reason("git log")
    for trusted in (False, True):  # the other repository does not know this folder
        with pytest.raises(ToolError, match=r"lies outside it, at .*other/.git"):
            await _log(project, trusted=trusted)


async def test_ATTACK_F4_a_linked_git_folder_asks(project: ShellProject) -> None:
    shutil.rmtree(project.root / ".git")
    (project.root / ".git").symlink_to(other(project) / ".git")

    assert levels(project) == {"ask"}
    with pytest.raises(ToolError, match="lies outside it"):
        await _log(project, trusted=True)


@pytest.mark.parametrize("trusted", [False, True])
async def test_ATTACK_F4_a_common_folder_elsewhere_asks(project: ShellProject, trusted: bool) -> None:
    (project.root / ".git" / "commondir").write_text(f"{other(project)}/.git\n")

    assert levels(project) == {"ask"}
    with pytest.raises(ToolError, match="lies outside it"):
        await _log(project, trusted=trusted)


async def test_ATTACK_F4_a_worktree_of_somebody_else_asks_though_it_is_real(project: ShellProject) -> None:
    git(other(project), "worktree", "add", "-q", "../theirs")
    point(project, other(project) / ".git" / "worktrees" / "theirs")

    assert levels(project) == {"ask"}
    with pytest.raises(ToolError, match="lies outside it"):
        await _log(project, trusted=True)


def test_ATTACK_F4_a_nested_repository_with_data_elsewhere_asks(project: ShellProject) -> None:
    (project.root / "src" / ".git").write_text(f"gitdir: {other(project)}/.git\n")

    assert project.analyse("git -C src log").level == "ask"
    assert project.analyse("cd src && git log").level == "ask"


async def test_ATTACK_F4_a_real_linked_worktree_works(project: ShellProject) -> None:
    shutil.rmtree(project.root)
    git(other(project), "worktree", "add", "-q", str(project.root))

    assert project.analyse("git log").level == "core"
    assert "private words" in await _log(project)


async def test_ATTACK_F4_a_worktree_that_was_moved_without_git_asks(project: ShellProject) -> None:
    git(other(project), "worktree", "add", "-q", "../moved")
    shutil.rmtree(project.root)
    shutil.move(other(project).parent / "moved", project.root)

    assert levels(project) == {"ask"}
    with pytest.raises(ToolError, match="does not know this folder"):
        await _log(project)


async def test_ATTACK_F4_a_worktree_folder_of_its_own_with_the_data_of_another_asks(
    project: ShellProject,
) -> None:
    """The pointer leads to a worktree entry that names this folder, and the entry to a stranger's data."""
    entry = project.root.parent / "archive" / "worktrees" / "here"
    entry.mkdir(parents=True)
    (entry / "gitdir").write_text(f"{project.root}/.git\n")
    (entry / "commondir").write_text(f"{other(project)}/.git\n")
    (entry / "HEAD").write_text("ref: refs/heads/main\n")
    point(project, entry)

    assert levels(project) == {"ask"}
    with pytest.raises(ToolError, match="does not know this folder"):
        await _log(project)


def test_ATTACK_F4_a_worktree_of_the_main_tree_works(project: ShellProject) -> None:
    tree = project.root.parent / "tree"
    git(project.root, "worktree", "add", "-q", str(tree))
    boundary = Boundary(str(tree), str(tree), str(project.home), main=str(project.root))

    place = msgspec.structs.replace(project.place, boundary=boundary)
    assert project.analyser.analyse("git log", place).level == "core"


def test_ATTACK_F4_a_submodule_inside_the_workspace_works(project: ShellProject) -> None:
    git(
        project.root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other(project)), "sub"
    )

    assert project.analyse("git log").level in ("core", "ask")
    reason = project.reason("git log")
    assert "lies outside" not in reason


NAMED = (
    *("blame.ignoreRevsFile", "fsck.skipList", "core.excludesFile", "core.attributesFile", "commit.template"),
    *("mailmap.file", "diff.orderFile", "format.signatureFile", "gpg.ssh.allowedSignersFile"),
    *("receive.fsck.skipList", "fetch.fsck.skipList"),
)


@pytest.mark.parametrize("key", NAMED)
async def test_ATTACK_F5_a_setting_that_names_a_file_outside_asks(project: ShellProject, key: str) -> None:
    for value in (str(project.home / "key"), "~/key", "../home/key", ".env"):
        config(project.root, (key, value))
        assert levels(project) == {"ask"}, value
        with pytest.raises(ToolError, match=r"makes it read a file outside"):
            await _log(project)
        git(project.root, "config", "--unset", key)
    config(project.root, (key, "ordinary-file"))
    assert levels(project) == {"core"}
    link(project.root / "ordinary-file", project.home / "key")
    assert levels(project) == {"ask"}


async def _log(project: ShellProject, *, trusted: bool = False) -> str:
    async with tool_project(project.root.parent, trusted=trusted) as tools:
        arguments = git_log.decode("{}")
        return str((await git_log.run(tools.context(), arguments)).text)
