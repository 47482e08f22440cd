"""Instruction files of folders below the working directory: found when a tool first touches the folder, given
to the model as a message, so that the prefix providers cache is not rewritten."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

from buddy.extend.instructions import InstructionFile, for_directory, labelled
from buddy.safety.paths import is_beneath
from buddy.workspace.ignore import IgnoreTree


class InstructionPlaces(msgspec.Struct, frozen=True):
    """The folders in which instruction files are looked for. `root` and `cwd` are real paths; `known` are the
    files that stand in the system prompt already."""

    root: str
    cwd: str
    home: str
    names: tuple[str, ...]
    trusted: bool
    known: tuple[str, ...]


class FolderInstructions:
    """The folders one task has touched. A task that starts from a copy of its conversation gets a copy."""

    def __init__(self, places: InstructionPlaces) -> None:
        self._places = places
        self._seen: set[str] = {places.cwd}
        self._new: list[str] = []

    def copy(self) -> FolderInstructions:
        """The same knowledge for another task."""
        twin = FolderInstructions(self._places)
        twin._seen, twin._new = set(self._seen), list(self._new)
        return twin

    def touched(self, paths: Iterable[str]) -> None:
        """A call read or wrote these, as its arguments name them. Looks at no file."""
        for path in paths:
            at = os.path.normpath(os.path.join(self._places.cwd, os.path.expanduser(path)))
            for folder in _below(self._places.cwd, at):
                if folder not in self._seen:
                    self._seen.add(folder)
                    self._new.append(folder)

    def take(self) -> tuple[str, ...]:
        """The texts of files in folders touched since, the outermost first. Folders that are ignored hold
        what others wrote: they instruct nobody. Blocks; call it in a thread when `waiting`."""
        folders, self._new = self._new, []
        rules = IgnoreTree(self._places.root)
        files = (self._file(folder, rules) for folder in folders)
        return tuple(labelled(file, trusted=self._places.trusted) for file in files if file is not None)

    @property
    def waiting(self) -> bool:
        """Tell whether folders were touched and not yet searched for instructions. A path that is a file is
        forgotten here: one stat of what a call has just used, where a thread for nothing would cost a hundred
        times that."""
        self._new = [path for path in self._new if os.path.isdir(path)]
        return bool(self._new)

    def _file(self, folder: str, rules: IgnoreTree) -> InstructionFile | None:
        places = self._places
        real = os.path.realpath(folder)
        if not os.path.isdir(real) or not is_beneath(real, places.root) or rules.ignored(real, True):
            return None
        return for_directory(
            folder, root=places.root, home=places.home, names=places.names, known=places.known
        )


def _below(cwd: str, path: str) -> Sequence[str]:
    """The path and the folders above it, up to the working directory without it, the outermost first. The
    path itself may be a folder: whether it is one is looked at later."""
    if not path.startswith(cwd.rstrip("/") + "/"):
        return ()
    found: list[str] = []
    while path != cwd:
        found.append(path)
        path = os.path.dirname(path)
    return found[::-1]
