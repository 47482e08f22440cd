"""The restoring of a file to an earlier state: regular files and links, never over unexpected content."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Protocol

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.tool import ToolError
from buddy.safety.paths import Located
from buddy.workspace.files.access import DiskFiles
from buddy.workspace.files.atomic_replace import Disk, FileContent, TargetName, aside_of, content, take_place
from buddy.workspace.files.editor_buffers import EditorBuffers, EditorFiles
from buddy.workspace.files.store import (
    LoadedFile,
    Replacement,
    folder_of,
    load,
    remove,
    replace,
    stamp_of,
    temporary_name,
)
from buddy.workspace.undo.moves import merge_mode

LINK = stat.S_IFLNK
"""Marks a mode: the entry is a link and its content is the target."""
_EXECUTABLE = 0o111
_WRITABLE = 0o200


class Restorer(Protocol):
    """The place whose files are restored. Both block, and raise `ToolError` and `OSError`."""

    def look(self, real: str, shown: str) -> LoadedFile | None:
        """Return what stands at a path, as `look` does."""
        ...

    def carry_out(self, move: Move) -> None:
        """Restore one file, as `carry_out` does."""
        ...

    def is_unsaved(self, real: str) -> bool:
        """Tell whether the last look found changes in an editor that the disk does not have."""
        ...


class DiskRestorer:
    """Restores files on this disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def look(self, real: str, shown: str) -> LoadedFile | None:
        """Return what stands at a path."""
        return look(real, shown)

    def carry_out(self, move: Move) -> None:
        """Restore one file."""
        carry_out(move, self._disk)

    def is_unsaved(self, real: str) -> bool:
        """Tell that no editor has the file."""
        return False


class EditorRestorer:
    """Restores text files through the editor that has them, everything else on the disk."""

    def __init__(self, buffers: EditorBuffers, disk: Disk) -> None:
        self._files = EditorFiles(buffers, DiskFiles(disk))
        self._buffers = buffers
        self._disk = disk

    def is_unsaved(self, real: str) -> bool:
        """Tell whether the last look found changes in the editor that the disk does not have."""
        return self._buffers.is_unsaved(real)

    def look(self, real: str, shown: str) -> LoadedFile | None:
        """Return what stands at a path; of a text file what the editor shows."""
        there = look(real, shown)
        if there is None and not os.path.isdir(os.path.dirname(real)):
            return None
        return there if there is not None and is_link(there.mode) else self._files.load(_at(real, shown))

    def carry_out(self, move: Move) -> None:
        """Restore one file."""
        now, wanted = move.now, move.wanted
        if move.already or (now is not None and is_link(now.mode)) or is_link(move.mode):
            carry_out(move, self._disk)
        elif wanted is None:
            if now is not None:
                self._files.remove(move.real, move.shown, now, temporary=move.beside())
        elif now is None or now.data != wanted:
            self._files.replace(
                Replacement(move.real, move.shown, wanted, now, move.mode or None, move.beside())
            )
        else:
            carry_out(move, self._disk)  # permissions alone


def _at(real: str, shown: str) -> Located:
    return Located(real, real, real, True, shown, "", "")


class Move(msgspec.Struct, frozen=True):
    """The restoration of one file: its current and its wanted content (None: no file), with the mode (0:
    unchanged, or the usual one for a new file; `LINK` for a link). `already` means nothing is to be done;
    `temporary` is the name of the temporary file that the log knows, so that leftovers of a crash can be
    removed."""

    real: str
    shown: str
    now: LoadedFile | None
    wanted: bytes | None
    mode: int
    already: bool
    temporary: str = ""

    def beside(self) -> str:
        """Return a name for the temporary file: the known one, unless it is taken by another file."""
        path = os.path.join(os.path.dirname(self.real), self.temporary)
        is_free = bool(self.temporary) and not (os.path.lexists(path) or os.path.lexists(aside_of(path)))
        return self.temporary if is_free else temporary_name()


def look(real: str, shown: str) -> LoadedFile | None:
    """Load what exists at a path: a file, a link (its target as bytes, `LINK` in the mode), or None. Raises
    `ToolError` for anything else."""
    try:
        with folder_of(real) as (folder, name):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(name, dir_fd=folder)
                return LoadedFile(os.fsencode(target), LINK, stamp_of(status), status.st_nlink)
    except (FileNotFoundError, ToolError):  # a file or link is in the place of its folder
        return None
    return load(real, shown)


def is_link(mode: int) -> bool:
    """Tell whether a mode marks the content as a link's target."""
    return stat.S_IFMT(mode) == LINK


def same_kind(now: LoadedFile | None, mode: int) -> bool:
    """Tell whether the current entry is of a mode's kind (link or file); True when nothing is there."""
    return now is None or is_link(now.mode) == is_link(mode)


def mode_for(now: LoadedFile | None, before: int, after: int) -> int:
    """Return the mode to write. For an existing file, only the permissions of the change are applied (or, if
    they are unknown, whether it is executable). A new file never gets setuid, setgid or sticky."""
    if is_link(after) or not after:
        return after
    if now is None or is_link(now.mode):
        return after & 0o777
    if before and not is_link(before):
        return merge_mode(now.mode, before, after)
    if bool(after & _EXECUTABLE) == bool(now.mode & _EXECUTABLE):
        return now.mode
    return now.mode | (now.mode & 0o444) >> 2 if after & _EXECUTABLE else now.mode & ~_EXECUTABLE


def carry_out(move: Move, disk: Disk) -> None:
    """Replace or delete the file without losing a concurrent save. Raises `ToolError`, `OSError`; the file is
    then unchanged."""
    if move.already:
        return
    if move.wanted is None:
        if move.now is not None:
            remove(move.real, move.shown, move.now, disk, temporary=move.beside())
        return
    if is_link(move.mode):
        _make_link(move, disk)
        return
    now = move.now
    if now is not None and is_link(now.mode):
        _replace_link(move, now, move.wanted, disk)
        return
    if now is not None and now.data == move.wanted:
        _set_mode(move, now)
        return
    mode = move.mode or (now.mode if now else None)
    # A file that this same change made read-only is only refused if it stays read-only.
    opens = now is not None and bool(move.mode & ~now.mode & _WRITABLE)
    new = Replacement(
        move.real, move.shown, move.wanted, now, mode or None, move.beside(), read_only_too=opens
    )
    replace(new, disk)


def _replace_link(move: Move, link: LoadedFile, data: bytes, disk: Disk) -> None:
    """Replace a link by a file; at every instant one of the two exists."""
    beside = move.beside()
    made = os.path.join(os.path.dirname(move.real), beside)
    with folder_of(move.real) as (folder, name):
        if stamp_of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != link.stamp:
            raise ToolError(f"{move.shown} was changed by something else meanwhile; nothing was changed")
        replace(Replacement(made, move.shown, data, None, move.mode or None, aside_of(beside)), disk)
        with on_failure(_unlink_own, folder, beside, data):
            mode = stat.S_IMODE(os.stat(beside, dir_fd=folder, follow_symlinks=False).st_mode)
            place = TargetName(folder, name, beside, move.shown)
            take_place(place, FileContent(link.data, link.mode), FileContent(data, mode), disk)


def _unlink_own(folder: int, name: str, data: bytes) -> None:
    """Delete only what this program wrote; another file that took its name stays."""
    with suppress(OSError):
        if content(folder, name) == data:
            os.unlink(name, dir_fd=folder)


def _set_mode(move: Move, now: LoadedFile) -> None:
    """Change only the permissions: the file keeps its identity and all its names."""
    with folder_of(move.real) as (folder, name):
        if stamp_of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != now.stamp:
            raise ToolError(f"{move.shown} was changed by something else meanwhile; nothing was changed")
        os.chmod(name, move.mode, dir_fd=folder)


def _make_link(move: Move, disk: Disk) -> None:
    target = os.fsdecode(move.wanted or b"")
    with folder_of(move.real, create=move.now is None) as (folder, name):
        if move.now is None:
            try:
                os.symlink(target, name, dir_fd=folder)
            except FileExistsError as error:
                raise ToolError(f"{move.shown} appeared meanwhile; nothing was changed") from error
            return
        if stamp_of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != move.now.stamp:
            raise ToolError(f"{move.shown} was changed by something else meanwhile; nothing was changed")
        beside = move.beside()
        os.symlink(target, beside, dir_fd=folder)
        made = FileContent(os.fsencode(target), LINK)
        take_place(
            TargetName(folder, name, beside, move.shown),
            FileContent(move.now.data, move.now.mode),
            made,
            disk,
        )


def inverse_move(move: Move, place: Restorer) -> Move:
    """Return the reverse of a completed move."""
    was = move.now
    return Move(
        move.real,
        move.shown,
        place.look(move.real, move.shown),
        None if was is None else was.data,
        was.mode if was else 0,
        already=False,
        temporary=move.temporary,
    )
