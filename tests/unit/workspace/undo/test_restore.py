"""Undoing everything gives the tree there was, redoing everything the tree there was then: bytes, modes,
links and empty folders, whatever the calls were."""

from __future__ import annotations

import os
import random
import shlex
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.tools.files.edit import edit_file
from buddy.tools.files.move import copy_file, delete_file, move_file
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.write import write_file
from buddy.tools.shell import run_shell
from buddy.workspace.files.locks import FileLocks
from tests.support.scripted_session import ScriptedSession, scripted_session

OWN = {".git", ".buddyx"}
Look = dict[str, tuple[str, int, bytes]]


def look(root: Path) -> Look:
    """Everything below a folder: kind, mode, content."""
    found: Look = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if OWN & set(Path(name).parts):
            continue
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            found[name] = ("link", 0, os.fsencode(os.readlink(path)))
        elif stat.S_ISDIR(mode):
            found[name] = ("folder", stat.S_IMODE(mode), b"")
        else:
            found[name] = ("file", stat.S_IMODE(mode), path.read_bytes())
    return found


def git(root: Path, *arguments: str) -> str:
    own = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgSign=false")
    done = subprocess.run(("git", *own, *arguments), cwd=root, capture_output=True, text=True, check=True)
    return done.stdout


def theirs(root: Path) -> dict[str, bytes]:
    """Every file of the person's repository."""
    return {str(path): path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()}


def locks_of(session: ScriptedSession) -> FileLocks:
    found = session.board.task(1).services.services[FileLocks]
    assert isinstance(found, FileLocks)
    return found


class Walker:
    """Calls chosen at random among those that make sense in the tree as it is."""

    def __init__(self, session: ScriptedSession, seed: int) -> None:
        self.session = session
        self.root = session.root
        self.chance = random.Random(seed)
        self.step = 0

    def paths(self, kind: str) -> list[str]:
        return [name for name, (found, _, _) in look(self.root).items() if found == kind]

    def new_name(self) -> str:
        folders = [*self.paths("folder"), f"n{self.step}", f"n{self.step}/deep/er", "", ""]
        return os.path.join(self.chance.choice(folders), f"f{self.step}.txt")

    async def one(self) -> None:
        """One call; refusals are fine."""
        self.step += 1
        kinds: list[Callable[[], tuple[object, dict[str, object]] | None]] = [
            self._write, self._edit, self._patch, self._copy, self._move, self._delete,
            self._shell, self._shell, self._shell, self._chmod, self._chmod,
        ]  # fmt: skip
        made = self.chance.choice(kinds)()
        if made is None:
            return
        tool, arguments = made
        try:
            await self.session.call(tool, arguments)  # type: ignore[arg-type]
        except ToolError:
            return

    def _pick(self, kind: str) -> str | None:
        names = self.paths(kind)
        return self.chance.choice(names) if names else None

    def _write(self) -> tuple[object, dict[str, object]]:
        return write_file, {"path": self.new_name(), "content": f"one {self.step}\ntwo\n"}

    def _edit(self) -> tuple[object, dict[str, object]] | None:
        name = self._pick("file")
        if name is None:
            return None
        first = (self.root / name).read_text().split("\n")[0]
        return edit_file, {"path": name, "old": first, "new": f"edited {self.step}"}

    def _patch(self) -> tuple[object, dict[str, object]] | None:
        name = self._pick("file")
        if name is None:
            return None
        first = (self.root / name).read_text().split("\n")[0]
        text = self.chance.choice(
            [
                f"*** Add File: p{self.step}/in/new.txt\n+x{self.step}\n*** Delete File: {name}\n",
                f"*** Update File: {name}\n*** Move to: m{self.step}/moved.txt\n"
                f"@@\n-{first}\n+y{self.step}\n",
            ]
        )
        return apply_patch, {"patch": f"*** Begin Patch\n{text}*** End Patch"}

    def _copy(self) -> tuple[object, dict[str, object]] | None:
        name = self._pick("file")
        return None if name is None else (copy_file, {"source": name, "target": self.new_name()})

    def _move(self) -> tuple[object, dict[str, object]] | None:
        name = self._pick(self.chance.choice(["file", "folder", "link"]))
        return None if name is None else (move_file, {"source": name, "target": f"to{self.step}/in/it"})

    def _delete(self) -> tuple[object, dict[str, object]] | None:
        name = self._pick(self.chance.choice(["file", "folder", "link"]))
        return None if name is None else (delete_file, {"path": name})

    def _shell(self) -> tuple[object, dict[str, object]]:
        file = shlex.quote(self._pick("file") or "none")
        folder = shlex.quote(self._pick("folder") or "none")
        step = self.step
        return run_shell, {
            "command": self.chance.choice(
                [
                    f"echo {step} >> {file}",
                    f"rm -f {file}",
                    f"mkdir -p e{step}/x/y e{step}/z",
                    f"rm -rf {folder}",
                    f"ln -s {file} l{step}",
                    f"for one in *; do [ -L $one ] && ln -sfn {folder} $one; done; true",
                    f"mv {folder} v{step}",
                    f"cp -r {folder} c{step}; rmdir --ignore-fail-on-non-empty e*/z",
                    f"rm {file}; mkdir {file}; echo {step} > {file}/inside",
                    f"rm -rf {folder}; echo {step} > {folder}",
                    f"mkdir -m 711 k{step}; install -m 640 {file} k{step}/new",
                    "find . -path ./.git -prune -o -path ./.buddyx -prune -o -type d -empty -print"
                    " | head -2 | xargs -r rmdir",
                ]
            )
        }

    def _chmod(self) -> tuple[object, dict[str, object]]:
        mode = self.chance.choice(["600", "644", "755", "700", "640", "664", "u+x", "a-x", "444"])
        name = self._pick(self.chance.choice(["file", "folder"])) or "none"
        if name in self.paths("folder"):
            mode = self.chance.choice(["700", "755", "750", "775", "711"])
        return run_shell, {"command": f"chmod {mode} {shlex.quote(name)}"}


async def start(session: ScriptedSession) -> None:
    root = session.root
    (root / "src/deep").mkdir(parents=True)
    (root / "empty/in").mkdir(parents=True)
    (root / "src/a.txt").write_text("a\nb\n")
    (root / "src/deep/run.sh").write_text("echo\n")
    (root / "src/deep/run.sh").chmod(0o750)
    (root / "top.txt").write_text("top\n")
    (root / "top.txt").chmod(0o600)
    (root / "src/deep").chmod(0o711)
    os.symlink("src/a.txt", root / "link")
    (root / "mine").mkdir()
    (root / "mine/person.txt").write_text("of the person\n")


@pytest.mark.slow
@pytest.mark.parametrize("repository", [True, False], ids=["repository", "folder"])
@pytest.mark.parametrize("seed", range(8))
async def test_any_sequence_of_calls_is_taken_back_whole_and_made_again_whole(
    tmp_path: Path, seed: int, repository: bool
) -> None:
    async with scripted_session(tmp_path, repository=repository) as session:
        await start(session)
        if repository:
            git(session.root, "add", "src", "top.txt")
            git(session.root, "commit", "-q", "-m", "start")
            (session.root / "src/a.txt").write_text("stashed\n")
            git(session.root, "stash", "-q")
            (session.root / "src/a.txt").write_text("a\nb\nstaged\n")
            git(session.root, "add", "src/a.txt")
            (session.root / "top.txt").chmod(0o600)
            (session.root / "src/deep/run.sh").chmod(0o750)
            (session.root / "src/deep").chmod(0o711)
        walker = Walker(session, seed)
        before = theirs(session.root)
        looks = [look(session.root)]
        for _ in range(25):
            count = len(session.undo.entries())
            await walker.one()
            assert len(session.undo.entries()) in (count, count + 1)
            if len(session.undo.entries()) > count:
                looks.append(look(session.root))
            else:
                assert look(session.root) == looks[-1]
        locks = locks_of(session)
        for wanted in reversed(looks[:-1]):
            session.undo.undo(locks, 1, merging=True)
            assert look(session.root) == wanted
        for wanted in looks[1:]:
            session.undo.redo(locks, 1, merging=True)
            assert look(session.root) == wanted
        for _ in range(3):
            for _ in range(len(looks) // 2):
                session.undo.undo(locks, 1)
            for _ in range(len(looks) // 2):
                session.undo.redo(locks, 1)
        assert look(session.root) == looks[-1]
        assert theirs(session.root) == before
