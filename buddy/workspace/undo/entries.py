"""The lines of an undo log, sealed and on disk before any file is changed, and the contents they name."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.json_codec import decode, encode
from buddy.agent.tool import ToolError
from buddy.safety.paths import is_beneath, make_private_folders, open_regular
from buddy.safety.sanitise import visible
from buddy.safety.seal import Seal
from buddy.workspace.files.atomic_replace import Disk, write_all
from buddy.workspace.files.line_diff import merge_bytes
from buddy.workspace.files.store import LoadedFile, digest_of
from buddy.workspace.undo.moves import FolderSwitch, FolderVersions, RenamedPath, missing_parents
from buddy.workspace.undo.restore import Move, Restorer, inverse_move, is_link, mode_for, same_kind


class ChangedSinceError(ToolError):
    """A file was changed after the change that is to be taken back."""


class BlobStore:
    """A folder of contents, made on first use and readable by its owner only."""

    def __init__(self, folder: str, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    def store(self, data: bytes, digest: str = "") -> str:
        """Store a content and return its hash, which a caller may pass if known. Raises `OSError`; then
        nothing is stored."""
        digest = digest or digest_of(data)
        path = os.path.join(self._folder, digest)
        if os.path.exists(path):
            return digest
        make_private_folders(self._folder)
        beside = f"{path}.{os.getpid()}.{threading.get_ident()}"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with on_failure(os.unlink, beside):
            try:
                write_all(self._disk, descriptor, data)
            finally:
                os.close(descriptor)
            os.rename(beside, path)
        return digest

    def keep(self, data: bytes, digest: str) -> None:
        """Store a content under this hash if possible, without waiting for the disk; it is only needed to
        merge. A missing one is noticed when it is read."""
        path = os.path.join(self._folder, digest)
        if os.path.exists(path):
            return
        beside = f"{path}.{os.getpid()}.{threading.get_ident()}"
        with suppress(OSError):
            make_private_folders(self._folder)
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.rename(beside, path)

    def load(self, digest: str) -> bytes:
        """Return a stored content. Raises `ToolError` when it is missing or damaged."""
        try:
            with os.fdopen(open_regular(os.path.join(self._folder, digest)), "rb") as file:
                data = file.read()
        except FileNotFoundError as error:
            raise ToolError("the content to restore is missing from the session folder") from error
        if digest_of(data) != digest:
            raise ToolError("the content to restore is damaged on disk; nothing was changed")
        return data


NOTHING = ""
"""The hash of a file that does not exist."""


class FileVersions(msgspec.Struct, frozen=True):
    """One file of an entry: hashes before and after ("" for no file), the mode before (0: unknown), the name
    of the temporary file that a crash may leave, and the mode after (0: as before)."""

    real: str
    before: str
    after: str
    mode: int
    temporary: str
    mode_after: int = 0

    def inverse(self) -> FileVersions:
        """Return the change that takes this one back."""
        return FileVersions(
            self.real, self.after, self.before, self.mode_after or self.mode, self.temporary, self.mode
        )


def content_of(blobs: BlobStore, digest: str) -> bytes | None:
    """Return a stored content, None for `NOTHING`. Raises `ToolError` when it is missing."""
    return None if digest == NOTHING else blobs.load(digest)


class Switched(msgspec.Struct, frozen=True):
    """The files and folders that really changed."""

    files: tuple[FileVersions, ...]
    folders: tuple[FolderVersions, ...]


def switch(
    files: Sequence[FileVersions],
    folders: Sequence[FolderVersions],
    blobs: BlobStore,
    place: Restorer,
    *,
    merging: bool,
) -> Switched:
    """Change files and folders from their `before` to their `after`. Raises `ToolError`; then nothing has
    changed."""
    named = {folder.real for folder in folders}
    coming = [file.real for file in files if file.after != NOTHING]
    around = FolderSwitch(
        [
            *folders,
            *(parent for parent in missing_parents(coming) if parent.real not in named),
        ]
    )
    try:
        moves = [_move(file, blobs, around, place, merging=merging) for file in files]
    except OSError as error:
        raise ToolError(f"could not restore: {error}; nothing was changed") from error
    done: list[Move] = []
    try:
        _carry_out(moves, around, place, done)
    except (OSError, ToolError) as error:
        for move in reversed(done):
            with suppress(OSError, ToolError):
                place.carry_out(inverse_move(move, place))
        around.take_back()
        raise ToolError(f"could not restore: {error}; nothing was changed") from error
    changed = tuple(_versions_of(move, file) for move, file in zip(moves, files, strict=True))
    return Switched(changed, around.changed_folders)


def _carry_out(moves: Sequence[Move], around: FolderSwitch, place: Restorer, done: list[Move]) -> None:
    """Carry out the moves, removals first, so that a file can replace a folder and a folder a file."""
    around.open()
    for move in (_again(move, place) for move in moves if move.wanted is None):
        place.carry_out(move)
        done.append(move)
    around.remove()
    around.make()
    for move in (_again(move, place) for move in moves if move.wanted is not None):
        if move.now is None and os.path.isdir(move.real) and not os.path.islink(move.real):
            raise ToolError(f"{move.shown} is a folder, and something is in it; move it away first")
        place.carry_out(move)
        done.append(move)
    around.settle()


def _again(move: Move, place: Restorer) -> Move:
    """Return the move with the current stamp of its file: restoring another name of the same file may just
    have changed it."""
    if move.now is None or move.now.links < 2:
        return move
    now = place.look(move.real, move.shown)
    same = now is not None and (now.data, now.mode) == (move.now.data, move.now.mode)
    return msgspec.structs.replace(move, now=now) if same else move


def _move(
    file: FileVersions, blobs: BlobStore, around: FolderSwitch, place: Restorer, *, merging: bool
) -> Move:
    """Return the write that restores a version, after reading the current file. The current content is stored
    first, so that the step is reversible."""
    shown = visible(os.path.relpath(file.real))
    now = None if around.will_go(file.real) else place.look(file.real, shown)
    found = NOTHING if now is None else now.digest
    wanted = content_of(blobs, file.after)
    mode = file.mode_after or file.mode
    if found == file.after and same_kind(now, mode):
        wanted_mode = mode_for(now, file.mode, mode)
        unchanged = now is None or wanted_mode in (0, now.mode)
        return Move(file.real, shown, now, wanted, wanted_mode, already=unchanged)
    if found != file.before or not same_kind(now, file.mode):
        if not merging:
            if place.is_unsaved(file.real):
                raise ChangedSinceError(
                    f"{shown} has changes in the editor that are not saved; taking this back would lose "
                    "them: save or discard them there first. Nothing was changed."
                )
            raise ChangedSinceError(
                f"{shown} was changed by something else after that edit; taking the edit back would lose "
                "that. Nothing was changed."
            )
        wanted = _merge(file, now, wanted, content_of(blobs, file.before))
    if now is not None:
        blobs.store(now.data)
    if wanted is not None:
        blobs.store(wanted)
    to = mode_for(now, file.mode, mode)
    return Move(file.real, shown, now, wanted, to, already=False, temporary=file.temporary)


def _merge(file: FileVersions, now: LoadedFile | None, wanted: bytes | None, base: bytes | None) -> bytes:
    """Merge the wanted content with changes others made since. Raises `ToolError`."""
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


class UndoEntry(msgspec.Struct, frozen=True, tag="edit", tag_field="kind"):
    """One call's changes, undone together.

    `effect` marks changes found by comparison, for a call that did not declare them (a command). `renames`
    were moved as a whole, without their contents. `folders` are those the call made, removed, or gave other
    permissions. `seconds` is the duration of such a call; what others saved meanwhile counts as its change.
    """

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
        """Return every path in the workspace that the entry changes; folders only when nothing else is."""
        moved = [
            path
            for rename in self.renames
            for path in (rename.source, "" if rename.trashed else rename.target)
        ]
        changed = (*(file.real for file in self.files), *filter(None, moved))
        return changed or tuple(folder.real for folder in self.folders)

    def stays_in(self, trees: Sequence[str]) -> bool:
        """Tell whether undo and redo touch nothing outside these folders."""
        moved = [path for rename in self.renames for path in (rename.source, rename.target)]
        touched = (*(file.real for file in self.files), *moved, *(folder.real for folder in self.folders))
        return all(
            os.path.normpath(path) == path and any(is_beneath(path, tree) for tree in trees)
            for path in touched
        )


class Dropped(msgspec.Struct, frozen=True, tag="dropped", tag_field="kind"):
    """The entry is void: it was not applied."""

    id: int


class Undone(msgspec.Struct, frozen=True, tag="undone", tag_field="kind"):
    """The entry was undone. `files` and `folders` are the actual changes if they differ from the reverse of
    the entry. A folder with the same before and after belongs to somebody else now and stays."""

    id: int
    files: tuple[FileVersions, ...] = ()
    folders: tuple[FolderVersions, ...] = ()


class Redone(msgspec.Struct, frozen=True, tag="redone", tag_field="kind"):
    """The entry was redone. `folders` are the actual changes, as in `Undone`."""

    id: int
    folders: tuple[FolderVersions, ...] = ()


Line = UndoEntry | Dropped | Undone | Redone


class EntryFile:
    """The file of a log, made with its first line."""

    def __init__(self, folder: str, disk: Disk, seal: Seal) -> None:
        self._seal = seal
        self.unsealed = 0
        self._folder = folder
        self._path = os.path.join(folder, "log.jsonl")
        self._disk = disk

    def append(self, line: Line) -> None:
        """Write a line and flush it to disk. Raises `OSError`."""
        make_private_folders(self._folder)
        descriptor = self._open(os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        data = encode(line)
        try:
            # The newline first: otherwise a line torn by a crash would absorb this one.
            write_all(self._disk, descriptor, b"\n%s %s\n" % (self._seal.of(data).encode(), data))
        finally:
            os.close(descriptor)

    def _open(self, flags: int) -> int:
        """Open the file, never waiting for a pipe in its place. Raises `OSError`."""
        # Without O_NONBLOCK, opening a pipe waits for its other end.
        descriptor = os.open(self._path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "expected a regular file, found something else", self._path)
        return descriptor

    def lines(self) -> Iterator[Line]:
        """Yield the complete lines. A torn last line is left out: its edit was not made. `unsealed` counts
        entries that another session wrote."""
        self.unsealed = 0
        try:
            with os.fdopen(self._open(os.O_RDONLY), "rb") as file:
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
        """Record that an entry was applied, undone or redone, and that it changed these files and folders."""
        self._files.extend(files)
        if entry.renames:
            self._moved.extend((len(self._files), path, entry.id) for path in entry.paths)
        self._folders.extend((len(self._files), one.real) for one in (*entry.folders, *folders))
        self._files.append(None)  # every entry gets a position, also without files

    def forget(self, entry: UndoEntry) -> None:
        """Drop an entry that was not applied."""
        self._files = [None if file in entry.files else file for file in self._files]
        self._moved = [one for one in self._moved if one[2] != entry.id]

    @property
    def position(self) -> int:
        """Return the index of the next change."""
        return len(self._files)

    def files(self, position: int) -> tuple[FileVersions, ...]:
        """Return the changes of files from a position on."""
        return tuple(file for file in self._files[position:] if file is not None)

    def moved_paths(self, position: int) -> tuple[str, ...]:
        """Return paths below which everything was moved, from a position on."""
        return tuple(path for at, path, _ in self._moved if at >= position)

    def folders(self, position: int) -> frozenset[str]:
        """Return folders that were made or removed, from a position on."""
        return frozenset(path for at, path in self._folders if at >= position)
