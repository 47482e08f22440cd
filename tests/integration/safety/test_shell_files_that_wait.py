"""A command that reads a pipe or a device waits for somebody who never comes: it is asked about."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from buddy.safety.paths import Boundary
from buddy.safety.policy.try_command import judge_command
from buddy.safety.shell.analysis import Analyser


@pytest.mark.parametrize(
    "command",
    [
        "cat README.md",
        "head -1 ./README.md",
        "wc ./*",
        "sort < README.md",
        "grep x link",
        "cd sub && cat ../README.md",
    ],
)
def test_SEC_063_a_pipe_is_not_read_unasked(tmp_path: Path, command: str) -> None:
    root = tmp_path.resolve()
    os.mkfifo(root / "README.md")
    (root / "link").symlink_to("README.md")
    (root / "sub").mkdir()
    verdict = judge_command(command, Boundary(str(root), str(root), str(root)), Analyser())
    assert verdict.decision == "ask"
    assert "a pipe or a device, which may never end" in verdict.why


def test_ordinary_files_folders_and_missing_ones_are_read(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "README.md").write_text("x")
    for command in ("cat README.md", "grep -r x .", "cat missing", "ls > /dev/null", "head -c 4 /dev/zero"):
        verdict = judge_command(command, Boundary(str(root), str(root), str(root)), Analyser())
        assert verdict.decision == "allow", (command, verdict.why)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("rg n .", ".ignore"),
        ("rg n", ".rgignore"),
        ("rg n src", ".gitignore"),
        ("rg n src", "src/deep/.ignore"),
        ("rg --files", "src/.rgignore"),
        ("rg -l n", ".git/info/exclude"),
        ("cd src && rg n", ".ignore"),
        ("cat a.txt | rg n", ".ignore"),
        ("fd n", ".fdignore"),
        ("fd n src", "src/.ignore"),
        ("fd n --search-path src", "src/deep/.gitignore"),
        ("grep -R n .", "src/pipe"),
        ("grep -R n src", "src/deep/pipe"),
        ("git status", ".gitignore"),
        ("git status", "src/.gitignore"),
        ("git ls-files -o --exclude-standard", "src/deep/.gitignore"),
        ("git diff", "src/.gitattributes"),
        ("git log -p", "src/deep/.gitattributes"),
        ("git grep n", "src/.gitattributes"),
        ("cd src && git status", "other/.gitignore"),
    ],
)
def test_RU_L6_a_pipe_for_an_ignore_file_asks(tmp_path: Path, command: str, name: str) -> None:
    boundary = _searched_tree(tmp_path)
    assert judge_command(command, boundary, Analyser()).decision == "allow"
    pipe = Path(boundary.root, name)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    verdict = judge_command(command, boundary, Analyser())
    assert verdict.decision == "ask"
    assert "a pipe or a device" in verdict.why


@pytest.mark.parametrize("command", ["rg n", "fd n", "git status"])
def test_RU_L6_a_link_to_a_device_asks_like_a_pipe(tmp_path: Path, command: str) -> None:
    boundary = _searched_tree(tmp_path)
    Path(boundary.root, "src", ".gitignore").symlink_to("/dev/zero")
    assert judge_command(command, boundary, Analyser()).decision == "ask"


@pytest.mark.parametrize("command", ["rg n", "fd n", "git status", "grep -r n ."])
def test_RU_L6_other_pipes_hold_no_search_up(tmp_path: Path, command: str) -> None:
    boundary = _searched_tree(tmp_path)
    os.mkfifo(Path(boundary.root, "src", "pipe"))
    Path(boundary.root, "src", ".ignore").symlink_to("missing")
    assert judge_command(command, boundary, Analyser()).decision == "allow"


@pytest.mark.parametrize(
    ("command", "name", "decision"),
    [
        ("rg n", "AGENTS.md", "ask"),
        ("rg n", "buddy.toml", "ask"),
        ("rg -uu n", ".env", "ask"),
        ("grep -r n .", "src/.env", "ask"),
        ("grep -rl n . | head", "id_rsa", "ask"),
        ("git grep --untracked n", ".env", "ask"),
        ("yarn --version", "package.json", "ask"),
        ("cargo --version", "rust-toolchain.toml", "ask"),
        ("node --version", ".tool-versions", "allow"),
    ],
)
def test_a_pipe_with_a_telling_name_does_not_hold_up_the_judge(
    tmp_path: Path, command: str, name: str, decision: str
) -> None:
    boundary = _searched_tree(tmp_path)
    os.mkfifo(Path(boundary.root, name))
    assert judge_command(command, boundary, Analyser()).decision == decision


def _searched_tree(tmp_path: Path) -> Boundary:
    root = tmp_path.resolve()
    (root / "src" / "deep").mkdir(parents=True)
    (root / "other").mkdir()
    (root / "a.txt").write_text("n\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return Boundary(str(root), str(root), str(root))
