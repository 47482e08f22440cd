"""Undo log: the content that edits replace, stored on disk before each edit is made.

A folder of the session holds `log.jsonl` (one line per entry) and `blobs/` (contents by hash). An entry is
written before its files are, so after a crash it tells for each file whether it is still the old or already
the new one. Entries of an earlier run count only when they carry the session's seal and stay in its trees.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.seal import Seal, random_seal
from buddy.workspace.files.atomic_replace import DISK, Disk, aside_of, content_or_target
from buddy.workspace.files.editor_buffers import EditorBuffers
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.files.store import TEMPORARY_NAME, LoadedFile, digest_of, folder_of, temporary_name
from buddy.workspace.undo.entries import (
    NOTHING,
    BlobStore,
    Changes,
    Dropped,
    EntryFile,
    FileVersions,
    Line,
    Redone,
    Switched,
    UndoEntry,
    Undone,
    content_of,
    switch,
)
from buddy.workspace.undo.moves import (
    FolderVersions,
    RenamedPath,
    already_there,
    apply_again,
    around,
    missing_parents,
    remove_empty,
    take_back,
)
from buddy.workspace.undo.restore import DiskRestorer, EditorRestorer


class Intent(msgspec.Struct, frozen=True):
    """A change about to be made. `after` is None for a deletion, `before` for a new file."""

    real: str
    before: LoadedFile | None
    after: bytes | None


class Effect(msgspec.Struct, frozen=True):
    """A change that was made. Contents are None where there is no file; modes are 0 where not known, and
    say whether it is a link."""

    real: str
    before: bytes | None
    after: bytes | None
    mode: int
    mode_after: int


SwitchElsewhere = Callable[[Sequence[FileVersions], BlobStore, bool], tuple[FileVersions, ...]]
"""Changes files of another machine from their `before` to their `after`, merging later changes if asked.
Raises `ToolError`; then nothing has changed."""


class UndoLog:
    """The edits of a session. Made with a folder; nothing is read or written before the first use.
    `switched`: how often something was taken back or applied again. `seal` is the session's, and `trees` are
    the folders it works in: what stands in the log from an earlier run is used if it has that seal and
    touches nothing else. Without them only this log's own entries are. `elsewhere` changes files where they
    are on another machine: paths are those over there, and this one's are never touched. `buffers` are the
    files of an editor, which are restored there."""

    def __init__(
        self,
        folder: str,
        disk: Disk = DISK,
        *,
        seal: Seal | None = None,
        trees: Sequence[str] = (),
        elsewhere: SwitchElsewhere | None = None,
        buffers: EditorBuffers | None = None,
    ) -> None:
        self._place = DiskRestorer(disk) if buffers is None else EditorRestorer(buffers, disk)
        self._elsewhere = elsewhere
        self._file = EntryFile(folder, disk, seal or random_seal())
        self._trees = tuple(trees)
        self._outside = 0
        self._blobs = BlobStore(os.path.join(folder, "blobs"), disk)
        self.disk = disk
        self._guard = threading.RLock()
        self._entries: dict[int, UndoEntry] = {}
        self._undone: list[int] = []
        self._taken: dict[int, tuple[FileVersions, ...]] = {}
        self._folders: dict[int, tuple[FolderVersions, ...]] = {}
        self._changes = Changes()
        self._switched: dict[str, dict[str, str]] = {}
        """Per file the contents that an undo or a redo replaced, and by which."""
        self.switched = 0
        self._last = 0
        self._loaded = False

    def entries(self, task_id: int | None = None, *, undone: bool = False) -> tuple[UndoEntry, ...]:
        """Return edits that stand (or were taken back: `undone`), oldest first; of one task if asked."""
        with self._guard:
            self._load()
            return tuple(
                entry
                for entry in self._entries.values()
                if (entry.id in self._undone) == undone and task_id in (None, entry.task_id)
            )

    def unused_notice(self) -> str:
        """Return entries of an earlier run that are not used, and why, for the person; "" when all are."""
        with self._guard:
            self._load()
            parts: list[str] = []
            if self._file.unsealed:
                parts.append(f"{self._file.unsealed} were not written by this session here")
            if self._outside:
                parts.append(f"{self._outside} lie outside this workspace")
        return f"not used for /undo: {', '.join(parts)}" if parts else ""

    def prepare(self, task_id: int, call_id: str, tool: str, intents: Sequence[Intent]) -> UndoEntry:
        """Put what is about to be replaced on disk. Raises `OSError` when that fails: then nothing may be
        written."""
        with self._guard:
            self._load()
            self._last += 1
            new = () if self._elsewhere else (intent.real for intent in intents if intent.after is not None)
            made = missing_parents(new)
            files = tuple(_versions(self._blobs, intent) for intent in intents)
            entry = UndoEntry(self._last, task_id, call_id, tool, files, folders=made)
            self._file.append(entry)
            for intent, versions in zip(intents, entry.files, strict=True):
                if intent.after is not None:
                    self._blobs.keep(intent.after, versions.after)
            self._add(entry)
            return entry

    def prepare_renames(
        self, task_id: int, call_id: str, tool: str, renames: Sequence[RenamedPath]
    ) -> UndoEntry:
        """Put on disk what is about to be moved whole. Raises `OSError`; then nothing may be moved."""
        with self._guard:
            self._load()
            self._last += 1
            made = missing_parents(rename.target for rename in renames if not rename.trashed)
            entry = UndoEntry(self._last, task_id, call_id, tool, (), renames=tuple(renames), folders=made)
            self._file.append(entry)
            self._add(entry)
            return entry

    def record(
        self,
        task_id: int,
        call_id: str,
        tool: str,
        effects: Sequence[Effect],
        folders: Sequence[FolderVersions] = (),
        *,
        seconds: float = 0.0,
    ) -> UndoEntry:
        """Record what a call turned out to have changed. Raises `OSError`; then nothing is kept."""
        with self._guard:
            self._load()
            files = tuple(_store_versions(self._blobs, effect) for effect in effects)
            self._last += 1
            made = UndoEntry(self._last, task_id, call_id, tool, files, effect=True, folders=tuple(folders))
            entry = msgspec.structs.replace(made, seconds=seconds)
            self._file.append(entry)
            self._add(entry)
            return entry

    def entry_of(self, call_id: str) -> int:
        """Return the newest entry of a call, 0 when it has none."""
        with self._guard:
            self._load()
            return next(
                (entry.id for entry in reversed(self._entries.values()) if entry.call_id == call_id), 0
            )

    def position(self) -> int:
        """Number of file changes this program has logged so far; an argument for `since`."""
        with self._guard:
            self._load()
            return self._changes.position

    def since(self, position: int) -> tuple[FileVersions, ...]:
        """Return the changes after a position: edits, effects, and what undo and redo did."""
        with self._guard:
            return self._changes.files(position)

    def moved_since(self, position: int) -> tuple[str, ...]:
        """Return paths below which everything was moved, by a call that said so, after a position."""
        with self._guard:
            return self._changes.moved_paths(position)

    def folders_since(self, position: int) -> frozenset[str]:
        """Return folders that were made or removed, by a call that said so, an undo or a redo, after a
        position."""
        with self._guard:
            return self._changes.folders(position)

    def led_to(self, real: str, before: str, after: str) -> bool:
        """Tell whether undos and redos alone made one content of a file (a hash, `NOTHING`) into another."""
        with self._guard:
            switches = self._switched.get(real, {})
            while before != after and before in switches:
                before = switches[before]
            return before == after

    def content(self, digest: str) -> bytes | None:
        """Return a content that was kept, None for `NOTHING`. Raises `ToolError` when it is gone."""
        return content_of(self._blobs, digest)

    def _add(self, entry: UndoEntry) -> None:
        self._changes.add(entry, entry.files)
        for file in entry.files:
            self._switched.pop(file.real, None)
        self._entries[entry.id] = entry
        # A new edit ends redoing: what was taken back neither comes back nor stands.
        for id_ in [done for done in self._undone if self._entries[done].task_id == entry.task_id]:
            self._remove(id_)

    def drop(self, entry: UndoEntry) -> None:
        """Drop an entry whose files were not written after all, or are gone: folders that were made for them
        go."""
        remove_empty(entry.folders)
        with self._guard:
            self._remove(entry.id)
            self._changes.forget(entry)
            with suppress(OSError):  # it would be found unapplied at the next load
                self._file.append(Dropped(entry.id))

    def _remove(self, id_: int) -> None:
        self._entries.pop(id_, None)
        self._undone = [one for one in self._undone if one != id_]

    def undo(
        self,
        locks: FileLocks,
        task_id: int | None = None,
        *,
        merging: bool = False,
        without: Collection[str] = (),
    ) -> UndoEntry:
        """Take back the last edit (of a task). `merging`: also where a file was changed since, if that was in
        other lines. `without`: paths that stay as they are. Raises `ToolError` when there is none or a file
        is not what the edit made of it: then nothing is changed."""
        standing = self.entries(task_id)
        if not standing:
            raise ToolError("there is no edit to take back")
        entry = standing[-1]
        # Files are locked before the log everywhere; the other order could wait in a circle with an edit.
        with locks.holding(*entry.paths), self._guard:
            if entry not in self.entries(task_id):
                raise ToolError("that edit was taken back meanwhile")
            files = [file.inverse() for file in entry.files if file.real not in without]
            if without and not files:
                raise ToolError("nothing would be left to take back")
            last = self._folders.get(entry.id, ())
            folders = _last_of(entry.folders, last)
            switched = self._switch(
                entry, files, [folder.inverse() for folder in folders], merging, back=True
            )
            self._undone.append(entry.id)
            self._taken[entry.id] = switched.files
            self._folders[entry.id] = _combine_folders(last, folders, switched.folders)
            self._file.append(Undone(entry.id, switched.files, self._folders[entry.id]))
        return entry

    def redo(self, locks: FileLocks, task_id: int | None = None, *, merging: bool = False) -> UndoEntry:
        """Apply again what was last taken back. Raises as `undo` does."""
        with self._guard:
            self._load()
            ids = [id_ for id_ in self._undone if task_id in (None, self._entries[id_].task_id)]
        if not ids:
            raise ToolError("nothing was taken back since the last edit")
        entry = self._entries[ids[-1]]
        with locks.holding(*entry.paths), self._guard:
            if entry.id not in self._undone:
                raise ToolError("that edit was applied again meanwhile")
            files = [file.inverse() for file in self._taken.get(entry.id, ())] or list(entry.files)
            last = self._folders.get(entry.id, ())
            folders = _last_of(entry.folders, [one.inverse() for one in last])
            switched = self._switch(entry, files, folders, merging, back=False)
            self._undone.remove(entry.id)
            self._folders[entry.id] = _combine_folders(last, last, switched.folders)
            self._file.append(Redone(entry.id, self._folders[entry.id]))
        return entry

    def _switch(
        self,
        entry: UndoEntry,
        files: Sequence[FileVersions],
        folders: Sequence[FolderVersions],
        merging: bool,
        *,
        back: bool,
    ) -> Switched:
        if self._elsewhere is not None:
            switched = Switched(self._elsewhere(files, self._blobs, merging), ())
        elif entry.renames:
            switched = Switched((), _move(entry.renames, folders, back=back))
        else:
            switched = switch(files, folders, self._blobs, self._place, merging=merging)
        self._changes.add(entry, switched.files, switched.folders)
        for file in switched.files:
            switches = self._switched.setdefault(file.real, {})
            switches[file.before] = file.after
            switches.pop(file.after, None)  # that is what stands there: no circle
        self.switched += 1
        return switched

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        for line in self._file.lines():
            # What a log of another machine holds was sealed by this session; its trees are not known here.
            if not isinstance(line, UndoEntry) or self._elsewhere is not None or line.stays_in(self._trees):
                self._replay(line)
            else:
                self._outside += 1
                self._last = max(self._last, line.id)
        if self._elsewhere is None:
            _sweep_all([file for entry in self._entries.values() for file in entry.files], self._blobs)

    def _replay(self, line: Line) -> None:
        match line:
            case UndoEntry():
                self._last = max(self._last, line.id)
                self._add(line)
            case Dropped():
                self._remove(line.id)
            case Undone():
                if line.id not in self._entries:
                    return
                self._undone.append(line.id)
                self._taken[line.id] = line.files
                self._folders[line.id] = line.folders
            case Redone():
                if line.id in self._undone:
                    self._undone.remove(line.id)
                self._folders[line.id] = line.folders


def _versions(blobs: BlobStore, intent: Intent) -> FileVersions:
    before = NOTHING if intent.before is None else blobs.store(intent.before.data, intent.before.digest)
    after = NOTHING if intent.after is None else digest_of(intent.after)
    mode = 0 if intent.before is None else intent.before.mode
    return FileVersions(intent.real, before, after, mode, temporary_name())


def _store_versions(blobs: BlobStore, effect: Effect) -> FileVersions:
    before = NOTHING if effect.before is None else blobs.store(effect.before)
    after = NOTHING if effect.after is None else blobs.store(effect.after)
    return FileVersions(effect.real, before, after, effect.mode, temporary_name(), effect.mode_after)


def _last_of(
    folders: Sequence[FolderVersions], later: Sequence[FolderVersions]
) -> tuple[FolderVersions, ...]:
    """Return each folder once, as it was last changed; somebody else's are left alone."""
    last = {one.real: one for one in (*folders, *later)}
    return tuple(one for one in last.values() if one.before != one.after)


def _combine_folders(
    known: Sequence[FolderVersions], before: Sequence[FolderVersions], changed: Sequence[FolderVersions]
) -> tuple[FolderVersions, ...]:
    """Combine the folder changes of an entry: those known not to be ours, those that were to be removed
    `before` and exist again unchanged, and the new ones."""
    return (
        *(one for one in known if one.before == one.after),
        *already_there((one.real for one in before if not one.after), changed),
        *changed,
    )


def _move(
    renames: Sequence[RenamedPath], folders: Sequence[FolderVersions], *, back: bool
) -> tuple[FolderVersions, ...]:
    """Move whole files and folders back or again; what became of folders."""
    if back:
        return around(folders, [rename.source for rename in renames], lambda: take_back(renames))
    come = [rename.target for rename in renames if not rename.trashed]
    return around(folders, come, lambda: apply_again(renames))


def _sweep_all(files: Sequence[FileVersions], blobs: BlobStore) -> None:
    """Each folder is looked at once: a command may have changed thousands of files."""
    left: dict[str, frozenset[str] | None] = {}
    for file in files:
        folder = os.path.dirname(file.real)
        if folder not in left:
            left[folder] = _dot_names(folder)
        names = left[folder]
        if names is None or not names.isdisjoint((file.temporary, aside_of(file.temporary))):
            _sweep(file, blobs)


def _dot_names(folder: str) -> frozenset[str] | None:
    """Return the names in a folder that begin with a dot, None where it does not tell them."""
    try:
        return frozenset(name for name in os.listdir(folder) if name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:
        return None


def _sweep(file: FileVersions, blobs: BlobStore) -> None:
    """Remove the temporary file a crash of an edit, an undo or a redo left beside its target: what was being
    written, or what it had just replaced or deleted. Anything else was saved by somebody at that moment and
    stays."""
    if not TEMPORARY_NAME().fullmatch(file.temporary):
        return
    for name in (file.temporary, aside_of(file.temporary)):
        with suppress(OSError, ToolError), folder_of(file.real) as (folder, _):
            data = content_or_target(folder, name)
            if _is_known(data, file, blobs):
                os.unlink(name, dir_fd=folder)


def _is_known(data: bytes, file: FileVersions, blobs: BlobStore) -> bool:
    """Tell whether these bytes are stored, or are the beginning of stored content."""
    for digest in (file.before, file.after, digest_of(data)):
        with suppress(ToolError):
            if (content_of(blobs, digest) or b"").startswith(data):
                return True
    return False
