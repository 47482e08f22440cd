"""Ignore files mean what git says they mean; checked against `git check-ignore` itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buddy.workspace.search.ignore import IgnoreTree, parse_rule

GIT_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
}
PATHS = (
    "a",
    "b",
    "ab",
    "abc",
    "a.b",
    "a/b",
    "a/ab",
    "a/b/c",
    "a/b/a",
    "b/a/b",
    "b/ab/a.b",
    "ab/a",
    "ab/c/b",
    "é",
    "a b",
    "b ",
    "#a",
    "!a",
    "c/-]",
    "c/é/a",
    "c/a*",
    "A",
)


def git_says(root: Path, paths: list[str]) -> set[str]:
    done = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=root,
        input="\0".join(paths).encode(),
        capture_output=True,
        env=GIT_ENV,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}


def buddy_says(root: Path, paths: list[str]) -> set[str]:
    tree = IgnoreTree(str(root))
    return {path for path in paths if tree.is_ignored(f"{root}/{path}", (root / path).is_dir())}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository").resolve()
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True, env=GIT_ENV)
    for name in sorted(PATHS, key=len, reverse=True):
        path = root / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    return root


def everything(root: Path) -> list[str]:
    found = [str(path.relative_to(root)) for path in root.rglob("*")]
    return sorted(path for path in found if not path.startswith(".git/") and path != ".git")


PIECES = st.sampled_from(
    (
        *(
            "a",
            "b",
            "c",
            "ab",
            "a.b",
            "*",
            "**",
            "***",
            "?",
            "/",
            "/",
            "[ab]",
            "[!a]",
            "[^b]",
            "[a-c]",
            "[]-]",
        ),
        *("[[:alpha:]]", "[a", "\\a", "\\", "\\*", "\\ ", " ", "#", "!", "é", "-", ".", "[é]", "[\\]]"),
        *("[z-a]", "[[:bad:]]", "A", "\t"),
    )
)
LINES = st.lists(PIECES, min_size=1, max_size=6).map("".join)
PATTERNS = st.builds(lambda bang, line: bang + line, st.sampled_from(["", "", "", "!", "/"]), LINES)


@settings(
    max_examples=int(os.environ.get("BUDDY_EXAMPLES", "120")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    top=st.lists(PATTERNS, max_size=4),
    deep=st.lists(PATTERNS, max_size=3),
    excluded=st.lists(PATTERNS, max_size=2),
)
def test_every_pattern_ignores_what_git_ignores(
    repository: Path, top: list[str], deep: list[str], excluded: list[str]
) -> None:
    (repository / ".gitignore").write_text("\n".join(top))
    (repository / "a" / ".gitignore").write_text("\r\n".join([*deep, ""]))
    (repository / ".git" / "info" / "exclude").write_text("\n".join([*excluded, ""]))
    paths = everything(repository)

    assert buddy_says(repository, paths) == git_says(repository, paths)


def test_blank_lines_and_comments_are_no_patterns() -> None:
    assert [parse_rule(line) for line in (b"", b"   ", b"# words", b"/", b"!")] == [None] * 5


def test_own_rules_win_over_gitignore_and_bring_files_back(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / ".gitignore").write_text("*.log\n")
    (root / ".buddyignore").write_text("!keep.log\nsecret/\n")
    tree = IgnoreTree(str(root))

    told = [
        tree.is_ignored(f"{root}/{name}", name == "secret")
        for name in ("a.log", "keep.log", "secret", "secret/x")
    ]

    assert told == [True, False, True, True]


def test_gits_and_buddys_own_folders_are_ignored_everywhere(tmp_path: Path) -> None:
    root = str(tmp_path.resolve())
    tree = IgnoreTree(root)

    assert [tree.is_ignored(f"{root}/{name}", True) for name in (".git", "a/.git/x", ".buddyx", "git")] == [
        True,
        True,
        True,
        False,
    ]


def test_rules_of_folders_above_the_workspace_count_up_to_the_top_of_the_repository(tmp_path: Path) -> None:
    top = tmp_path.resolve() / "outer" / "repository"
    (top / "part").mkdir(parents=True)
    (top / ".git").mkdir()
    (top.parent / ".gitignore").write_text("*.outside\n")
    (top / ".gitignore").write_text("*.inside\n")
    tree = IgnoreTree(str(top / "part"))

    assert tree.is_ignored(str(top / "part" / "a.inside"), False)
    assert not tree.is_ignored(str(top / "part" / "a.outside"), False)


def test_a_repository_inside_has_its_own_rules_but_buddyignore_reaches_in(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "vendor" / ".git" / "info").mkdir(parents=True)
    (root / "vendor" / ".git" / "info" / "exclude").write_text("own\n")
    (root / ".gitignore").write_text("outer\n")
    (root / ".buddyignore").write_text("mine\n")
    tree = IgnoreTree(str(root))

    told = [
        name for name in ("outer", "mine", "own", "else") if tree.is_ignored(f"{root}/vendor/{name}", False)
    ]

    assert told == ["mine", "own"]


def test_the_exclude_file_of_a_worktree_is_that_of_its_repository(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    run = {"check": True, "env": GIT_ENV, "capture_output": True}
    (root / "main").mkdir()
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "-q"], cwd=root / "main", **run)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], cwd=root / "main", **run)
    subprocess.run([*git, "worktree", "add", "-q", "../tree"], cwd=root / "main", **run)
    (root / "main" / ".git" / "info" / "exclude").write_text("left-out\n")

    assert (
        buddy_says(root / "tree", ["left-out", "kept"])
        == {"left-out"}
        == git_says(root / "tree", ["left-out"])
    )


@pytest.mark.parametrize("pointer", [b"gitdir: ../kept\0junk\n", b"gitdir: ../kept\n", b"gitdir: ../kept/"])
def test_where_a_pointer_leads_is_read_as_git_reads_it(tmp_path: Path, pointer: bytes) -> None:
    root = tmp_path.resolve()
    (root / "work").mkdir()
    subprocess.run(["git", "init", "-q", "work"], cwd=root, check=True, env=GIT_ENV, capture_output=True)
    os.rename(root / "work" / ".git", root / "kept")
    (root / "work" / ".git").write_bytes(pointer)
    (root / "kept" / "info" / "exclude").write_text("left-out\n")

    assert (
        buddy_says(root / "work", ["left-out", "kept"])
        == {"left-out"}
        == git_says(root / "work", ["left-out"])
    )


def test_an_ignore_file_that_is_a_link_a_pipe_a_folder_or_huge_does_no_harm(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "elsewhere").write_text("*\n")
    (root / ".gitignore").symlink_to("elsewhere")
    os.mkfifo(root / ".buddyignore")
    (root / "sub").mkdir()
    (root / "sub" / ".gitignore").write_bytes(b"x" * 3_000_000)
    (root / "sub" / "in" / ".gitignore").mkdir(parents=True)
    (root / "sub" / "in" / ".buddyignore").symlink_to("..")

    assert not IgnoreTree(str(root)).is_ignored(f"{root}/sub/a", False)
    assert not IgnoreTree(str(root)).is_ignored(f"{root}/sub/in/a", False)
