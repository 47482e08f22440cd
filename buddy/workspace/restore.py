"""Putting a file back into a state it had: regular files and links, never over something unexpected."""

from __future__ import annotations

import os
import stat

import msgspec

from buddy.agent.tool import ToolError
from buddy.workspace.disk import Disk
from buddy.workspace.files import (
    Loaded,
    Replacement,
    folder_of,
    load,
    remove,
    replace,
    stamp_of,
    status_of,
    temporary_name,
)

LINK = stat.S_IFLNK
"""In a mode: what is described is a link, its content the target's path."""
_EXECUTABLE = 0o111


class Move(msgspec.Struct, frozen=True):
    """One file's way back: what is there, what shall be (None: nothing), with which mode (0: as it is, or the
    usual one for a new file; `LINK` for a link). `already`: it is so."""

    real: str
    shown: str
    now: Loaded | None
    wanted: bytes | None
    mode: int
    already: bool


def look(real: str, shown: str) -> Loaded | None:
    """What is at a path: a file, a link (its target as bytes, `LINK` in the mode), or None. Raises
    `ToolError` for anything else."""
    status = status_of(real)
    if status is None or not stat.S_ISLNK(status.st_mode):
        return load(real, shown)
    with folder_of(real) as (folder, name):
        target = os.readlink(name, dir_fd=folder)
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return Loaded(os.fsencode(target), LINK, stamp_of(status), status.st_nlink)


def is_link(mode: int) -> bool:
    """Whether a mode says that the content is a link's target."""
    return stat.S_IFMT(mode) == LINK


def same_kind(now: Loaded | None, mode: int) -> bool:
    """Whether what is there is of a mode's kind: a link, or a file."""
    return now is None or is_link(now.mode) == is_link(mode)


def mode_for(now: Loaded | None, mode: int) -> int:
    """The mode to write: of a file that is there only whether it is executable changes, the rest is its
    owner's."""
    if is_link(mode) or not mode or now is None or is_link(now.mode):
        return mode
    if bool(mode & _EXECUTABLE) == bool(now.mode & _EXECUTABLE):
        return now.mode
    return now.mode | (now.mode & 0o444) >> 2 if mode & _EXECUTABLE else now.mode & ~_EXECUTABLE


def carry_out(move: Move, disk: Disk) -> None:
    """Make it so. Raises `ToolError`, `OSError`; then the file is as it was."""
    if move.already:
        return
    if move.wanted is None:
        if move.now is not None:
            remove(move.real, move.shown, move.now)
        return
    if is_link(move.mode):
        _make_link(move)
        return
    now = move.now
    if now is not None and is_link(now.mode):
        remove(move.real, move.shown, now)
        now = None
    mode = move.mode or (now.mode if now else None)
    replace(Replacement(move.real, move.shown, move.wanted, now, mode or None), disk)


def _make_link(move: Move) -> None:
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
        beside = temporary_name()
        os.symlink(target, beside, dir_fd=folder)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)


def reversed_move(move: Move) -> Move:
    """The way back from a move that was carried out."""
    was = move.now
    return Move(
        move.real,
        move.shown,
        look(move.real, move.shown),
        None if was is None else was.data,
        was.mode if was else 0,
        already=False,
    )
