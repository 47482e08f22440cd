"""Private folders in the system's temporary folder, which a later run removes if their owner was killed.

A folder is locked (`flock`) while its owner lives; the kernel releases the lock with the process. It gets its
name only after it was locked and marked: an unlocked folder with both has no owner any more. One without its
name yet, which begins with a dot, is empty, and its maker makes another one if it is removed. Neither age nor
process ids are judged: processes of a container share the folder, but not the ids.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator

from buddy.agent.cancel import on_failure
from buddy.agent.lazy_regex import pattern

if sys.platform != "win32":
    import fcntl

MAX_NAMES = 20_000
"""Maximum number of names looked at in the temporary folder."""
MAX_FOLDERS = 500
MAX_ENTRIES = 100_000
"""Limits on the work of one sweep; the next one goes on."""
_BATCH = 1_000
_NAME = pattern(r"\.?buddy-[a-z]+\.[A-Za-z0-9_]{8}")
_TRIES = 100
_MARKED = stat.S_ISVTX | 0o700
"""Mode of a named folder: the sticky bit, which means nothing in a private folder, tells it from one that a
person made with a like name (`mktemp -d /tmp/buddy-notes.XXXXXXXX`)."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryFolder:
    """A folder of this process, until `close`. Raises `OSError` when none can be made. `kind` is a word for
    its name."""

    def __init__(self, kind: str, parent: str = "") -> None:
        for _ in range(_TRIES):
            with contextlib.suppress(FileNotFoundError):  # a sweep came before the lock
                path, self._lock = _make_locked(
                    tempfile.mkdtemp(prefix=f".buddy-{kind}.", dir=parent or None)
                )
                break
        else:
            raise OSError(f"no folder can be kept in {parent or tempfile.gettempdir()}")
        self.path = os.path.realpath(path)

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it with everything in it, however deep and whatever the modes. Blocks."""
        if self._lock >= 0:
            _empty(self._lock, _Budget(None, lambda: False))
            with contextlib.suppress(OSError):  # somebody puts files into it at this moment
                os.rmdir(self.path)
            os.close(self._lock)
            self._lock = -1


def _make_locked(new: str) -> tuple[str, int]:
    """Lock a new folder, then give it its name. Raises `FileNotFoundError` if it was removed meanwhile."""
    lock = os.open(new, _FOLDER)
    with on_failure(os.close, lock):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            return new, lock  # a file system without locks: no sweep can lock it either
        os.fchmod(lock, _MARKED)
        named = os.path.join(os.path.dirname(new), os.path.basename(new)[1:])
        os.rename(new, named)
        return named, lock


class _BudgetSpentError(Exception):
    """The sweep has done enough, or was told to stop."""


class _Budget:
    """A number of entries that may be removed, None for any."""

    def __init__(self, entries: int | None, is_stopped: Callable[[], bool]) -> None:
        self._entries = entries
        self._is_stopped = is_stopped

    def spend(self) -> None:
        """Count one entry. Raises `_BudgetSpentError`."""
        if self._entries is not None:
            self._entries -= 1
        if self._is_stopped() or self._entries == 0:
            raise _BudgetSpentError


def remove_abandoned(
    is_stopped: Callable[[], bool] = lambda: False, parent: str = "", most: int = MAX_ENTRIES
) -> int:
    """Remove this user's folders whose owner is gone, up to `most` entries in them; return their number.

    Links are not followed and folders of other users are not touched. Blocks: call it in a thread. Never
    raises `OSError`."""
    removed = 0
    budget = _Budget(most, is_stopped)
    parent = parent or tempfile.gettempdir()
    with contextlib.suppress(OSError, _BudgetSpentError):
        for name in itertools.islice(_candidates(parent, is_stopped), MAX_FOLDERS):
            removed += _remove_if_abandoned(parent, name, budget)
    return removed


def _candidates(parent: str, is_stopped: Callable[[], bool]) -> Iterator[str]:
    with os.scandir(parent) as entries:
        for entry in itertools.islice(entries, MAX_NAMES):
            if is_stopped():
                return
            if _NAME().fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                yield entry.name


def _remove_if_abandoned(parent: str, name: str, budget: _Budget) -> bool:
    path = os.path.join(parent, name)
    try:
        folder = os.open(path, _FOLDER)
    except OSError:
        return False  # another user's, or removed meanwhile
    try:
        status = os.fstat(folder)
        mode, is_named = stat.S_IMODE(status.st_mode), not name.startswith(".")
        if status.st_uid != os.geteuid() or mode & 0o077 or (is_named and mode != _MARKED):
            return False
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_named:
            _empty(folder, budget)
        if os.path.samestat(status, os.lstat(path)):
            os.rmdir(path)
            return True
        return False
    except OSError:
        return False  # it has an owner, or something in it cannot be removed
    finally:
        os.close(folder)


def _empty(folder: int, budget: _Budget) -> None:
    """Remove what an open folder holds, as far as possible. A command may have made it as deep, as full and
    as closed as it liked: subfolders are lifted to the top, so that two descriptors are enough."""
    stuck: set[str] = set()
    while names := _some_names(folder, stuck):
        for name in names:
            budget.spend()
            try:
                _remove_or_lift(folder, name, budget)
            except OSError:
                stuck.add(name)


def _some_names(folder: int, without: set[str]) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = (entry.name for entry in entries)
            return list(itertools.islice((name for name in names if name not in without), _BATCH))
    except OSError:
        return []


def _remove_or_lift(folder: int, name: str, budget: _Budget) -> None:
    """Remove a file or folder; the folders in it are moved beside it."""
    if _unlink(folder, name):
        return
    inner = _open_folder(folder, name)
    try:
        stuck: set[str] = set()
        while names := _some_names(inner, stuck):
            for entry in names:
                budget.spend()
                try:
                    if not _unlink(inner, entry):
                        _lift(inner, entry, folder)
                except OSError:
                    stuck.add(entry)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)


def _lift(inner: int, name: str, folder: int) -> None:
    os.close(_open_folder(inner, name))  # moving a folder needs the right to write in it
    os.rename(name, f"{os.urandom(8).hex()}", src_dir_fd=inner, dst_dir_fd=folder)


def _unlink(folder: int, name: str) -> bool:
    """Remove a file; return False for a folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.EPERM):
            return False
        raise
    return True


def _open_folder(parent: int, name: str) -> int:
    """Open a folder of this user, with all rights for its owner, never through a link."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        if sys.platform != "linux":
            raise
        handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
            return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.close(handle)
    with on_failure(os.close, folder):
        if os.fstat(folder).st_mode & 0o700 != 0o700:
            os.fchmod(folder, 0o700)
    return folder
