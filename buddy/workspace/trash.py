"""The project's trash: what `delete_file` removed, with where it was, until it is restored or emptied.

`.buddyx/trash/<id>/` holds the thing itself under its own name and `where.json`. Moving in and out is a
rename on the same file system, a copy otherwise.
"""

from __future__ import annotations

import errno
import os
import time

import msgspec

from buddy.agent.tool import ToolError
from buddy.workspace.files import folder_of

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
                    found.append(msgspec.json.decode(file.read(), type=Trashed))
            except (OSError, msgspec.MsgspecError):
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


def fill_box(box: str, real: str, task_id: int) -> Trashed:
    """Move a file or folder into a box of its own. Raises `OSError`; then it still is where it was."""
    trashed = Trashed(os.path.basename(box), real, os.path.basename(real), task_id, time.time())
    os.makedirs(box, mode=0o700)
    try:
        with open(os.path.join(box, "where.json"), "wb") as file:
            file.write(msgspec.json.encode(trashed))
        with folder_of(real) as (parent, found):
            _move(found, os.path.join(box, _THING), parent)
    except BaseException:
        import shutil  # here, as everywhere: 2 ms that a start need not pay

        shutil.rmtree(box, ignore_errors=True)
        raise
    return trashed


def leave_box(box: str, real: str) -> None:
    """Put what is in a box at a path, which is free. Raises `OSError`; then it still is in the box."""
    with folder_of(real, create=True) as (parent, name):
        _move_out(os.path.join(box, _THING), name, parent)
    import shutil  # here, as everywhere: 2 ms that a start need not pay

    shutil.rmtree(box)


def _move(name: str, target: str, parent: int) -> None:
    try:
        os.rename(name, target, src_dir_fd=parent)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        source = f"/proc/self/fd/{parent}/{name}" if os.path.isdir("/proc/self/fd") else name
        _copy(source, target)
        _delete(source)


def _move_out(source: str, name: str, parent: int) -> None:
    try:
        os.rename(source, name, dst_dir_fd=parent)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        target = f"/proc/self/fd/{parent}/{name}" if os.path.isdir("/proc/self/fd") else name
        _copy(source, target)


def _copy(source: str, target: str) -> None:
    import shutil  # here, as everywhere: 2 ms that a start need not pay

    if os.path.isdir(source) and not os.path.islink(source):
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _delete(path: str) -> None:
    import shutil  # here, as everywhere: 2 ms that a start need not pay

    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
