# ruff: noqa: ASYNC221 - commands of a few milliseconds, and no loop is shared
"""Checkpoints in repositories that are not just a folder with `.git` in it: what a command did is taken back
or said not to be covered, nothing of the repository is touched, and none of its programs runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from buddy.workspace.checkpoints.checkpoints import Checkpoints, Mark, Taken
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.undo.moves import RenamedPath
from tests.support.undo_logs import undo_log

ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
NOT_COVERED = "not covered by /undo (too large, unreadable, secret, or a repository of its own): "


def git(folder: Path, *arguments: str) -> str:
    options = ("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ("git", *options, *arguments), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return done.stdout


def made(folder: Path, files: dict[str, str]) -> Path:
    """A repository with these files committed."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return folder


class Watched:
    """A working tree under checkpoints, and every file of the repositories it belongs to."""

    def __init__(self, top: Path, root: Path, *repositories: Path, **variables: str) -> None:
        self.root = root
        self.repositories = repositories
        session = top / "session"
        self.log = undo_log(str(session / "undo"))
        found = {"PATH": os.environ["PATH"], "HOME": str(top / "home"), **variables}
        self.checkpoints = Checkpoints(str(session / "checkpoints"), str(root), self.log, found)
        self.calls = 0

    def theirs(self) -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for folder in self.repositories
            for path in folder.rglob("*")
            if path.is_file()
        }

    async def shell(self, command: str) -> Taken:
        """Return the effect of a command; the snapshots change nothing."""
        before = self.theirs()
        self.calls += 1
        mark = await self.checkpoints.begin(1, f"c{self.calls}", "run_shell")
        assert isinstance(mark, Mark), mark
        assert self.theirs() == before
        subprocess.run(("bash", "-c", command), cwd=self.root, env=ENVIRONMENT, check=True)
        before = self.theirs()
        taken = await self.checkpoints.end(mark)
        assert isinstance(taken, Taken), taken
        assert self.theirs() == before
        return taken

    def undo(self) -> None:
        before = self.theirs()
        self.log.undo(FileLocks())
        assert self.theirs() == before

    def text(self, name: str) -> str:
        return (self.root / name).read_text()


async def test_a_submodule_is_not_looked_into_and_that_is_said(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    lib = made(tmp_path / "lib", {"code.txt": "one\n"})
    root = made(tmp_path / "work", {"a.txt": "a\n"})
    git(root, "submodule", "--quiet", "add", str(lib), "sub")
    git(root, "commit", "-q", "-m", "sub")
    git(root / "sub", "config", "core.fsmonitor", f"touch {marker}; false")
    git(root / "sub", "config", "filter.evil.clean", f"touch {marker}; cat")
    (root / "sub/.gitattributes").write_text("* filter=evil\n")
    marker.unlink(missing_ok=True)
    place = Watched(tmp_path, root, root / ".git")
    taken = await place.shell("echo b > a.txt; echo two > sub/code.txt; mkdir sub/new; touch sub/new/x")
    assert taken.paths == ("a.txt",)
    assert taken.notes == (f"{NOT_COVERED}sub/",)
    place.undo()
    assert (place.text("a.txt"), place.text("sub/code.txt")) == ("a\n", "two\n")
    assert (root / "sub/new/x").exists()
    assert not marker.exists()
    assert git(root, "status", "--porcelain").split() == ["M", "sub"]


async def test_a_worktree_has_an_index_of_its_own_and_neither_is_touched(tmp_path: Path) -> None:
    main = made(tmp_path / "main", {"a.txt": "a\n", "b/c.txt": "c\n"})
    root = tmp_path / "work"
    git(main, "worktree", "add", "-q", "-b", "side", str(root))
    (root / "a.txt").write_text("staged\n")
    git(root, "add", "a.txt")
    place = Watched(tmp_path, root, main / ".git")
    taken = await place.shell("echo mine > a.txt; rm -r b; mkdir -p d/e; echo n > n")
    assert sorted(taken.paths) == ["a.txt", "b/c.txt", "n"]
    place.undo()
    assert sorted(one.name for one in root.iterdir()) == [".git", "a.txt", "b"]
    assert (place.text("a.txt"), place.text("b/c.txt")) == ("staged\n", "c\n")
    assert git(root, "diff", "--cached", "--name-only") == "a.txt\n"


async def test_a_bare_repository_is_a_folder_like_any_other(tmp_path: Path) -> None:
    made(tmp_path / "origin", {"a.txt": "a\n"})
    root = tmp_path / "work.git"
    git(tmp_path, "clone", "-q", "--bare", "origin", str(root))
    place = Watched(tmp_path, root)
    before = {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    await place.shell("echo new > description; git update-ref refs/heads/other HEAD")
    place.undo()
    assert {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert git(root, "fsck", "--strict") == ""


async def test_where_the_environment_points_elsewhere_that_place_is_not_touched(tmp_path: Path) -> None:
    other = made(tmp_path / "other", {"x.txt": "x\n"})
    root = made(tmp_path / "work", {"a.txt": "a\n"})
    elsewhere = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git/objects"),
    }
    place = Watched(tmp_path, root, root / ".git", other, **elsewhere)
    taken = await place.shell("echo b > a.txt")
    assert taken.paths == ("a.txt",)
    place.undo()
    assert place.text("a.txt") == "a\n"


@pytest.mark.parametrize("how", ["sparse", "assumed", "skipped"])
async def test_what_the_index_says_not_to_look_at_is_looked_at(tmp_path: Path, how: str) -> None:
    root = made(tmp_path / "work", {"a.txt": "a\n", "in/b.txt": "b\n", "out/c.txt": "c\n"})
    match how:
        case "sparse":
            git(root, "sparse-checkout", "set", "in")
        case "assumed":
            git(root, "update-index", "--assume-unchanged", "out/c.txt")
        case _:
            git(root, "update-index", "--skip-worktree", "out/c.txt")
    place = Watched(tmp_path, root, root / ".git")
    taken = await place.shell("echo d > in/b.txt; mkdir -p out; echo changed > out/c.txt")
    assert sorted(taken.paths) == ["in/b.txt", "out/c.txt"]
    place.undo()
    assert place.text("in/b.txt") == "b\n"
    assert (root / "out").exists() is (how != "sparse")
    if how != "sparse":
        assert place.text("out/c.txt") == "c\n"
    assert git(root, "status", "--porcelain") == ""


async def test_files_that_are_pointers_are_kept_as_they_are_on_disk(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    root = made(tmp_path / "work", {"a.bin": "small\n", "b.txt": "one\n"})
    for what in ("clean", "smudge", "process"):
        git(root, "config", f"filter.lfs.{what}", f"touch {marker}; cat")
    git(root, "config", "filter.lfs.required", "true")
    (root / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n*.txt text eol=crlf\n")
    (root / "a.bin").write_bytes(b"large \0 content\r\n")
    (root / "b.txt").write_bytes(b"one\r\ntwo\r\n")
    place = Watched(tmp_path, root, root / ".git")
    await place.shell("echo x > a.bin; echo y > b.txt; git config --unset filter.lfs.process")
    place.undo()
    assert (root / "a.bin").read_bytes() == b"large \0 content\r\n"
    assert (root / "b.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert not marker.exists()


async def test_hooks_and_a_monitor_of_the_repository_never_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    root = made(tmp_path / "work", {"a.txt": "a\n"})
    for name in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction", "fsmonitor"):
        hook = root / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
        hook.chmod(0o755)
    git(root, "config", "core.fsmonitor", str(root / ".git/hooks/fsmonitor"))
    git(root, "config", "core.hooksPath", str(root / ".git/hooks"))
    marker.unlink(missing_ok=True)
    place = Watched(tmp_path, root, root / ".git")
    await place.shell("echo b > a.txt")
    place.undo()
    assert place.text("a.txt") == "a\n"
    assert not marker.exists()


async def test_in_the_middle_of_a_merge_everything_stays_as_it_is(tmp_path: Path) -> None:
    root = made(tmp_path / "work", {"a.txt": "a\n"})
    git(root, "checkout", "-q", "-b", "side")
    (root / "a.txt").write_text("side\n")
    git(root, "commit", "-q", "-am", "side")
    git(root, "checkout", "-q", "main")
    (root / "a.txt").write_text("main\n")
    git(root, "commit", "-q", "-am", "main")
    with pytest.raises(subprocess.CalledProcessError):
        git(root, "merge", "-q", "side")
    conflict = (root / "a.txt").read_text()
    place = Watched(tmp_path, root, root / ".git")
    taken = await place.shell("echo resolved > a.txt; echo n > new.txt")
    assert sorted(taken.paths) == ["a.txt", "new.txt"]
    place.undo()
    assert (place.text("a.txt"), (root / "new.txt").exists()) == (conflict, False)
    assert git(root, "status", "--porcelain") == "UU a.txt\n"


async def test_permissions_and_empty_folders_are_taken_back(tmp_path: Path) -> None:
    root = made(tmp_path / "work", {"a.txt": "a\n", "d/b.txt": "b\n"})
    (root / "a.txt").chmod(0o640)
    (root / "d").chmod(0o750)
    (root / "empty/in").mkdir(parents=True)
    place = Watched(tmp_path, root, root / ".git")
    taken = await place.shell("chmod 600 a.txt; chmod 700 d; rmdir -p empty/in; mkdir -m 711 made")
    assert taken.paths == ("a.txt",)
    place.undo()
    modes = {name: (root / name).stat().st_mode & 0o7777 for name in ("a.txt", "d", "empty", "empty/in")}
    assert modes == {"a.txt": 0o640, "d": 0o750, "empty": 0o755, "empty/in": 0o755}
    assert not (root / "made").exists()
    place.log.redo(FileLocks())
    assert sorted(one.name for one in root.iterdir()) == [".git", "a.txt", "d", "made"]
    assert [(root / name).stat().st_mode & 0o7777 for name in ("a.txt", "d", "made")] == [0o600, 0o700, 0o711]


async def test_only_folders_changed_is_a_change_too_and_the_persons_are_not(tmp_path: Path) -> None:
    root = made(tmp_path / "work", {"a.txt": "a\n"})
    place = Watched(tmp_path, root, root / ".git")
    await place.shell("mkdir -p x/y")
    (root / "x/mine").mkdir()
    (root / "a.txt").chmod(0o600)
    assert (await place.shell("true")).entry_id == 0
    place.undo()
    assert [str(one.relative_to(root)) for one in (root / "x").rglob("*")] == ["x/mine"]
    assert (root / "a.txt").stat().st_mode & 0o777 == 0o600


async def test_ignored_folders_and_what_is_in_them_are_left_alone(tmp_path: Path) -> None:
    root = made(tmp_path / "work", {".gitignore": "build/\n*.o\n", "a.txt": "a\n"})
    (root / "objects").mkdir()
    (root / "objects/x.o").write_text("o")
    place = Watched(tmp_path, root, root / ".git")
    await place.shell("mkdir -p build/in pkg/build/deep; touch objects/y.o; echo b > pkg/b.txt")
    place.undo()
    assert (root / "build/in").is_dir()
    assert (root / "pkg/build/deep").is_dir()
    assert sorted(one.name for one in (root / "objects").iterdir()) == ["x.o", "y.o"]
    assert not (root / "pkg/b.txt").exists()


async def test_what_a_command_does_to_what_was_moved_before_it_is_taken_back(tmp_path: Path) -> None:
    """The move said what it did; what comes after it is the command's."""
    root = made(tmp_path / "work", {"a.txt": "a\n"})
    place = Watched(tmp_path, root, root / ".git")
    from_, to = str(root / "a.txt"), str(root / "b.txt")
    place.log.prepare_renames(1, "move", "move_file", [RenamedPath(from_, to)])
    os.rename(from_, to)
    taken = await place.shell("echo more >> b.txt")
    assert taken.paths == ("b.txt",)
    place.undo()
    assert place.text("b.txt") == "a\n"


async def test_names_that_are_no_text_or_hold_line_ends_are_taken_back(tmp_path: Path) -> None:
    root = made(tmp_path / "work", {"a.txt": "a\n"})
    odd = os.fsencode(root) + b"/\xff\xfe"
    named = Path(os.fsdecode(odd))
    named.write_bytes(b"x\n")
    place = Watched(tmp_path, root, root / ".git")
    await place.shell("echo y >> $'\\xff\\xfe'; chmod 600 $'\\xff\\xfe'; mkdir $'\\xfd'; touch $'n\\nl'")
    again = undo_log(str(tmp_path / "session/undo"))
    again.undo(FileLocks())
    assert named.read_bytes() == b"x\n"
    assert named.stat().st_mode & 0o777 == 0o644
    assert sorted(os.listdir(os.fsencode(root))) == [b".git", b"a.txt", b"\xff\xfe"]
    again.redo(FileLocks())
    assert sorted(os.listdir(os.fsencode(root))) == [b".git", b"a.txt", b"n\nl", b"\xfd", b"\xff\xfe"]
