"""Moves of files and folders, also into the trash, and their reversal."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.tool import ToolError
from buddy.safety.sanitise import visible
from buddy.workspace.files.atomic_replace import rename_to_free
from buddy.workspace.files.store import folder_of, status_of
from buddy.workspace.undo.trash import fill_box, leave_box


class RenamedPath(msgspec.Struct, frozen=True):
    """A completed rename: `source` is now at `target`, which is in the trash if `trashed`."""

    source: str
    target: str
    trashed: bool = False


def rename(source: str, target: str) -> None:
    """Move a file or folder to a free path and make missing parents. Raises `OSError`, `ToolError`."""
    with folder_of(source) as (old_folder, old), folder_of(target, create=True) as (folder, name):
        rename_to_free(old, old_folder, name, folder)


def take_back(renames: Sequence[RenamedPath]) -> None:
    """Put everything back where it was. Raises `ToolError`; then nothing has changed."""
    _all(tuple(reversed(renames)), back=True)


def apply_again(renames: Sequence[RenamedPath]) -> None:
    """Move everything again. Raises `ToolError`; then nothing has changed."""
    _all(renames, back=False)


def _all(renames: Sequence[RenamedPath], *, back: bool) -> None:
    wanted = [one for one in renames if not _is_so(one, back=back)]
    for one in wanted:
        _check(one, back=back)
    done: list[RenamedPath] = []
    try:
        for one in wanted:
            _one(one, back=back)
            done.append(one)
    except (OSError, ToolError) as error:
        for one in reversed(done):
            with suppress(OSError, ToolError):
                _one(one, back=not back)
        raise ToolError(f"could not move: {error}; nothing was changed") from error


def _is_so(one: RenamedPath, *, back: bool) -> bool:
    """Tell whether nothing is to be done: a crash came before the move, or the user has moved it back."""
    here, there = (one.source, one.target) if back else (one.target, one.source)
    return os.path.lexists(here) and not os.path.lexists(there)


def _check(one: RenamedPath, *, back: bool) -> None:
    start, end = (one.target, one.source) if back else (one.source, one.target)
    if not os.path.lexists(start):
        where = "in the trash any more" if one.trashed and back else "there any more"
        raise ToolError(f"{visible(os.path.relpath(start))} is not {where}. Nothing was changed.")
    if os.path.lexists(end):
        raise ToolError(
            f"{visible(os.path.relpath(end))} exists again; move it away first. Nothing was changed."
        )


def _one(one: RenamedPath, *, back: bool) -> None:
    if not one.trashed:
        rename(*((one.target, one.source) if back else (one.source, one.target)))
    elif back:
        leave_box(os.path.dirname(one.target), one.source)
    else:
        fill_box(os.path.dirname(one.target), one.source, 0)


_OPEN = 0o700


class FolderVersions(msgspec.Struct, frozen=True):
    """One folder of an entry: its permissions before and after, with the file type's bits; 0 for no
    folder."""

    real: str
    before: int
    after: int

    def inverse(self) -> FolderVersions:
        """Return the change that takes this one back."""
        return FolderVersions(self.real, self.after, self.before)


def missing_parents(reals: Iterable[str]) -> tuple[FolderVersions, ...]:
    """Return the missing folders above these paths, with the permissions new ones will get."""
    missing: dict[str, FolderVersions] = {}
    for real in reals:
        folder = os.path.dirname(real)
        while folder not in missing and status_of(folder) is None and folder != "/":
            missing[folder] = FolderVersions(folder, 0, stat.S_IFDIR | 0o777 & ~umask())
            folder = os.path.dirname(folder)
    return tuple(missing[folder] for folder in sorted(missing))


def remove_empty(folders: Sequence[FolderVersions]) -> None:
    """Remove folders that were made for a move that failed."""
    FolderSwitch([folder.inverse() for folder in folders]).remove()


def around(
    folders: Sequence[FolderVersions], come: Iterable[str], act: Callable[[], None]
) -> tuple[FolderVersions, ...]:
    """Change folders around moves of whole files and folders; return the folders that changed. Raises what
    `act` raises; then the folders are restored."""
    named = {folder.real for folder in folders}
    switch = FolderSwitch(
        [
            *folders,
            *(parent for parent in missing_parents(come) if parent.real not in named),
        ]
    )
    with on_failure(switch.take_back):
        switch.make()
        act()
    switch.remove()
    switch.settle()
    return switch.changed_folders


def already_there(gone: Iterable[str], changed: Sequence[FolderVersions]) -> tuple[FolderVersions, ...]:
    """Return folders that were gone and exist again, though no change made them. Their before and after are
    the same."""
    made = {one.real for one in changed}
    modes = {real: _mode_of(real) for real in gone if real not in made}
    return tuple(FolderVersions(real, mode, mode) for real, mode in modes.items() if mode)


def merge_mode(now: int, before: int, after: int) -> int:
    """Apply to the current mode the permission bits that differ between `before` and `after`."""
    changed = before ^ after
    return now & ~changed | after & changed


def umask() -> int:
    """Return the mask of new files without setting it, which other threads would see."""
    with suppress(OSError, ValueError, StopIteration), open("/proc/self/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("Umask:"))
        return int(line.split()[1], 8)
    return 0o022


class FolderSwitch:
    """The change of folders from `before` to `after`, in steps: `open`, `remove`, `make` and `settle`, with
    the files changed in between; `take_back` is possible after any of them."""

    def __init__(self, folders: Sequence[FolderVersions]) -> None:
        self._folders = sorted(folders, key=lambda folder: folder.real)
        self._modes = {folder.real: _mode_of(folder.real) for folder in folders}
        self._done: list[FolderVersions] = []

    @property
    def changed_folders(self) -> tuple[FolderVersions, ...]:
        """Return folders that really changed, with their modes before and after."""
        now = {real: _mode_of(real) for real in self._modes}
        return tuple(
            FolderVersions(real, before, now[real])
            for real, before in self._modes.items()
            if before != now[real]
        )

    def will_go(self, real: str) -> bool:
        """Tell whether a path is a folder that this switch will remove."""
        return any(folder.real == real and not folder.after for folder in self._folders)

    def open(self) -> None:
        """Open folders whose permissions change anyway, so that files in them can be changed."""
        for folder in self._folders:
            now = self._modes[folder.real]
            if now and folder.before != folder.after and now & _OPEN != _OPEN:
                with suppress(OSError):  # another user's folder: the change of its files will report it
                    _set_mode(folder.real, now | _OPEN)

    def remove(self) -> None:
        """Remove empty folders that should not exist, from the inside out."""
        for folder in reversed(self._folders):
            if folder.after or not self._modes[folder.real]:
                continue
            with suppress(OSError, ToolError), folder_of(folder.real) as (parent, name):
                os.rmdir(name, dir_fd=parent)
                self._done.append(folder)

    def make(self) -> None:
        """Make the folders that should exist, from the outside in. Raises `OSError`, and `ToolError` when
        something else is there."""
        for folder in self._folders:
            status = status_of(folder.real)
            if not folder.after or (status is not None and stat.S_ISDIR(status.st_mode)):
                continue
            if status is not None:
                raise ToolError(f"{visible(folder.real)} is no folder any more; move it away first")
            with folder_of(folder.real) as (parent, name):
                os.mkdir(name, mode=_OPEN, dir_fd=parent)
            self._done.append(folder)

    def settle(self) -> None:
        """Set the folders' permissions, from the inside out. Concurrent changes by others stay."""
        for folder in reversed(self._folders):
            now = _mode_of(folder.real)
            if not folder.after or not now:
                continue
            wanted = self._target_mode(folder)
            if wanted != now:
                with suppress(OSError):  # the content is what counts
                    _set_mode(folder.real, wanted)

    def _target_mode(self, folder: FolderVersions) -> int:
        was = self._modes[folder.real]
        if not was:
            return folder.after
        return merge_mode(was, folder.before, folder.after) if folder.before else was

    def take_back(self) -> None:
        """Restore the folders as far as possible."""
        for folder in reversed(self._done):
            with suppress(OSError, ToolError), folder_of(folder.real) as (parent, name):
                if folder.after:
                    os.rmdir(name, dir_fd=parent)
                else:
                    os.mkdir(name, mode=_OPEN, dir_fd=parent)
        for real in sorted(self._modes, reverse=True):
            if self._modes[real] and _mode_of(real):
                with suppress(OSError):
                    _set_mode(real, self._modes[real])


def _mode_of(real: str) -> int:
    """Return a folder's permissions and type, 0 where no folder is."""
    status = status_of(real)
    return status.st_mode if status is not None and stat.S_ISDIR(status.st_mode) else 0


def _set_mode(real: str, mode: int) -> None:
    """Set the mode through a descriptor of the folder, so that a link put there meanwhile is not followed.
    The owner can change the mode even of an unreadable folder."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with folder_of(real) as (parent, name):
        descriptor = os.open(name, flags | getattr(os, "O_PATH", os.O_RDONLY), dir_fd=parent)
        try:
            reached = f"/proc/self/fd/{descriptor}"
            if os.path.exists(reached):
                os.chmod(reached, stat.S_IMODE(mode))
            else:
                os.fchmod(descriptor, stat.S_IMODE(mode))
        finally:
            os.close(descriptor)
