"""The project's trash: what `delete_file` removed, with where it was, until it is restored or emptied.

`.buddyx/trash/<id>/` holds the thing itself under its own name and `where.json`. Moving in and out is a
rename on the same file system, a copy otherwise.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from buddy.agent.cleanup import on_failure
from buddy.agent.tool import ToolError
from buddy.safety.sanitise import visible
from buddy.workspace.any_names import decode, encode
from buddy.workspace.files import ACTS_AS_OWNER, folder_of
from buddy.workspace.swap import rename_to_free

_THING = "it"


class Trashed(msgspec.Struct, frozen=True):
    """One deleted file or folder. `deleted_at`: seconds since 1970."""

    id: str
    real: str
    name: str
    task_id: int
    deleted_at: float


class Trash:
    """Deleted things under one folder, which is made when first needed."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def place(self) -> str:
        """A path in the trash for the next thing to take; nothing is made yet."""
        return os.path.join(self._folder, f"{int(time.time())}-{os.urandom(3).hex()}", _THING)

    def take(self, real: str, task_id: int, place: str = "") -> Trashed:
        """Move a file or folder into the trash, to a `place` that was asked for before. Raises `OSError`;
        then it still is where it was."""
        return fill_box(os.path.dirname(place or self.place()), real, task_id)

    def list(self) -> tuple[Trashed, ...]:
        """What is in the trash, newest first."""
        found: list[Trashed] = []
        try:
            boxes = os.listdir(self._folder)
        except FileNotFoundError:
            return ()
        for box in boxes:
            try:
                with open(os.path.join(self._folder, box, "where.json"), "rb") as file:
                    found.append(decode(file.read(), Trashed))
            except (OSError, ValueError, msgspec.MsgspecError):
                continue  # not one of ours, or torn by a crash
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


def fill_box(box: str, real: str, task_id: int, *, remove: Callable[[str], None] | None = None) -> Trashed:
    """Move a file or folder into a box of its own. Raises `OSError`; then it still is where it was. Raises
    `ToolError` where it is on another disk and what was copied could not be removed whole: then all of it is
    in the box. `remove` takes away what was copied."""
    trashed = Trashed(os.path.basename(box), real, os.path.basename(real), task_id, time.time())
    os.makedirs(box, mode=0o700)
    with on_failure(_discard, box):
        with open(os.path.join(box, "where.json"), "wb") as file:
            file.write(encode(trashed))
        with folder_of(real) as (parent, _name):
            copied = _moved_or_copied(real, os.path.join(box, _THING), parent)
    if copied:
        _removed(real, remove or _delete, trashed.id)
    return trashed


def _removed(real: str, remove: Callable[[str], None], box_id: str) -> None:
    """Take away what is in the trash by now. From here on the copy may be the only one of a part."""
    try:
        with folder_of(real) as (parent, _name):
            remove(_reached(parent, real))
    except OSError as error:
        raise ToolError(
            f"{visible(os.path.basename(real))} could not be removed whole: {error.strerror or error}. "
            f"All of it is in the trash, as {box_id}."
        ) from error


def leave_box(box: str, real: str) -> None:
    """Put what is in a box at a path, which is free. Raises `OSError`; then it still is in the box."""
    with folder_of(real, create=True) as (parent, _name):
        _move_out(os.path.join(box, _THING), real, parent)
    import shutil  # here, as everywhere: 2 ms that a start need not pay

    shutil.rmtree(box)


def _moved_or_copied(real: str, target: str, parent: int) -> bool:
    """Move something into the trash; True where it was only copied, to another disk."""
    try:
        os.rename(os.path.basename(real), target, src_dir_fd=parent)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(_reached(parent, real), target)
        return True
    return False


def _move_out(source: str, real: str, parent: int) -> None:
    try:
        rename_to_free(source, parent, os.path.basename(real), parent)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        target = _reached(parent, real)
        with on_failure(_discard, target):
            _copy(source, target)


def _reached(parent: int, real: str) -> str:
    """The path through its open folder, where the system has one: it can't be led elsewhere."""
    return f"/proc/self/fd/{parent}/{os.path.basename(real)}" if os.path.isdir("/proc/self/fd") else real


def _copy(source: str, target: str) -> None:
    import shutil  # here, as everywhere: 2 ms that a start need not pay

    if os.path.isdir(source) and not os.path.islink(source):
        shutil.copytree(source, target, symlinks=True, copy_function=_copy_file)
        for folder, _, _ in os.walk(source):
            _keep_owner(folder, os.path.join(target, os.path.relpath(folder, source)))
    else:
        _copy_file(source, target)


def _copy_file(source: str, target: str) -> None:
    import shutil  # here, as everywhere: 2 ms that a start need not pay

    shutil.copy2(source, target, follow_symlinks=False)
    _keep_owner(source, target)


def _keep_owner(source: str, target: str) -> None:
    """A copy belongs to whom the thing belonged. Where that can't be, it never acts as its new owner."""
    was = os.lstat(source)
    with suppress(PermissionError):
        os.chown(target, was.st_uid, was.st_gid, follow_symlinks=False)
    now = os.lstat(target)
    if stat.S_ISREG(now.st_mode):
        same = (now.st_uid, now.st_gid) == (was.st_uid, was.st_gid)
        os.chmod(target, stat.S_IMODE(was.st_mode) & ~(0 if same else ACTS_AS_OWNER))


def _discard(path: str) -> None:
    """Take away what there is of something that did not become whole, as far as that goes."""
    import shutil  # here, as everywhere: 2 ms that a start need not pay

    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):  # it was a file, or there is no beginning of it
        os.unlink(path)


def _delete(path: str) -> None:
    import shutil  # here, as everywhere: 2 ms that a start need not pay

    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
