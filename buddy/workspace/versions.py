"""Files brought from one version to another and back: all of them, or none.

What is there is looked at first; what somebody else changed since is never lost.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.sanitise import visible
from buddy.workspace.blobs import BlobStore
from buddy.workspace.disk import Disk
from buddy.workspace.files import LoadedFile, digest_of
from buddy.workspace.folders import FolderSwitch, FolderVersions, to_be_made
from buddy.workspace.merge import merge_bytes
from buddy.workspace.restore import Move, carry_out, is_link, look, mode_for, reversed_move, same_kind

NOTHING = ""
"""The hash of a file that does not exist."""


class FileVersions(msgspec.Struct, frozen=True):
    """One file of an entry: hashes before and after ("" when there is no file), the mode before (0: not
    known), the name of the temporary file, which a crash may leave behind, and the mode after (0: the same as
    before)."""

    real: str
    before: str
    after: str
    mode: int
    temporary: str
    mode_after: int = 0

    def reversed(self) -> FileVersions:
        """The change that takes this one back."""
        return FileVersions(
            self.real, self.after, self.before, self.mode_after or self.mode, self.temporary, self.mode
        )


def content_of(blobs: BlobStore, digest: str) -> bytes | None:
    """A content that was kept, None for `NOTHING`. Raises `ToolError` when it is gone."""
    return None if digest == NOTHING else blobs.load(digest)


class Switched(msgspec.Struct, frozen=True):
    """The files and folders that really changed."""

    files: tuple[FileVersions, ...]
    folders: tuple[FolderVersions, ...]


def switch(
    files: Sequence[FileVersions],
    folders: Sequence[FolderVersions],
    blobs: BlobStore,
    disk: Disk,
    *,
    merging: bool,
) -> Switched:
    """Bring files and folders from their `before` to their `after`. Raises `ToolError`; then nothing has
    changed."""
    named = {folder.real for folder in folders}
    coming = [file.real for file in files if file.after != NOTHING]
    around = FolderSwitch([*folders, *(one for one in to_be_made(coming) if one.real not in named)])
    try:
        moves = [_move(file, blobs, around, merging=merging) for file in files]
    except OSError as error:
        raise ToolError(f"could not restore: {error}; nothing was changed") from error
    done: list[Move] = []
    try:
        _carry_out(moves, around, disk, done)
    except (OSError, ToolError) as error:
        for move in reversed(done):
            with suppress(OSError, ToolError):
                carry_out(reversed_move(move), disk)
        around.take_back()
        raise ToolError(f"could not restore: {error}; nothing was changed") from error
    changed = tuple(_versions_of(move, file) for move, file in zip(moves, files, strict=True))
    return Switched(changed, around.changed)


def _carry_out(moves: Sequence[Move], around: FolderSwitch, disk: Disk, done: list[Move]) -> None:
    """Carry out the moves, removals first, so that a file can replace a folder and a folder a file."""
    around.open()
    for move in (_again(move) for move in moves if move.wanted is None):
        carry_out(move, disk)
        done.append(move)
    around.remove()
    around.make()
    for move in (_again(move) for move in moves if move.wanted is not None):
        if move.now is None and os.path.isdir(move.real) and not os.path.islink(move.real):
            raise ToolError(f"{move.shown} is a folder, and something is in it; move it away first")
        carry_out(move, disk)
        done.append(move)
    around.settle()


def _again(move: Move) -> Move:
    """With the outside of its file as it is by now: another name of the same file may have been put back just
    before, and that is seen of this one."""
    if move.now is None or move.now.links < 2:
        return move
    now = look(move.real, move.shown)
    same = now is not None and (now.data, now.mode) == (move.now.data, move.now.mode)
    return msgspec.structs.replace(move, now=now) if same else move


def _move(file: FileVersions, blobs: BlobStore, around: FolderSwitch, *, merging: bool) -> Move:
    """Return the write that restores a version, after reading the current file. The current content is stored
    first, so that the step is reversible."""
    shown = visible(os.path.relpath(file.real))
    now = None if around.will_go(file.real) else look(file.real, shown)
    found = NOTHING if now is None else now.digest
    wanted = content_of(blobs, file.after)
    mode = file.mode_after or file.mode
    if found == file.after and same_kind(now, mode):
        wanted_mode = mode_for(now, file.mode, mode)
        unchanged = now is None or wanted_mode in (0, now.mode)
        return Move(file.real, shown, now, wanted, wanted_mode, already=unchanged)
    if found != file.before or not same_kind(now, file.mode):
        if not merging:
            raise ToolError(
                f"{shown} was changed by something else after that edit; taking the edit back would lose "
                "that. Nothing was changed."
            )
        wanted = _merged(file, now, wanted, content_of(blobs, file.before))
    if now is not None:
        blobs.store(now.data)
    if wanted is not None:
        blobs.store(wanted)
    to = mode_for(now, file.mode, mode)
    return Move(file.real, shown, now, wanted, to, already=False, temporary=file.temporary)


def _merged(file: FileVersions, now: LoadedFile | None, wanted: bytes | None, base: bytes | None) -> bytes:
    """The wanted content with what somebody else changed since. Raises `ToolError`."""
    shown = os.path.relpath(file.real)
    if now is None or base is None or wanted is None or is_link(now.mode | file.mode):
        what = "deleted" if now is None else "changed" if base is not None else "created"
        raise ToolError(f"{shown} was {what} by something else since. Nothing was changed.")
    merged = merge_bytes(base, now.data, wanted)
    if isinstance(merged, bytes):
        return merged
    where = "" if merged is None else f" (lines {merged.first} to {merged.last} as the edit left them)"
    raise ToolError(
        f"{shown} was changed by something else in the same place{where}; taking the edit back would "
        "lose that. Nothing was changed."
    )


def _versions_of(move: Move, file: FileVersions) -> FileVersions:
    before = NOTHING if move.now is None else digest_of(move.now.data)
    after = NOTHING if move.wanted is None else digest_of(move.wanted)
    mode = 0 if move.now is None else move.now.mode
    mode_after = move.mode or file.mode_after or file.mode
    return FileVersions(move.real, before, after, mode, file.temporary, mode_after)
