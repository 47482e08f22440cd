"""Changes of the main tree that are not committed, copied into a new worktree: it starts from what the person
sees then. Secrets and what git ignores stay where they are."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress

from buddy.agent.pattern import pattern
from buddy.agent.tool import ToolError
from buddy.safety.descriptors import open_parent, read_beneath, replace_beneath
from buddy.safety.protected import ProtectedPlaces, secret_reason
from buddy.workspace.worktrees import Worktree

MAX_FILES = 5_000
MAX_FILE_BYTES = 20_000_000
_ENTRY = pattern(r"[ MADRCUT?!]{2} .+", re.DOTALL)


def carry(tree: Worktree, changed: Sequence[str], home: str) -> tuple[str, ...]:
    """Make the worktree's files what those of the main tree are, for paths as git's status lists them; those
    that were left out. Blocks. Raises `ToolError` and `OSError`."""
    if not all(_ENTRY().fullmatch(entry) for entry in changed):
        raise ToolError("git's list of the changes is too long to be read whole; commit them first")
    if len(changed) > MAX_FILES:
        raise ToolError(
            f"there are {len(changed):,} changes, and at most {MAX_FILES:,} can be carried over; commit them "
            "first, or let git ignore what need not come along"
        )
    left_out: list[str] = []
    for code, path in ((entry[:2], entry[3:]) for entry in changed):
        real = os.path.join(tree.main, path)
        if path.endswith("/") or secret_reason(real, ProtectedPlaces(home)) or not _carried(tree, code, path):
            left_out.append(path)
    return tuple(left_out)


def _carried(tree: Worktree, code: str, path: str) -> bool:
    """Copy, link or remove one; False for what is none of that."""
    real = os.path.join(tree.main, path)
    status = _status(real)
    if status is None or (stat.S_ISDIR(status.st_mode) and "D" in code):  # what is in it now is listed too
        with suppress(FileNotFoundError):
            _without(tree, path)
            _remove_empty(tree, os.path.dirname(path))
        return True
    if stat.S_ISLNK(status.st_mode):
        _make_folders(tree, path)
        with suppress(FileNotFoundError):
            _without(tree, path)
        parent, name = open_parent(tree.path, path)
        try:
            os.symlink(os.readlink(real), name, dir_fd=parent)
        finally:
            os.close(parent)
        return True
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
        return False
    _make_folders(tree, path)
    data = read_beneath(tree.main, path, MAX_FILE_BYTES)
    replace_beneath(tree.path, path, data, stat.S_IMODE(status.st_mode) & 0o777)
    return True


def _status(real: str) -> os.stat_result | None:
    try:
        return os.lstat(real)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _without(tree: Worktree, path: str) -> None:
    parent, name = open_parent(tree.path, path)
    try:
        os.unlink(name, dir_fd=parent)
    finally:
        os.close(parent)


def _remove_empty(tree: Worktree, folder: str) -> None:
    """Folders without a file any more, which git does not keep: a file may come in the place of one."""
    with suppress(OSError):
        while folder:
            os.rmdir(os.path.join(tree.path, folder))
            folder = os.path.dirname(folder)


def _make_folders(tree: Worktree, path: str) -> None:
    """The folders above a path, none of them through a link."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        parent, name = open_parent(tree.path, "/".join(parts[:depth]))
        try:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
        finally:
            os.close(parent)
