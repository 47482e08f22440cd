"""Searches of git's history by content: their answer would tell whether a guess at a secret is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.safety.shell.git_history import paths_in_history
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


def test_ATTACK_9_secret_files_that_are_no_longer_tracked_stay_in_the_history(project: ShellProject) -> None:
    project.git("rm", "-q", "-r", "--cached", ".")

    assert not project.analyse("git log -S main --oneline").read_only


def test_ATTACK_8_1_an_index_that_does_not_tell_its_files_asks(project: ShellProject) -> None:
    (project.root / ".git" / "index").write_bytes(b"DIRC\0\0\0\x09")

    assert "can't be told" in project.reason("git log -S main --oneline")


def test_ATTACK_8_1_a_worktree_is_judged_by_its_own_index(project: ShellProject) -> None:
    project.git("worktree", "add", "-q", "--detach", "tree")

    assert not project.analyse("cd tree && git log -S TOP --oneline").read_only


@pytest.fixture
def deleted(tmp_path: Path) -> ShellProject:
    """A repository with a secret file that only its history still holds."""
    project = shell_project(tmp_path)
    project.git("init", "-q", "-b", "main")
    (project.root / ".gitignore").write_text(".env\ncerts\n*.pem\nid_*\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "first")
    (project.root / "config").mkdir()
    (project.root / "config" / ".env").write_text("PIN=TOPSECRET\n")
    project.git("add", "-A", "-f", "config")
    project.git("commit", "-q", "-m", "second")
    project.git("tag", "old")
    project.git("rm", "-q", "--cached", "config/.env")
    (project.root / "config" / ".env").unlink()
    (project.root / "config" / "app.py").write_text("PIN = 1\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "third")
    return project


@pytest.mark.parametrize(
    "command",
    [
        *(
            guess.replace("-- a", "-- config")
            for guess in GUESSES
            if " -C " not in guess and "-- src" not in guess
        ),
        "git log --oneline -S TOP --all",
        "git log --oneline -S TOP old",
        "git log --oneline -S TOP HEAD~1",
        "git log --oneline -S TOP -- config",
        "git log --oneline -S TOP config",
        "git diff HEAD~2 HEAD -S TOP --name-only",
        "git grep -l TOP HEAD~1",
        "git grep TOP HEAD~1",
        "git grep -c TOP old",
        "git grep -q TOP old -- .",
        "git grep TOP old -- config",
        "git grep -e TOP old",
        "git grep TOP old:config",
        "git grep -l TOP old HEAD",
        "git grep TOP 'old^{commit}'",
        "git grep TOP 'HEAD@{1}'",
        "git grep TOP HEAD^",
        "cd config && git grep TOP HEAD~1",
    ],
)
def test_ATTACK_9_secret_files_that_only_the_history_holds_are_not_searched_unasked(
    deleted: ShellProject, command: str
) -> None:
    assert not deleted.analyse(command).read_only


def test_ATTACK_9_a_secret_file_that_only_the_index_holds_is_not_searched_unasked(
    deleted: ShellProject,
) -> None:
    (deleted.root / "config" / ".env").write_text("PIN=TOPSECRET\n")
    deleted.git("add", "-f", "config/.env")
    (deleted.root / "config" / ".env").unlink()

    assert not deleted.analyse("git grep --cached -l TOP").read_only
    assert deleted.analyse("git grep --cached -l TOP -- src").read_only


@pytest.mark.parametrize(
    "command",
    [
        "git log -S main --oneline -- src",
        "git log -S main --oneline old -- src",
        "git grep main HEAD",
        "git grep -n main HEAD -- src",
        "git grep main old -- src",
        "git grep main HEAD~2",
        "git grep main HEAD:src",
        "git grep main src",
        "git grep main",
    ],
)
def test_searches_of_a_history_that_leave_deleted_secret_files_out_run(
    deleted: ShellProject, command: str
) -> None:
    assert deleted.analyse(command).read_only, deleted.reason(command)


def test_a_history_without_secret_files_is_searched_unasked(deleted: ShellProject, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    clean = shell_project(tmp_path / "second")
    clean.git("init", "-q")
    (clean.root / ".gitignore").write_text(".env*\ncerts\n*.pem\nid_*\n")
    clean.git("add", "src")
    clean.git("commit", "-q", "-m", "first")

    assert clean.analyse("git log -S main --oneline").read_only, clean.reason("git log -S main --oneline")
    assert paths_in_history(str(clean.root)) == {"src/main.py", "src/sub/deep.py"}
    assert paths_in_history(str(clean.root), limit_s=0) is None
