"""The lines of an undo log: entries, and what became of them; on disk before anything is written. Each is
sealed with the session's key: a line that somebody put there, or brought from another session, counts for
nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from buddy.safety.descriptors import make_private_folders
from buddy.safety.paths import is_beneath
from buddy.safety.seal import Seal
from buddy.workspace.any_names import decode, encode
from buddy.workspace.disk import Disk, write_all
from buddy.workspace.folders import FolderVersions
from buddy.workspace.renames import RenamedPath
from buddy.workspace.versions import FileVersions


class UndoEntry(msgspec.Struct, frozen=True, tag="edit", tag_field="kind"):
    """One call's changes, taken back together. `effect`: what was found afterwards, of a call that did not
    say what it changes (a command). `renames`: what was moved whole, not looked into. `folders`: those the
    call made, removed, or gave other permissions. `seconds`: how long an effect's call had the files to
    itself; what anybody saved meanwhile looks like its change."""

    id: int
    task_id: int
    call_id: str
    tool: str
    files: tuple[FileVersions, ...]
    effect: bool = False
    renames: tuple[RenamedPath, ...] = ()
    folders: tuple[FolderVersions, ...] = ()
    seconds: float = 0.0

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path in the workspace that the entry changes; folders only where nothing else is."""
        moved = [path for one in self.renames for path in (one.source, "" if one.trashed else one.target)]
        changed = (*(file.real for file in self.files), *filter(None, moved))
        return changed or tuple(folder.real for folder in self.folders)

    def stays_in(self, trees: Sequence[str]) -> bool:
        """Tell whether taking it back or applying it again touches nothing outside these folders."""
        moved = [path for one in self.renames for path in (one.source, one.target)]
        touched = (*(file.real for file in self.files), *moved, *(folder.real for folder in self.folders))
        return all(
            os.path.normpath(path) == path and any(is_beneath(path, tree) for tree in trees)
            for path in touched
        )


class Dropped(msgspec.Struct, frozen=True, tag="dropped", tag_field="kind"):
    """The entry no longer counts: it was not applied after all."""

    id: int


class Undone(msgspec.Struct, frozen=True, tag="undone", tag_field="kind"):
    """The entry was taken back. `files` and `folders`: what that changed, where it is not just the entry
    backwards. A folder that is the same before and after is somebody else's by now, and is left alone."""

    id: int
    files: tuple[FileVersions, ...] = ()
    folders: tuple[FolderVersions, ...] = ()


class Redone(msgspec.Struct, frozen=True, tag="redone", tag_field="kind"):
    """The entry was applied again. `folders`: what became of folders with it, as in `Undone`."""

    id: int
    folders: tuple[FolderVersions, ...] = ()


Line = UndoEntry | Dropped | Undone | Redone


class EntryFile:
    """The file of a log, made when the first line goes into it."""

    def __init__(self, folder: str, disk: Disk, seal: Seal) -> None:
        self._seal = seal
        self.unsealed = 0
        self._folder = folder
        self._path = os.path.join(folder, "log.jsonl")
        self._disk = disk

    def append(self, line: Line) -> None:
        """Write a line and make it last. Raises `OSError`."""
        make_private_folders(self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        data = encode(line)
        try:
            # The newline first: a line torn by a crash then does not swallow this one.
            write_all(self._disk, descriptor, b"\n%s %s\n" % (self._seal.of(data).encode(), data))
        finally:
            os.close(descriptor)

    def lines(self) -> Iterator[Line]:
        """The lines that were written, the torn end of a crash left out: its edit was not made. `unsealed`
        counts entries that this session did not write."""
        self.unsealed = 0
        try:
            with os.fdopen(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
                texts = file.read().split(b"\n")
        except FileNotFoundError:
            return
        for text in texts:
            mac, _, data = text.partition(b" ")
            if self._seal.holds(data, mac):
                with suppress(msgspec.MsgspecError, ValueError):
                    yield decode(data, Line)
            else:
                self.unsealed += b'"kind":"edit"' in text or b'"kind": "edit"' in text


class Changes:
    """File changes reported by this program's calls, in order, for code that scans the tree at the same
    time."""

    def __init__(self) -> None:
        self._files: list[FileVersions | None] = []
        self._moved: list[tuple[int, str, int]] = []
        self._folders: list[tuple[int, str]] = []

    def add(
        self, entry: UndoEntry, files: Sequence[FileVersions], folders: Sequence[FolderVersions] = ()
    ) -> None:
        """An entry was made, taken back or applied again; that changed these files and folders."""
        self._files.extend(files)
        if entry.renames:
            self._moved.extend((len(self._files), path, entry.id) for path in entry.paths)
        self._folders.extend((len(self._files), one.real) for one in (*entry.folders, *folders))
        self._files.append(None)  # a position of its own, also where no file was changed

    def forget(self, entry: UndoEntry) -> None:
        """The entry was not applied after all."""
        self._files = [None if file in entry.files else file for file in self._files]
        self._moved = [one for one in self._moved if one[2] != entry.id]

    @property
    def position(self) -> int:
        """Index of the next change."""
        return len(self._files)

    def files(self, position: int) -> tuple[FileVersions, ...]:
        """The changes of files from a position on."""
        return tuple(file for file in self._files[position:] if file is not None)

    def moved(self, position: int) -> tuple[str, ...]:
        """Paths below which everything was moved, from a position on."""
        return tuple(path for at, path, _ in self._moved if at >= position)

    def folders(self, position: int) -> frozenset[str]:
        """Folders that were made or removed, from a position on."""
        return frozenset(path for at, path in self._folders if at >= position)
