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
from tests.support.command_desk import desk as tool_desk
from tests.support.shell_desk import ShellDesk, make_desk


def commit(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "private words")
    return folder


@pytest.fixture
def desk(tmp_path: Path) -> ShellDesk:
    made = make_desk(tmp_path)
    commit(made.root)
    commit(tmp_path.resolve() / "other")
    (made.home / "key").write_text("KEY\n")
    return made


def other(desk: ShellDesk) -> Path:
    return desk.root.parent / "other"


def link(path: Path, target: str | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def point(desk: ShellDesk, text: str | Path) -> None:
    shutil.rmtree(desk.root / ".git")
    (desk.root / ".git").write_text(f"gitdir: {text}\n")


READS = ("git log", "git status", "git bisect log", "git worktree list -v", "git -C src log", "git ls-files")


def levels(desk: ShellDesk) -> set[str]:
    return {desk.analyse(command).level for command in READS}


CONTROL_FILES = (
    *("BISECT_LOG", "worktrees/w/gitdir", "worktrees/w/locked", "objects/info/alternates", "shallow"),
    *("rebase-merge/done", "rebase-merge/git-rebase-todo", "rebase-apply/next", "packed-refs", "MERGE_MSG"),
    *("info/sparse-checkout", "info/exclude", "info/attributes", "info/grafts", "refs/heads/x", "logs/HEAD"),
    *("FETCH_HEAD", "ORIG_HEAD", "config", "index", "sequencer/todo", "refs/heads/objects/ab/x"),
    *("modules/m/HEAD", "objects/pack/pack-1.idx", "objects/ab", "description", "anything/new"),
)


@pytest.mark.parametrize("name", CONTROL_FILES)
async def test_ATTACK_F2_a_link_in_the_git_folder_that_leads_out_asks(desk: ShellDesk, name: str) -> None:
    assert levels(desk) == {"core"}
    link(desk.root / ".git" / name, desk.home / "key")

    assert levels(desk) == {"ask"}
    with pytest.raises(ToolError, match=f"\\.git/{name}"):
        await _log(desk)


def test_ATTACK_F2_folders_that_are_links_and_secrets_of_the_workspace_count(desk: ShellDesk) -> None:
    link(desk.root / ".git" / "rebase-merge", desk.home)
    assert levels(desk) == {"ask"}
    link(desk.root / ".git" / "rebase-merge", "../.env")
    assert levels(desk) == {"ask"}


def test_ATTACK_F2_a_pipe_nobody_thought_of_asks(desk: ShellDesk) -> None:
    os.mkfifo(desk.root / ".git" / "BISECT_LOG")

    assert levels(desk) == {"ask"}


def test_ATTACK_F2_links_inside_the_git_folder_and_hooks_are_fine(desk: ShellDesk) -> None:
    link(desk.root / ".git" / "refs" / "heads" / "alias", "main")
    link(desk.root / ".git" / "hooks" / "pre-commit", desk.home / "key")

    assert levels(desk) == {"core"}


@pytest.mark.parametrize(
    "line", ["{other}/.git/objects", "../../../other/.git/objects", '"/x"', "# x\n{other}"]
)
async def test_ATTACK_F3_borrowed_objects_of_another_repository_ask(desk: ShellDesk, line: str) -> None:
    path = desk.root / ".git" / "objects" / "info" / "alternates"
    path.write_text(line.format(other=other(desk)) + "\n")

    assert levels(desk) == {"ask"}
    with pytest.raises(ToolError, match="objects of another repository"):
        await _log(desk)


def test_ATTACK_F3_borrowing_is_followed_through_the_workspace(desk: ShellDesk) -> None:
    inner = commit(desk.root / "inner")
    (desk.root / ".git/objects/info/alternates").write_text("../../inner/.git/objects\n")
    assert desk.analyse("git log").level == "core"
    (inner / ".git/objects/info/alternates").write_text(f"{other(desk)}/.git/objects\n")
    assert desk.analyse("git log").level == "ask"


async def test_ATTACK_F4_a_pointer_to_another_repository_asks(desk: ShellDesk) -> None:
    point(desk, other(desk) / ".git")

    assert levels(desk) == {"ask"}
    assert "does not know this folder; start buddy there" in desk.reason("git log")
    for trusted in (False, True):  # the other repository does not know this folder
        with pytest.raises(ToolError, match=r"lies outside it, at .*other/.git"):
            await _log(desk, trusted=trusted)


async def test_ATTACK_F4_a_linked_git_folder_asks(desk: ShellDesk) -> None:
    shutil.rmtree(desk.root / ".git")
    (desk.root / ".git").symlink_to(other(desk) / ".git")

    assert levels(desk) == {"ask"}
    with pytest.raises(ToolError, match="lies outside it"):
        await _log(desk, trusted=True)


@pytest.mark.parametrize("trusted", [False, True])
async def test_ATTACK_F4_a_common_folder_elsewhere_asks(desk: ShellDesk, trusted: bool) -> None:
    (desk.root / ".git" / "commondir").write_text(f"{other(desk)}/.git\n")

    assert levels(desk) == {"ask"}
    with pytest.raises(ToolError, match="lies outside it"):
        await _log(desk, trusted=trusted)


async def test_ATTACK_F4_a_worktree_of_somebody_else_asks_though_it_is_real(desk: ShellDesk) -> None:
    git(other(desk), "worktree", "add", "-q", "../theirs")
    point(desk, other(desk) / ".git" / "worktrees" / "theirs")

    assert levels(desk) == {"ask"}
    with pytest.raises(ToolError, match="lies outside it"):
        await _log(desk, trusted=True)


def test_ATTACK_F4_a_nested_repository_with_data_elsewhere_asks(desk: ShellDesk) -> None:
    (desk.root / "src" / ".git").write_text(f"gitdir: {other(desk)}/.git\n")

    assert desk.analyse("git -C src log").level == "ask"
    assert desk.analyse("cd src && git log").level == "ask"


async def test_ATTACK_F4_a_real_linked_worktree_works(desk: ShellDesk) -> None:
    shutil.rmtree(desk.root)
    git(other(desk), "worktree", "add", "-q", str(desk.root))

    assert desk.analyse("git log").level == "core"
    assert "private words" in await _log(desk)


async def test_ATTACK_F4_a_worktree_that_was_moved_without_git_asks(desk: ShellDesk) -> None:
    git(other(desk), "worktree", "add", "-q", "../moved")
    shutil.rmtree(desk.root)
    shutil.move(other(desk).parent / "moved", desk.root)

    assert levels(desk) == {"ask"}
    with pytest.raises(ToolError, match="does not know this folder"):
        await _log(desk)


async def test_ATTACK_F4_a_worktree_folder_of_its_own_with_the_data_of_another_asks(desk: ShellDesk) -> None:
    """The pointer leads to a worktree entry that names this folder, and the entry to a stranger's data."""
    entry = desk.root.parent / "archive" / "worktrees" / "here"
    entry.mkdir(parents=True)
    (entry / "gitdir").write_text(f"{desk.root}/.git\n")
    (entry / "commondir").write_text(f"{other(desk)}/.git\n")
    (entry / "HEAD").write_text("ref: refs/heads/main\n")
    point(desk, entry)

    assert levels(desk) == {"ask"}
    with pytest.raises(ToolError, match="does not know this folder"):
        await _log(desk)


def test_ATTACK_F4_a_worktree_of_the_main_tree_works(desk: ShellDesk) -> None:
    tree = desk.root.parent / "tree"
    git(desk.root, "worktree", "add", "-q", str(tree))
    boundary = Boundary(str(tree), str(tree), str(desk.home), main=str(desk.root))

    place = msgspec.structs.replace(desk.place, boundary=boundary)
    assert desk.analyser.analyse("git log", place).level == "core"


def test_ATTACK_F4_a_submodule_inside_the_workspace_works(desk: ShellDesk) -> None:
    git(desk.root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other(desk)), "sub")

    assert desk.analyse("git log").level in ("core", "ask")
    reason = desk.reason("git log")
    assert "lies outside" not in reason


NAMED = (
    *("blame.ignoreRevsFile", "fsck.skipList", "core.excludesFile", "core.attributesFile", "commit.template"),
    *("mailmap.file", "diff.orderFile", "format.signatureFile", "gpg.ssh.allowedSignersFile"),
    *("receive.fsck.skipList", "fetch.fsck.skipList"),
)


@pytest.mark.parametrize("key", NAMED)
async def test_ATTACK_F5_a_setting_that_names_a_file_outside_asks(desk: ShellDesk, key: str) -> None:
    for value in (str(desk.home / "key"), "~/key", "../home/key", ".env"):
        config(desk.root, (key, value))
        assert levels(desk) == {"ask"}, value
        with pytest.raises(ToolError, match=r"makes it read a file outside"):
            await _log(desk)
        git(desk.root, "config", "--unset", key)
    config(desk.root, (key, "ordinary-file"))
    assert levels(desk) == {"core"}
    link(desk.root / "ordinary-file", desk.home / "key")
    assert levels(desk) == {"ask"}


async def _log(desk: ShellDesk, *, trusted: bool = False) -> str:
    async with tool_desk(desk.root.parent, trusted=trusted) as here:
        arguments = git_log.decode("{}")
        return str((await git_log.run(here.context, arguments)).text)
