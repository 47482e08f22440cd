"""The project's trash: what `delete_file` removed, with where it was, until it is restored or emptied.

`.buddyx/trash/<id>/` holds the thing itself under its own name and `where.json`. Moving in and out is a
rename on the same file system, a copy otherwise.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import time

import msgspec

from buddy.agent.tool import ToolError
from buddy.workspace.files import folder_of


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

    def take(self, real: str, task_id: int) -> Trashed:
        """Move a file or folder into the trash. Raises `OSError`; then it still is where it was."""
        name = os.path.basename(real)
        now = time.time()
        trashed = Trashed(f"{int(now)}-{secrets.token_hex(3)}", real, name, task_id, now)
        box = os.path.join(self._folder, trashed.id)
        os.makedirs(box, mode=0o700)
        with open(os.path.join(box, "where.json"), "wb") as file:
            file.write(msgspec.json.encode(trashed))
        try:
            with folder_of(real) as (parent, found):
                _move(found, os.path.join(box, "it"), parent)
        except BaseException:
            shutil.rmtree(box, ignore_errors=True)
            raise
        return trashed

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
        box = os.path.join(self._folder, found.id)
        with folder_of(found.real, create=True) as (parent, name):
            _move_out(os.path.join(box, "it"), name, parent)
        shutil.rmtree(box)
        return found


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
    if os.path.isdir(source) and not os.path.islink(source):
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _delete(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
