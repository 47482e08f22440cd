"""Searches of git's history by content: their answer would tell whether a guess at a secret is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shell_project import ShellProject, shell_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    """A repository whose history holds a secret file beside ordinary ones."""
    project = shell_project(tmp_path)
    project.git("init", "-q")
    project.git("add", "-A", "-f")
    project.git("commit", "-q", "-m", "first")
    return project


GUESSES = (
    "git log --oneline -S TOP",
    "git log --stat -STOP",
    "git log --oneline --pickaxe-regex -S 'TOP[A-S]'",
    "git log --pickaxe-all --name-only -S TOP",
    "git diff HEAD --name-only --pickaxe-regex -S 'TO[A-S]'",
    "git diff HEAD --quiet -S TOP",
    "git show --name-only -S TOP",
    "git whatchanged -S TOP",
    "git stash list -S TOP",
    "git stash show --name-only -S TOP",
    "git reflog -S TOP",
    "git diff-tree -r -S TOP HEAD",
    "git diff-index -S TOP HEAD --name-only",
    "git diff-files -S TOP --name-only",
    "git range-diff --stat -S TOP HEAD HEAD HEAD",
    "git -C src log --oneline -S TOP",
    "cd src && git log --oneline -S TOP",
    "git log --oneline -S TOP -- .",
    "git log --oneline -S TOP -- '*'",
    "git log --oneline -S TOP -- ':!src'",
    "git log --oneline -S TOP -- ':/'",
    "git log --oneline -S TOP -- '.e[n]v'",
    "git log --oneline -S TOP -- src ..",
    "git log --oneline -S TOP HEAD",
    "git log --oneline --follow -S TOP -- a",
    "git log --oneline --full-diff -S TOP -- a",
    "git log --oneline -G TOP --text",
    "git log --oneline -GTOP -a",
)


@pytest.mark.parametrize("command", GUESSES)
def test_ATTACK_8_1_the_history_of_secret_files_is_not_searched_unasked(
    project: ShellProject, command: str
) -> None:
    assert not project.analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "git log -S main --oneline -- src",
        "git log -S main --oneline HEAD -- src a",
        "git log -S main --oneline src/main.py",
        "git diff HEAD -S main --name-only -- src",
        "git log -G main --oneline",  # what diffs don't show is not searched
        "git blame a",
    ],
)
def test_searches_that_leave_secret_files_out_run(project: ShellProject, command: str) -> None:
    assert project.analyse(command).read_only, project.reason(command)


def test_ATTACK_8_1_G_asks_where_attributes_switch_the_diffs_of_secret_files_on(
    project: ShellProject,
) -> None:
    (project.root / ".gitattributes").write_text(".env diff\n")

    assert not project.analyse("git log -G TOP --oneline").read_only


def test_without_secret_files_the_history_is_searched(project: ShellProject) -> None:
    project.git("rm", "-q", "--cached", ".env")

    assert project.analyse("git log -S main --oneline").read_only


def test_ATTACK_8_1_an_index_that_does_not_tell_its_files_asks(project: ShellProject) -> None:
    (project.root / ".git" / "index").write_bytes(b"DIRC\0\0\0\x09")

    assert "can't be told" in project.reason("git log -S main --oneline")


def test_ATTACK_8_1_a_worktree_is_judged_by_its_own_index(project: ShellProject) -> None:
    project.git("worktree", "add", "-q", "--detach", "tree")

    assert not project.analyse("cd tree && git log -S TOP --oneline").read_only
