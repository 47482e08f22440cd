"""States of a working tree as git trees: taking one, comparing two, reading files out of them.

Everything here blocks; callers use a thread. What it costs depends on what changed: an unchanged tree is one
git command that looks at the files from outside.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from buddy.safety.protected import Places, secret_reason
from buddy.workspace.checkpoint_git import CheckpointError, PrivateGit

LINK_MODE = 0o120000
_GITLINK = 0o160000
_TRIES = 3


class Bounds(msgspec.Struct, frozen=True):
    """How much one state may add. A file over `max_file_bytes` is left out; more files or bytes than the
    others end checkpoints for the session, and so does a look that takes longer than `limit_s`."""

    max_file_bytes: int = 20_000_000
    max_files: int = 20_000
    max_bytes: int = 200_000_000
    limit_s: float = 10.0


class State(msgspec.Struct, frozen=True):
    """The working tree at a moment. `left_out` are files that are not in it: too large, unreadable, secret,
    or repositories of their own."""

    tree: str
    left_out: tuple[str, ...]


class Version(msgspec.Struct, frozen=True):
    """A file in a state: git's mode (regular, executable or link) and the name of its content."""

    mode: int
    content: str


class Difference(msgspec.Struct, frozen=True):
    """A file that differs between two states, path relative to the root; None where it does not exist."""

    path: str
    before: Version | None
    after: Version | None


class CheckpointStore:
    """The states of one working tree. Files whose names say that they hold secrets are left out: no copy of
    them is made."""

    def __init__(self, git: PrivateGit, places: Places, bounds: Bounds | None = None) -> None:
        self._git = git
        self._places = places
        self._bounds = bounds or Bounds()
        self._tree = ""

    def take(self) -> State:
        """The working tree as it is now. Raises `CheckpointError`."""
        for attempt in range(_TRIES):
            try:
                return self._take()
            except CheckpointError:
                # A file that went away between the look and the reading; or a copied index this git can't
                # read, which the last try does without.
                if attempt == _TRIES - 1:
                    raise
                with suppress(FileNotFoundError):
                    os.unlink(self._git.index + ".lock")
                if attempt == _TRIES - 2:
                    self._start_over()
        raise AssertionError("unreachable")

    def _start_over(self) -> None:
        self._tree = ""
        with suppress(FileNotFoundError):
            os.unlink(self._git.index)

    def _take(self) -> State:
        until = time.monotonic() + self._bounds.limit_s
        listed = self._run(("ls-files", "-z", "-m", "-o", "--exclude-standard"), until)
        paths = [os.fsdecode(path) for path in dict.fromkeys(listed.split(b"\0")) if path]
        if len(paths) > self._bounds.max_files:
            raise _too_large(f"{len(paths):,} files to keep, at most {self._bounds.max_files:,}")
        taken, dropped, left_out = self._sorted(paths)
        if taken:
            given = b"".join(os.fsencode(path) + b"\0" for path in taken)
            self._run(("update-index", "-z", "--add", "--remove", "--replace", "--stdin"), until, given)
        if dropped:
            given = b"".join(os.fsencode(path) + b"\0" for path in dropped)
            self._run(("update-index", "-z", "--force-remove", "--stdin"), until, given)
        if taken or dropped or not self._tree:
            self._tree = self._run(("write-tree",), until).decode().strip()
        return State(self._tree, tuple(left_out))

    def _sorted(self, paths: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """Paths to look into, paths that must leave the index, and what to tell of them."""
        taken: list[str] = []
        dropped: list[str] = []
        left_out: list[str] = []
        size = 0
        for path in paths:
            real = os.path.join(self._git.root, path)
            try:
                status = os.lstat(real)
            except OSError:
                taken.append(path)  # gone: it leaves the index
                continue
            if path.endswith("/") or stat.S_ISDIR(status.st_mode):
                left_out.append(path)  # a repository of its own, or a folder where a file was
                if not path.endswith("/"):
                    dropped.append(path)
            elif self._fits(real, status) and not secret_reason(real, self._places):
                taken.append(path)
                size += status.st_size
            else:
                left_out.append(path)
                dropped.append(path)
        if size > self._bounds.max_bytes:
            raise _too_large(f"{size:,} bytes to keep, at most {self._bounds.max_bytes:,}")
        return taken, dropped, left_out

    def _fits(self, real: str, status: os.stat_result) -> bool:
        if stat.S_ISLNK(status.st_mode):
            return True
        regular = stat.S_ISREG(status.st_mode) and status.st_size <= self._bounds.max_file_bytes
        return regular and os.access(real, os.R_OK)

    def differences(self, before: str, after: str) -> tuple[Difference, ...]:
        """What is different between two states. Raises `CheckpointError`."""
        if before == after:
            return ()
        said = self._git.run(
            ("diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", before, after),
            limit_s=self._bounds.limit_s,
        )
        fields = said.split(b"\0")
        found: list[Difference] = []
        for what, path in zip(fields[::2], fields[1::2], strict=False):
            old_mode, new_mode, old, new, _kind = what.decode().lstrip(":").split(" ")
            pair = (_version(old_mode, old), _version(new_mode, new))
            if _GITLINK not in (int(old_mode, 8), int(new_mode, 8)):
                found.append(Difference(os.fsdecode(path), *pair))
        return tuple(found)

    def contents(self, names: Sequence[str]) -> dict[str, bytes]:
        """Contents by name; what can't be read any more is missing. Raises `CheckpointError`."""
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        given = "".join(f"{name}\n" for name in wanted).encode()
        said = self._git.run(("cat-file", "--batch"), limit_s=self._bounds.limit_s, given=given)
        found: dict[str, bytes] = {}
        at = 0
        for name in wanted:
            end = said.index(b"\n", at)
            words = said[at:end].split(b" ")
            at = end + 1
            if len(words) == 3 and words[1] == b"blob":
                size = int(words[2])
                found[name] = said[at : at + size]
                at += size + 1
        return found

    def _run(self, arguments: Sequence[str], until: float, given: bytes = b"") -> bytes:
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise _too_large(f"looking at it takes longer than {self._bounds.limit_s:g} s")
        return self._git.run(arguments, limit_s=left_s, given=given)


def _version(mode: str, content: str) -> Version | None:
    return Version(int(mode, 8), content) if int(mode, 8) else None


def _too_large(why: str) -> CheckpointError:
    return CheckpointError(f"the working tree is too large for checkpoints: {why}; ignored files don't count")
