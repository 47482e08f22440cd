"""The project's trash: what `delete_file` removed, with where it was, until it is restored or emptied.

`.buddyx/trash/<id>/` holds the thing itself as `it`, and `where.json`, which stays when the thing leaves.
Moving in and out is a rename on the same file system, a copy otherwise. A repository can carry anything in
`.buddyx/`: what is listed, restored and removed for good bears a seal made with a key that lies elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.json_codec import decode, encode
from buddy.agent.tool import ToolError
from buddy.safety.paths import make_private_folders, read_regular, remove_tree, walk_tree
from buddy.safety.sanitise import visible
from buddy.workspace.files.atomic_replace import rename_to_free
from buddy.workspace.files.store import ACTS_AS_OWNER, folder_of

_THING = "it"
_WHERE = "where.json"
_MAX_WHERE_BYTES = 100_000
_GOING = "going-"
"""Before the name of a box that is being removed for good."""

Seal = Callable[[str, str, float], str]
"""From the id, the path and the time to the proof that this person's buddy put it there."""


def no_seal(_id: str, _real: str, _deleted_at: float) -> str:
    """Make no proof and ask for none."""
    return ""


class Trashed(msgspec.Struct, frozen=True):
    """One deleted file or folder. `deleted_at`: seconds since 1970."""

    id: str
    real: str
    name: str
    task_id: int
    deleted_at: float
    size_bytes: int
    seal: str


class Trash:
    """Deleted things under one folder, which is made when first needed."""

    def __init__(self, folder: str, seal: Seal = no_seal) -> None:
        self._folder = folder
        self._seal = seal

    def place(self) -> str:
        """Return a path in the trash for the next thing to take; nothing is created yet."""
        return os.path.join(self._folder, f"{int(time.time())}-{os.urandom(3).hex()}", _THING)

    def take(self, real: str, task_id: int, place: str = "") -> Trashed:
        """Move a file or folder into the trash, to a `place` that was asked for before. Raises `OSError`;
        then it still is where it was."""
        return fill_box(os.path.dirname(place or self.place()), real, task_id, seal=self._seal)

    def list(self) -> tuple[Trashed, ...]:
        """Return the contents of the trash, newest first."""
        found = [box for box in self._boxes() if os.path.lexists(self._thing(box.id))]
        return tuple(sorted(found, key=lambda trashed: trashed.deleted_at, reverse=True))

    def restore(self, which: str = "") -> Trashed:
        """Put back what has this id or was at this path; the last thing deleted when nothing is named. Raises
        `ToolError` when there is no such thing or something else stands in its place."""
        found = next((item for item in self.list() if which in ("", item.id, item.real, item.name)), None)
        if found is None:
            raise ToolError(f"nothing in the trash is called {which!r}" if which else "the trash is empty")
        if os.path.lexists(found.real):
            raise ToolError(f"{found.real} exists again; move it away first")
        leave_box(os.path.join(self._folder, found.id), found.real)
        return found

    def empty(
        self, *, max_age_s: float, max_bytes: int, before: Callable[[], float], now: float
    ) -> tuple[Trashed, ...]:
        """Remove for good what is older than `max_age_s`, and the oldest until there are no more than
        `max_bytes` (0: no such limit); never what was deleted at or after `before`, which is asked for only
        when something is due. What can't be removed stays. Raises `OSError`."""
        boxes = sorted(self._boxes(), key=lambda trashed: trashed.deleted_at)
        total = sum(box.size_bytes for box in boxes if os.path.lexists(self._thing(box.id)))
        gone: list[Trashed] = []
        limit: float | None = None
        for one in boxes:
            if not (0 < max_age_s < now - one.deleted_at or 0 < max_bytes < total):
                break
            limit = before() if limit is None else limit
            if one.deleted_at >= limit:
                break
            with suppress(OSError):
                total -= one.size_bytes if os.path.lexists(self._thing(one.id)) else 0
                going = _GOING + one.id
                os.rename(os.path.join(self._folder, one.id), os.path.join(self._folder, going))
                self._remove_rest(going)
                gone.append(one)
        return tuple(gone)

    def _boxes(self) -> Iterator[Trashed]:
        """Yield everything ever put into the trash, whether it is still there or not. Clear the remains of
        interrupted removals."""
        try:
            boxes = os.listdir(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        for box in boxes:
            found = _where(os.path.join(self._folder, box))
            if found is None or found.seal != self._seal(found.id, found.real, found.deleted_at):
                continue  # not one of ours, or torn by a crash
            if found.id == box:
                yield found
            elif box == _GOING + found.id:
                with suppress(OSError):
                    self._remove_rest(box)

    def _thing(self, box_id: str) -> str:
        return os.path.join(self._folder, box_id, _THING)

    def _remove_rest(self, going: str) -> None:
        """Remove a box, `where.json` last: it says that the rest may go."""
        box = os.path.join(self._folder, going)
        with suppress(FileNotFoundError):
            _delete(os.path.join(box, _THING))
        _delete(box)


def fill_box(
    box: str,
    real: str,
    task_id: int,
    *,
    seal: Seal = no_seal,
    remove: Callable[[str], None] | None = None,
) -> Trashed:
    """Move a file or folder into a box of its own, or into the one it was in before. Raises `OSError`; then
    it still is where it was. Raises `ToolError` where it is on another disk and what was copied could not be
    removed whole: then all of it is in the box. `remove` takes away what was copied."""
    trashed = _where(box) or _new(os.path.basename(box), real, task_id, seal)
    make_private_folders(box)
    with on_failure(_discard, box):
        with open(os.path.join(box, _WHERE), "wb", opener=_private) as file:
            file.write(encode(trashed))
        with folder_of(real) as (parent, _name):
            copied = _move_or_copy(real, os.path.join(box, _THING), parent)
    if copied:
        _remove_original(real, remove or _delete, trashed.id)
    return trashed


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _new(box_id: str, real: str, task_id: int, seal: Seal) -> Trashed:
    now = time.time()
    return Trashed(box_id, real, os.path.basename(real), task_id, now, size_of(real), seal(box_id, real, now))


def _where(box: str) -> Trashed | None:
    try:
        # A cloned repository may bring a link to a device there, an archive a pipe.
        return decode(read_regular(os.path.join(box, _WHERE), _MAX_WHERE_BYTES), Trashed)
    except (OSError, ToolError, ValueError, msgspec.MsgspecError):
        return None


def size_of(path: str) -> int:
    """Return the bytes of a file, or of all files below a folder; links are not followed."""
    total = os.lstat(path).st_size if not os.path.isdir(path) or os.path.islink(path) else 0
    for folder, _, names in walk_tree(path) if not os.path.islink(path) else ():
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def _remove_original(real: str, remove: Callable[[str], None], box_id: str) -> None:
    """Remove the original of what is in the trash. From here on the copy may be the only one of a part."""
    try:
        with folder_of(real) as (parent, _name):
            remove(_path_through(parent, real))
    except OSError as error:
        raise ToolError(
            f"{visible(os.path.basename(real))} could not be removed whole: {error.strerror or error}. "
            f"All of it is in the trash, as {box_id}."
        ) from error


def leave_box(box: str, real: str) -> None:
    """Put what is in a box at a path, which is free. Raises `OSError`; then it still is in the box."""
    with folder_of(real, create=True) as (parent, _name):
        _move_out(os.path.join(box, _THING), real, parent)


def _move_or_copy(real: str, target: str, parent: int) -> bool:
    """Move something into the trash; True where it was only copied, to another disk."""
    try:
        os.rename(os.path.basename(real), target, src_dir_fd=parent)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(_path_through(parent, real), target)
        return True
    return False


def _move_out(source: str, real: str, parent: int) -> None:
    try:
        rename_to_free(source, parent, os.path.basename(real), parent)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = f".buddy-{os.urandom(6).hex()}.tmp"
        copy = _path_through(parent, os.path.join(os.path.dirname(real), beside))
        with on_failure(_discard, copy):
            _copy(source, copy)
            rename_to_free(beside, parent, os.path.basename(real), parent)
        _discard(source)


def _path_through(parent: int, real: str) -> str:
    """Return the path through its open folder, where the system has one: it can't be led elsewhere."""
    return f"/proc/self/fd/{parent}/{os.path.basename(real)}" if os.path.isdir("/proc/self/fd") else real


def _copy(source: str, target: str) -> None:
    import shutil  # here, as everywhere: 2 ms that a start need not pay

    if os.path.isdir(source) and not os.path.islink(source):
        shutil.copytree(source, target, symlinks=True, copy_function=_copy_file)
        for folder, _, _ in walk_tree(source):
            _keep_owner(folder, os.path.join(target, os.path.relpath(folder, source)))
    else:
        _copy_file(source, target)


def _copy_file(source: str, target: str) -> None:
    import shutil  # here, as everywhere: 2 ms that a start need not pay

    shutil.copy2(source, target, follow_symlinks=False)
    _keep_owner(source, target)


def _keep_owner(source: str, target: str) -> None:
    """Give a copy the owner of the original. Where that can't be, it never acts as its new owner."""
    was = os.lstat(source)
    with suppress(PermissionError):
        os.chown(target, was.st_uid, was.st_gid, follow_symlinks=False)
    now = os.lstat(target)
    if stat.S_ISREG(now.st_mode):
        same = (now.st_uid, now.st_gid) == (was.st_uid, was.st_gid)
        os.chmod(target, stat.S_IMODE(was.st_mode) & ~(0 if same else ACTS_AS_OWNER))


def _discard(path: str) -> None:
    """Take away what there is of something that did not become whole, as far as that goes."""
    remove_tree(path, ignore_errors=True)
    with suppress(OSError):  # it was a file, or there is no beginning of it
        os.unlink(path)


def _delete(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        remove_tree(path)
    else:
        os.unlink(path)
