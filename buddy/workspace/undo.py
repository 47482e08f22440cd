"""What edits replaced: enough to take each back, on disk before the edit is.

A folder of the session holds `log.jsonl` (one line per entry) and `blobs/` (contents by hash). An entry is
written before its files are, so after a crash it tells for each file whether it is still the old or already
the new one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from buddy.agent.tool import ToolError
from buddy.workspace.blobs import BlobStore
from buddy.workspace.disk import DISK, Disk, write_all
from buddy.workspace.files import (
    Loaded,
    Replacement,
    digest_of,
    folder_of,
    load,
    remove,
    replace,
    temporary_name,
)
from buddy.workspace.locks import FileLocks

NOTHING = ""
"""The hash of a file that does not exist."""


class FileVersions(msgspec.Struct, frozen=True):
    """One file of an entry: hashes before and after ("" when there is no file), the mode before, and the name
    of the temporary file, which a crash may leave behind."""

    real: str
    before: str
    after: str
    mode: int
    temporary: str


class UndoEntry(msgspec.Struct, frozen=True, tag="edit", tag_field="kind"):
    """One call's changes, taken back together."""

    id: int
    task_id: int
    call_id: str
    tool: str
    files: tuple[FileVersions, ...]


class Dropped(msgspec.Struct, frozen=True, tag="dropped", tag_field="kind"):
    """The entry no longer counts: it was not applied after all."""

    id: int


class Undone(msgspec.Struct, frozen=True, tag="undone", tag_field="kind"):
    """The entry was taken back."""

    id: int


class Redone(msgspec.Struct, frozen=True, tag="redone", tag_field="kind"):
    """The entry was applied again."""

    id: int


_Line = UndoEntry | Dropped | Undone | Redone


class Intent(msgspec.Struct, frozen=True):
    """A change about to be made. `after` is None for a deletion, `before` for a new file."""

    real: str
    before: Loaded | None
    after: bytes | None


class UndoLog:
    """The edits of a session. Made with a folder; nothing is read or written before the first use."""

    def __init__(self, folder: str, disk: Disk = DISK) -> None:
        self._folder = folder
        self._blobs = BlobStore(os.path.join(folder, "blobs"), disk)
        self.disk = disk
        self._guard = threading.RLock()
        self._entries: dict[int, UndoEntry] = {}
        self._undone: list[int] = []
        self._last = 0
        self._loaded = False

    def entries(self, task_id: int | None = None) -> tuple[UndoEntry, ...]:
        """Edits that stand, oldest first; of one task if asked."""
        with self._guard:
            self._load()
            return tuple(
                entry
                for entry in self._entries.values()
                if entry.id not in self._undone and task_id in (None, entry.task_id)
            )

    def prepare(self, task_id: int, call_id: str, tool: str, intents: Sequence[Intent]) -> UndoEntry:
        """Put what is about to be replaced on disk. Raises `OSError` when that fails: then nothing may be
        written."""
        with self._guard:
            self._load()
            self._last += 1
            entry = UndoEntry(self._last, task_id, call_id, tool, tuple(map(self._versions, intents)))
            self._append(entry)
            self._entries[entry.id] = entry
            self._undone = [
                done for done in self._undone if self._entries[done].task_id != task_id
            ]  # a new edit ends redoing
            return entry

    def drop(self, entry: UndoEntry) -> None:
        """The entry's files were not written after all."""
        with self._guard:
            self._entries.pop(entry.id, None)
            with suppress(OSError):  # it would be found unapplied at the next load
                self._append(Dropped(entry.id))

    def undo(self, locks: FileLocks, task_id: int | None = None) -> UndoEntry:
        """Take back the last edit (of a task). Raises `ToolError` when there is none or a file is not what
        the edit made of it: then nothing is changed."""
        standing = self.entries(task_id)
        if not standing:
            raise ToolError("there is no edit to take back")
        entry = standing[-1]
        # Files are locked before the log everywhere; the other order could wait in a circle with an edit.
        with locks.holding(*(file.real for file in entry.files)), self._guard:
            if entry not in self.entries(task_id):
                raise ToolError("that edit was taken back meanwhile")
            self._switch(entry, back=True)
            self._undone.append(entry.id)
            self._append(Undone(entry.id))
        return entry

    def redo(self, locks: FileLocks, task_id: int | None = None) -> UndoEntry:
        """Apply again what was last taken back. Raises as `undo` does."""
        with self._guard:
            self._load()
            ids = [id_ for id_ in self._undone if task_id in (None, self._entries[id_].task_id)]
        if not ids:
            raise ToolError("nothing was taken back since the last edit")
        entry = self._entries[ids[-1]]
        with locks.holding(*(file.real for file in entry.files)), self._guard:
            if entry.id not in self._undone:
                raise ToolError("that edit was applied again meanwhile")
            self._switch(entry, back=False)
            self._undone.remove(entry.id)
            self._append(Redone(entry.id))
        return entry

    def _versions(self, intent: Intent) -> FileVersions:
        before = NOTHING if intent.before is None else self._blobs.store(intent.before.data)
        after = NOTHING if intent.after is None else digest_of(intent.after)
        mode = 0 if intent.before is None else intent.before.mode
        return FileVersions(intent.real, before, after, mode, temporary_name())

    def _append(self, line: _Line) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        path = os.path.join(self._folder, "log.jsonl")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # The newline first: a line torn by a crash then does not swallow this one.
            write_all(self.disk, descriptor, b"\n" + msgspec.json.encode(line) + b"\n")
        finally:
            os.close(descriptor)

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        try:
            with open(os.path.join(self._folder, "log.jsonl"), "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return
        for text in lines:
            with suppress(
                msgspec.MsgspecError, UnicodeDecodeError
            ):  # a line torn by a crash: its edit was not made
                self._replay(msgspec.json.decode(text, type=_Line))
        for entry in self._entries.values():
            for file in entry.files:
                _sweep(file)

    def _replay(self, line: _Line) -> None:
        match line:
            case UndoEntry():
                self._entries[line.id] = line
                self._last = max(self._last, line.id)
                self._undone = [id_ for id_ in self._undone if self._entries[id_].task_id != line.task_id]
            case Dropped():
                self._entries.pop(line.id, None)
            case Undone():
                self._undone.append(line.id)
            case Redone():
                if line.id in self._undone:
                    self._undone.remove(line.id)

    def _switch(self, entry: UndoEntry, *, back: bool) -> None:
        moves = [self._move(file, back=back) for file in entry.files]
        done: list[_Move] = []
        try:
            for move in moves:
                self._carry_out(move)
                done.append(move)
        except (OSError, ToolError) as error:
            for move in reversed(done):
                with suppress(OSError, ToolError):
                    self._carry_out(_reversed(move))
            raise ToolError(f"could not restore: {error}; nothing was changed") from error

    def _move(self, file: FileVersions, *, back: bool) -> _Move:
        """What to write, after a look at what is there. Storing what is there first makes the step
        reversible."""
        expected, wanted = (file.after, file.before) if back else (file.before, file.after)
        shown = os.path.relpath(file.real)
        now = load(file.real, shown)
        found = NOTHING if now is None else now.digest
        data = None if wanted == NOTHING else self._blobs.load(wanted)
        if found not in (expected, wanted):
            raise ToolError(
                f"{shown} was changed by something else after that edit; taking the edit back would lose "
                "that. Nothing was changed."
            )
        if now is not None:
            self._blobs.store(now.data)
        return _Move(file.real, shown, now, data, file.mode, already=found == wanted)

    def _carry_out(self, move: _Move) -> None:
        if move.already:
            return
        if move.wanted is None:
            if move.now is not None:
                remove(move.real, move.shown, move.now)
            return
        mode = move.mode or (move.now.mode if move.now else None)
        replace(Replacement(move.real, move.shown, move.wanted, move.now, mode or None), self.disk)


class _Move(msgspec.Struct, frozen=True):
    real: str
    shown: str
    now: Loaded | None
    wanted: bytes | None
    mode: int
    already: bool


def _reversed(move: _Move) -> _Move:
    now = load(move.real, move.shown)
    was = move.now
    return _Move(
        move.real, move.shown, now, None if was is None else was.data, was.mode if was else 0, already=False
    )


def _sweep(file: FileVersions) -> None:
    """Remove the temporary file a crash left beside its target."""
    with suppress(OSError, ToolError), folder_of(file.real) as (folder, _):
        os.unlink(file.temporary, dir_fd=folder)
