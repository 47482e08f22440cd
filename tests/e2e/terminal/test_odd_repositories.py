"""The program where the repository is not just a folder with `.git` in it: a model writes and runs commands,
the person looks with /diff and takes all back; the tree is as it was, the repository untouched, nothing of it
run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program
from tests.support.terminal import on_terminal

WHO = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
PLAIN = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", **WHO}


def git(folder: Path, *arguments: str) -> str:
    options = ("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ("git", *options, *arguments), cwd=folder, env=PLAIN, capture_output=True, text=True, check=True
    )
    return done.stdout


def made(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return folder


def ordinary(top: Path) -> dict[str, str]:
    made(top / "repo", a__txt="one\n")
    return {}


def worktree(top: Path) -> dict[str, str]:
    main = made(top / "main", a__txt="one\n")
    git(main, "worktree", "add", "-q", "-b", "side", str(top / "repo"))
    return {}


def inside_a_submodule(top: Path) -> dict[str, str]:
    lib = made(top / "lib", a__txt="one\n")
    outer = made(top / "outer", main__txt="main\n")
    git(outer, "submodule", "--quiet", "add", str(lib), "sub")
    (top / "repo").symlink_to(outer / "sub")
    return {}


def with_a_submodule(top: Path) -> dict[str, str]:
    lib = made(top / "lib", x__txt="x\n")
    root = made(top / "repo", a__txt="one\n")
    git(root, "submodule", "--quiet", "add", str(lib), "sub")
    git(root, "commit", "-q", "-m", "sub")
    (root / "sub/.gitattributes").write_text("* filter=evil\n")
    git(root / "sub", "config", "filter.evil.clean", f"touch {top}/ran; cat")
    git(root / "sub", "config", "core.fsmonitor", f"touch {top}/ran; false")
    return {}


def environment_elsewhere(top: Path) -> dict[str, str]:
    made(top / "repo", a__txt="one\n")
    other = made(top / "other", b__txt="b\n")
    return {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": f"{other}/.git/index",
    }


def sparse(top: Path) -> dict[str, str]:
    root = made(top / "repo", a__txt="one\n")
    (root / "out").mkdir()
    (root / "out/b.txt").write_text("b\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "out")
    git(root, "sparse-checkout", "set", "in")
    return {}


def filtered(top: Path) -> dict[str, str]:
    root = made(top / "repo", a__txt="one\n")
    for what in ("clean", "smudge", "process"):
        git(root, "config", f"filter.lfs.{what}", f"touch {top}/ran; cat")
    git(root, "config", "filter.lfs.required", "true")
    git(root, "config", "core.autocrlf", "true")
    git(root, "config", "core.fsmonitor", f"touch {top}/ran; false")
    (root / ".gitattributes").write_text("*.txt filter=lfs diff=lfs merge=lfs\n")
    for name in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction"):
        (root / ".git/hooks" / name).write_text(f"#!/bin/sh\ntouch {top}/ran\n")
        (root / ".git/hooks" / name).chmod(0o755)
    return {}


PLACES: tuple[Callable[[Path], dict[str, str]], ...] = (
    ordinary, worktree, inside_a_submodule, with_a_submodule, environment_elsewhere, sparse, filtered,
)  # fmt: skip


def files_of(top: Path) -> dict[str, bytes]:
    """Every file but the home's and what the program keeps."""
    own = (".buddyx", "home")
    return {
        str(path): path.read_bytes()
        for path in top.rglob("*")
        if path.is_file() and not set(path.relative_to(top).parts) & set(own)
    }


def model(asked: Asked) -> Reply:
    """A write into new folders, a command, an edit; then what /diff is asked about."""
    command = "echo two >> a.txt; mkdir -p made/empty; echo n > made/n.txt; chmod 600 a.txt"
    steps = (
        call("write_file", path="new/deep/file.txt", content="new\n"),
        call("run_shell", command=command),
        call("edit_file", path="a.txt", old="two", new="three"),
    )
    done = len(asked.tool_results)
    return reply(f"Step {done}.", steps[done]) if done < len(steps) else reply("All done.")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
async def test_what_was_done_is_shown_and_taken_back_and_the_repository_is_untouched(
    tmp_path: Path, place: Callable[[Path], dict[str, str]]
) -> None:
    top = Path(os.path.realpath(tmp_path))
    environment = place(top)
    (top / "ran").unlink(missing_ok=True)
    before = files_of(top)
    mode = (top / "repo/a.txt").stat().st_mode
    async with FakeLLM(model) as server:
        program = Program(top, server.url, environment=environment)
        async with on_terminal(program, *YOLO, columns=110, rows=50) as terminal:
            await terminal.line("go")
            await terminal.has_shown("All done.")
            await terminal.line("/diff")
            await terminal.has_shown("new, not yet in git", "three")
            await terminal.line("/diff @1")
            await terminal.has_shown("diff of task 1")
            await terminal.line("/undo @1 all")
            await terminal.has_shown("(task 1's edit")
            assert files_of(top) == before
            assert (top / "repo/a.txt").stat().st_mode == mode
            assert not (top / "repo/new").exists()
            assert not (top / "repo/made").exists()
            for _ in range(3):
                await terminal.line("/redo")
            await terminal.has_shown("Redone: ")
            assert (top / "repo/a.txt").read_text() == "one\nthree\n"
            assert (top / "repo/made/empty").is_dir()
            assert await terminal.leaves() == 0
    shown = program.repo / ".buddyx"
    shutil.rmtree(shown)
    assert not (top / "ran").exists()
    assert any("three" in text for text in server.requests[-1].tool_results)


@pytest.mark.slow
async def test_in_a_bare_repository_a_diff_is_refused_and_the_rest_works(tmp_path: Path) -> None:
    top = Path(os.path.realpath(tmp_path))
    made(top / "origin", a__txt="one\n")
    git(top, "clone", "-q", "--bare", "origin", str(top / "bare"))
    (top / "bare/a.txt").write_text("one\n")
    async with FakeLLM(model) as server:
        program = Program(top, server.url)
        shutil.rmtree(top / "repo")
        (top / "bare").rename(top / "repo")
        before = files_of(top)
        async with on_terminal(program, *YOLO, columns=110, rows=50) as terminal:
            await terminal.line("go")
            await terminal.has_shown("All done.")
            await terminal.line("/diff")
            await terminal.has_shown("expected a git repository, found no .git")
            await terminal.line("/undo @1 all")
            await terminal.has_shown("(task 1's edit")
            assert files_of(top) == before
            assert await terminal.leaves() == 0
    assert git(top / "repo", "fsck", "--strict") == ""
