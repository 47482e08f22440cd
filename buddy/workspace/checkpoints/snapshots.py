"""States of a working tree as git trees, with the permissions and folders that git does not store."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from buddy.safety.paths import walk_tree
from buddy.safety.protected import ProtectedPlaces, secret_reason
from buddy.workspace.checkpoints.private_git import (
    CheckpointError,
    PrivateGit,
    WaitingTreeError,
    check_usual_files,
)
from buddy.workspace.git.waiting import waits
from buddy.workspace.undo.moves import umask

_MAX_BELOW = 2_000
_YOUNG_S = 3.0
"""Longer than the second that the index keeps, with room for coarse clocks of file systems."""


class Outside(msgspec.Struct, frozen=True):
    """Permissions of the files of a state (0: not known), and its folders with theirs and the file type's
    bits; paths relative to the root."""

    modes: dict[str, int]
    folders: dict[str, int]

    def mode_of(self, path: str) -> int:
        """Return a file's permissions, 0 where they are not known."""
        return self.modes.get(path, 0)

    def other_modes(self, after: Outside) -> set[str]:
        """Return files of both states whose permissions differ."""
        if self.modes == after.modes:
            return set()
        return {path for path, mode in self.modes.items() if mode and (after.modes.get(path) or mode) != mode}

    def other_folders(self, after: Outside) -> dict[str, tuple[int, int]]:
        """Return folders that are only in one of the states or have other permissions, before and after."""
        if self.folders == after.folders:
            return {}
        return {
            path: (self.folders.get(path, 0), after.folders.get(path, 0))
            for path in self.folders.keys() | after.folders.keys()
            if self.folders.get(path, 0) != after.folders.get(path, 0)
        }


class Outsides:
    """Permissions of every file that is known, and the folders around them.

    Git's index tells which files changed from outside since they were last looked at, permissions included
    (their change time is another then), so only those are looked at again: 3 microseconds each. The index
    keeps whole seconds. A file whose change time is that young can change again without another second, so
    it is looked at every time until it is older.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._files: dict[str, int] = {}
        self._folders: dict[str, int] = {}
        self._young: set[str] = set()

    def forget(self) -> None:
        """Forget everything known."""
        self._files, self._folders, self._young = {}, {}, set()

    def know(self, paths: Iterable[str]) -> None:
        """These files are kept; each is looked at the next time."""
        self._files = dict.fromkeys(paths, 0)
        self._folders = dict.fromkeys(_above(self._files), 0)
        self._young = set(self._files)

    def look(self) -> dict[str, int]:
        """Return the known folders as they are now, without those that are gone."""
        return self._existing(self._folders)

    def after(
        self,
        around: dict[str, int],
        *,
        touched: Iterable[str],
        dropped: Sequence[str],
        folders: Sequence[str],
    ) -> Outside:
        """Return the state after git's index was updated: `around` are the seen folders, `touched` the files
        that are new, deleted or changed from outside, `dropped` those that are not recorded, `folders` those
        found since."""
        taken = [path for path in touched if path not in set(dropped)]
        files = {**self._files, **self._permissions([*self._young, *taken])}
        for path in (*dropped, *(path for path in taken if not os.path.lexists(f"{self._root}/{path}"))):
            files.pop(path, None)
            self._young.discard(path)
        fresh = [folder for folder in (*_above(taken), *folders) if folder not in around]
        if fresh:
            around = {**around, **self._existing(fresh)}
        # One state is much like the one before: then they share what they know.
        self._files = self._files if files == self._files else files
        self._folders = self._folders if around == self._folders else around
        return Outside(self._files, self._folders)

    def _permissions(self, paths: Iterable[str]) -> dict[str, int]:
        """Return permissions of regular files; 0 for what is none, or is gone. Keeps which of them are
        young."""
        found: dict[str, int] = {}
        old_before = time.time() - _YOUNG_S
        for path in paths:
            try:
                status = os.lstat(f"{self._root}/{path}")
            except OSError:
                found[path] = 0
                self._young.discard(path)
                continue
            found[path] = status.st_mode & 0o7777 if stat.S_ISREG(status.st_mode) else 0
            if status.st_ctime > old_before:
                self._young.add(path)
            else:
                self._young.discard(path)
        return found

    def _existing(self, paths: Iterable[str]) -> dict[str, int]:
        """Return folders that are there, with their permissions and the file type's bits."""
        found: dict[str, int] = {}
        for path in paths:
            try:
                mode = os.lstat(f"{self._root}/{path}").st_mode
            except OSError:
                continue
            if stat.S_ISDIR(mode):
                found[path] = mode
        return found


def _above(paths: Iterable[str]) -> set[str]:
    """Return every folder above these paths, the root left out."""
    found: set[str] = set()
    for path in paths:
        folder = os.path.dirname(path)
        while folder and folder not in found:
            found.add(folder)
            folder = os.path.dirname(folder)
    return found


def usual_mode(git_mode: int) -> int:
    """Return the permissions of a new file that is executable or not."""
    return (0o777 if git_mode & 0o111 else 0o666) & ~umask()


def only_folders(real: str) -> bool:
    """Tell whether a folder holds only folders, at every depth; False when one of them can't be read."""
    pending = [real]  # no recursion: a tree may be deeper than Python's stack
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        return False
                    pending.append(entry.path)
        except OSError:
            return False
    return True


def folders_below(root: str, folder: str) -> list[str]:
    """Return a folder and those in it, relative to the root, repositories left out; not without end."""
    found: list[str] = []
    for top, inner, names in walk_tree(os.path.join(root, folder)):
        if ".git" in inner or ".git" in names:
            inner.clear()
            continue
        found.append(os.path.relpath(top, root))
        if len(found) >= _MAX_BELOW:
            break
    return found


LINK_MODE = 0o120000
_GITLINK = 0o160000
_TRIES = 3
_OTHERS = ("-o", "--exclude-standard")
_MAX_NAMED = 200
"""Folders with names of 4 kB, the longest there are, still make a command line."""


_MAX_READ = 100
"""Touched files that are read again without asking git first whether their content is another."""


class Bounds(msgspec.Struct, frozen=True):
    """Limits on the growth per state. A file over `max_file_bytes` is left out. More than `max_files` or
    `max_bytes`, or a scan longer than `limit_s`, ends checkpoints for the session."""

    max_file_bytes: int = 20_000_000
    max_files: int = 20_000
    max_bytes: int = 200_000_000
    limit_s: float = 10.0


class State(msgspec.Struct, frozen=True):
    """The working tree at a moment. `left_out` are files that are not in it: too large, unreadable, secret,
    or repositories of their own. `outside`: permissions and folders, which git does not keep."""

    tree: str
    left_out: tuple[str, ...]
    outside: Outside


class Version(msgspec.Struct, frozen=True):
    """A file in a state: its permissions, or `LINK_MODE`, and the name of its content."""

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

    def __init__(self, git: PrivateGit, places: ProtectedPlaces, bounds: Bounds | None = None) -> None:
        self._git = git
        self._places = places
        self._bounds = bounds or Bounds()
        self._tree = ""
        self._outsides = Outsides(git.root)
        self._is_known = False
        self._pipe = ""

    def take(self) -> State:
        """Return the working tree as it is now. Raises `CheckpointError`."""
        self._check_pipes()
        for attempt in range(_TRIES):
            try:
                return self._take()
            except WaitingTreeError as error:
                self._pipe = error.path
                raise
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

    def _check_pipes(self) -> None:
        """Raise `WaitingTreeError` where git would wait: at the usual places, and where it waited before."""
        check_usual_files(self._git.root)
        if self._pipe and waits(self._pipe):
            raise WaitingTreeError(self._pipe, self._git.root)
        self._pipe = ""

    def _start_over(self) -> None:
        self._tree = ""
        self._outsides.forget()
        with suppress(FileNotFoundError):
            os.unlink(self._git.index)

    def _take(self) -> State:
        until = time.monotonic() + self._bounds.limit_s
        if not self._is_known:
            self._look_through_index(until)
        with self._git.start(("ls-files", "-z", *_OTHERS, "--directory")) as others:
            around = self._outsides.look()  # while git does
            touched, changed = self._touched_files(until)
            listed = self._with_folders(changed) + _paths(self._in_time(others, until))
        paths, unfolded = self._list_changes(listed, until)
        if len(paths) > self._bounds.max_files:
            raise _too_large(f"{len(paths):,} files to keep, at most {self._bounds.max_files:,}")
        taken, dropped, left_out = self._sort_paths(paths)
        if taken:
            given = b"".join(os.fsencode(path) + b"\0" for path in taken)
            self._run(("update-index", "-z", "--add", "--remove", "--replace", "--stdin"), until, given)
        if dropped:
            given = b"".join(os.fsencode(path) + b"\0" for path in dropped)
            self._run(("update-index", "-z", "--force-remove", "--stdin"), until, given)
        if taken or dropped or not self._tree:
            self._tree = self._run(("write-tree",), until).decode().strip()
        folders = self._folders_alone(listed, unfolded, left_out, until, changed=bool(taken))
        outside = self._outsides.after(
            around, touched=dict.fromkeys((*touched, *taken)), dropped=dropped, folders=folders
        )
        return State(self._tree, tuple(left_out), outside)

    def _look_through_index(self, until: float) -> None:
        """Read the known paths from the index. Rebuild it first when it was copied with flags that hide files
        (assume-unchanged, skip-worktree) or in the middle of a merge; drop its submodules."""
        listed = self._run(("ls-files", "-z", "-s", "-v"), until).split(b"\0")
        entries = [line.partition(b"\t") for line in listed if line]
        if any(facts[:1] != b"H" or facts[-1:] != b"0" for facts, _, _ in entries):
            self._start_over()
            entries = []
        repositories = [path for facts, _, path in entries if int(facts[2:8], 8) == _GITLINK]
        if repositories:
            self._run(
                ("update-index", "-z", "--force-remove", "--stdin"), until, b"\0".join((*repositories, b""))
            )
        known = {path for _, _, path in entries}.difference(repositories)
        self._outsides.know(os.fsdecode(path) for path in known)
        self._is_known = True

    def _touched_files(self, until: float) -> tuple[list[str], list[str]]:
        """Return the known files that look changed from outside, and those of them to read: all when they are
        few; else git compares them first, so that files with new permissions alone do not count as
        changed."""
        looked = ("diff-files", "-z", "--name-only", "--no-ext-diff")
        touched = _paths(self._run(looked, until))
        if len(touched) <= _MAX_READ:
            return touched, touched
        self._run(("update-index", "-q", "--refresh"), until)
        return touched, _paths(self._run(looked, until))

    def _with_folders(self, listed: Sequence[str]) -> list[str]:
        """Return the paths, with those that are a folder by now where a file was: git names only the file
        then."""
        now = [path for path in listed if not path.endswith("/") and _is_folder(f"{self._git.root}/{path}")]
        return [*listed, *(f"{path}/" for path in now)]

    def _list_changes(self, listed: Sequence[str], until: float) -> tuple[list[str], list[str]]:
        """Return the paths of files that changed or are new, and the new folders that were looked into for
        them."""
        folders = [
            path for path in listed if path.endswith("/") and not only_folders(f"{self._git.root}/{path}")
        ]
        files = [path for path in listed if not path.endswith("/")]
        if folders:
            files += _paths(self._run(("ls-files", "-z", *_OTHERS, *_within(folders)), until))
        return list(dict.fromkeys(files)), folders

    def _folders_alone(
        self,
        listed: Sequence[str],
        unfolded: Sequence[str],
        left_out: Sequence[str],
        until: float,
        *,
        changed: bool,
    ) -> list[str]:
        """Return folders without a file that is kept, and the empty ones in them."""
        alone = [path for path in listed if path.endswith("/") and path not in unfolded]
        if unfolded and changed:
            arguments = ("ls-files", "-z", *_OTHERS, "--directory", *_within(unfolded))
            unfolded = [path for path in _paths(self._run(arguments, until)) if path.endswith("/")]
        alone += [path for path in unfolded if path not in left_out]
        found: list[str] = []
        for path in alone:
            # What else may be in them is ignored, and then so are the folders of that.
            empty = only_folders(f"{self._git.root}/{path}")
            found += folders_below(self._git.root, path) if empty else [path.rstrip("/")]
        return found

    def _sort_paths(self, paths: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """Return paths to look into, paths that must leave the index, and what to tell of them."""
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
            if path.endswith("/"):
                left_out.append(path)  # a repository of its own
            elif stat.S_ISDIR(status.st_mode):
                dropped.append(path)  # a folder where a file was: what is in it is listed as well
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

    def differences(self, before: State, after: State) -> tuple[Difference, ...]:
        """Return the files that are different in two states. Raises `CheckpointError`."""
        found = self._trees(before, after) if before.tree != after.tree else []
        named = {one.path for one in found}
        for path in before.outside.other_modes(after.outside) - named:
            # Only its permissions: the content is asked for by its place in the tree, on one line.
            if "\n" not in path:
                content = f"{after.tree}:{path}"
                modes = (before.outside.mode_of(path), after.outside.mode_of(path))
                found.append(Difference(path, Version(modes[0], content), Version(modes[1], content)))
        return tuple(found)

    def _trees(self, before: State, after: State) -> list[Difference]:
        arguments = ("diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", before.tree, after.tree)
        return _parse_differences(self._git.run(arguments, limit_s=self._bounds.limit_s), before, after)

    def contents(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return contents by name; what can't be read any more is missing. Raises `CheckpointError`."""
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        given = b"".join(os.fsencode(name) + b"\n" for name in wanted)
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
        with self._git.start(arguments) as said:
            return self._in_time(said, until, given)

    def _in_time(self, said: Callable[[float, bytes], bytes], until: float, given: bytes = b"") -> bytes:
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise _too_large(f"looking at it takes longer than {self._bounds.limit_s:g} s")
        return said(left_s, given)


def _paths(said: bytes) -> list[str]:
    return [os.fsdecode(path) for path in dict.fromkeys(said.split(b"\0")) if path]


def _is_folder(real: str) -> bool:
    return os.path.isdir(real) and not os.path.islink(real)


def _within(folders: Sequence[str]) -> tuple[str, ...]:
    """Return arguments that keep a command to some folders, where there are few enough for a command line."""
    return ("--", *folders) if len(folders) <= _MAX_NAMED else ()


def _parse_differences(said: bytes, before: State, after: State) -> list[Difference]:
    """Parse git's comparison of two trees."""
    fields = said.split(b"\0")
    found: list[Difference] = []
    for what, name in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old, new, _kind = what.decode().lstrip(":").split(" ")
        path = os.fsdecode(name)
        if _GITLINK in (int(old_mode, 8), int(new_mode, 8)):
            continue
        versions = [
            None if not int(mode, 8) else Version(_full(int(mode, 8), path, state), content)
            for mode, content, state in ((old_mode, old, before), (new_mode, new, after))
        ]
        found.append(Difference(path, *versions))
    return found


def _full(mode: int, path: str, state: State) -> int:
    """Return git's mode with the permissions it does not store."""
    return mode if mode == LINK_MODE else state.outside.mode_of(path) or usual_mode(mode)


def _too_large(why: str) -> CheckpointError:
    return CheckpointError(f"the working tree is too large for checkpoints: {why}; ignored files don't count")
