"""Parts of a working tree that git does not store: permissions, and folders, including empty ones."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence

import msgspec

from buddy.workspace.folders import umask

_MAX_BELOW = 2_000
_YOUNG_S = 3.0
"""Longer than the second that the index keeps, with room for coarse clocks of file systems."""


class Outside(msgspec.Struct, frozen=True):
    """Permissions of the files of a state (0: not known), and its folders with theirs and the file type's
    bits; paths relative to the root."""

    modes: dict[str, int]
    folders: dict[str, int]

    def mode_of(self, path: str) -> int:
        """A file's permissions, 0 where they are not known."""
        return self.modes.get(path, 0)

    def other_modes(self, after: Outside) -> set[str]:
        """Files of both states whose permissions differ."""
        if self.modes == after.modes:
            return set()
        return {path for path, mode in self.modes.items() if mode and (after.modes.get(path) or mode) != mode}

    def other_folders(self, after: Outside) -> dict[str, tuple[int, int]]:
        """Folders that are only in one of the states or have other permissions, before and after."""
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
        """Nothing is known any more."""
        self._files, self._folders, self._young = {}, {}, set()

    def know(self, paths: Iterable[str]) -> None:
        """These files are kept; each is looked at the next time."""
        self._files = dict.fromkeys(paths, 0)
        self._folders = dict.fromkeys(_above(self._files), 0)
        self._young = set(self._files)

    def look(self) -> dict[str, int]:
        """The known folders as they are now, without those that are gone."""
        return self._existing(self._folders)

    def after(
        self,
        around: dict[str, int],
        *,
        touched: Iterable[str],
        dropped: Sequence[str],
        folders: Sequence[str],
    ) -> Outside:
        """The state once git's index is up to date: `around` are the folders that were seen, `touched` the
        files that are new, gone or changed from outside, `dropped` those that are not kept, `folders` those
        that were found since."""
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
        """Permissions of regular files; 0 for what is none, or is gone. Keeps which of them are young."""
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
        """Folders that are there, with their permissions and the file type's bits."""
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
    """Every folder above these paths, the root left out."""
    found: set[str] = set()
    for path in paths:
        folder = os.path.dirname(path)
        while folder and folder not in found:
            found.add(folder)
            folder = os.path.dirname(folder)
    return found


def usual_mode(git_mode: int) -> int:
    """The permissions of a new file that is executable or not."""
    return (0o777 if git_mode & 0o111 else 0o666) & ~umask()


def only_folders(real: str) -> bool:
    """Tell whether a folder holds only folders, at every depth; False when one of them can't be read."""
    try:
        with os.scandir(real) as entries:
            return all(entry.is_dir(follow_symlinks=False) and only_folders(entry.path) for entry in entries)
    except OSError:
        return False


def folders_below(root: str, folder: str) -> list[str]:
    """A folder and those in it, relative to the root, repositories left out; not without end."""
    found: list[str] = []
    for top, inner, names in os.walk(os.path.join(root, folder)):
        if ".git" in inner or ".git" in names:
            inner.clear()
            continue
        found.append(os.path.relpath(top, root))
        if len(found) >= _MAX_BELOW:
            break
    return found
