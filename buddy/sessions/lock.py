"""The lock that allows one writer per session: an flock, free the moment its holder dies.

Where the file system has no flock (some network mounts), a file made with link(2) replaces it; a dead holder
is then recognised by its process id. A take-over is explicit and works while the holder lives: it replaces
the lock and the journal by new files, so that the old holder's next record fails as not saved.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from typing import Literal

import msgspec

from buddy.sessions.errors import SessionError
from buddy.sessions.file_ops import JournalFiles

NAME = "lock"
HELD = "lock.held"
_NO_FLOCK = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, None})
_TRIES = 5
_PAUSE_S = 0.01
"""The pause between tries: a listing may be testing the lock, or its holder may be exiting."""

HolderState = Literal["alive", "stopped", "gone", "unknown"]
_STATES: dict[str, HolderState] = {"T": "stopped", "t": "stopped", "Z": "gone", "X": "gone"}
"""The kernel's letters for processes that do not run or wait."""


class Holder(msgspec.Struct, frozen=True):
    """The process that holds a lock. `started` distinguishes two processes with the same id ("" when
    unknown)."""

    pid: int
    host: str
    since: float
    started: str = ""


class LockedError(SessionError):
    """Another process writes this session. `holder` is None when it left no name. `state` "stopped" is a
    process suspended with Ctrl-Z."""

    def __init__(self, directory: str, holder: Holder | None, state: HolderState) -> None:
        super().__init__(f"Open in another buddy{_describe(holder, state)}")
        self.holder = holder
        self.state: HolderState = state


def _describe(holder: Holder | None, state: HolderState) -> str:
    """Describe the holder in parentheses, with its process id; "" when it left no name."""
    if holder is None:
        return ""
    where = "" if holder.host == os.uname().nodename else f" on {holder.host}"
    return f" (pid {holder.pid}{where}{', suspended' if state == 'stopped' else ''})"


class SessionLock:
    """A held lock. `warning` is one sentence when it is weaker than it should be, "" otherwise."""

    def __init__(self, files: JournalFiles, descriptor: int | None, held_path: str) -> None:
        self._files = files
        self._descriptor = descriptor
        self._held_path = held_path
        self.warning = ""
        if descriptor is None:
            self.warning = "this file system has no flock; the session is guarded by a lock file alone"

    def release(self) -> None:
        """Release the lock."""
        descriptor, self._descriptor = self._descriptor, None
        with contextlib.suppress(OSError):
            if descriptor is not None:
                self._files.close(descriptor)
            elif self._held_path:
                self._files.unlink(self._held_path)
        self._held_path = ""


def acquire(directory: str, files: JournalFiles | None = None) -> SessionLock:
    """Hold the session's lock. Raises `LockedError`, or `OSError` where nothing can be locked."""
    files = files or JournalFiles()
    path = os.path.join(directory, NAME)
    for _ in range(_TRIES):
        descriptor = files.open(path, os.O_RDWR | os.O_CREAT)
        try:
            files.flock(descriptor)
        except BlockingIOError:
            files.close(descriptor)
            time.sleep(_PAUSE_S)
            continue
        except OSError as error:
            files.close(descriptor)
            if error.errno not in _NO_FLOCK:
                raise
            return _acquire_by_link(directory, files)
        if files.identity(path) == files.identity(descriptor):
            _write_holder(descriptor, files)
            return SessionLock(files, descriptor, "")
        files.close(descriptor)  # a take-over put another file in its place meanwhile
    holder = _read_holder(path, files)
    raise LockedError(directory, holder, _state(holder))


def is_locked(directory: str, files: JournalFiles) -> bool:
    """Tell whether a process writes the session. Changes nothing in the folder."""
    try:
        with files.open_file(os.path.join(directory, NAME), os.O_RDWR) as descriptor:
            files.flock(descriptor)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno not in _NO_FLOCK and not isinstance(error, FileNotFoundError):
            return False
        holder = _read_holder(os.path.join(directory, HELD), files)
        return holder is not None and holder_state(holder) != "gone"
    return False


def take_over(directory: str, journal: str, files: JournalFiles | None = None) -> SessionLock:
    """Take the lock from another process and replace the journal by a copy, so that later writes of the old
    holder fail and everything it had saved is kept."""
    files = files or JournalFiles()
    lock = _replace_lock(directory, files)
    with files.open_file(journal, os.O_RDONLY) as old:
        copied = files.read_open(old)
        files.replace(journal, copied)
        # The holder may have saved more between the copy and the rename; behind the rename it can't.
        more = files.read_open(old, len(copied))
    if more:
        with files.open_file(journal, os.O_RDWR) as descriptor:
            files.write_all(descriptor, more, len(copied))
            files.sync(descriptor)
    return lock


def holder_state(holder: Holder) -> HolderState:
    """Return the state of the holder. Only processes of this machine can be inspected."""
    if holder.host != os.uname().nodename:
        return "unknown"
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return "alive"
    state, started = _process(holder.pid)
    if holder.started and started and started != holder.started:
        return "gone"
    return _STATES.get(state, "alive")


def _state(holder: Holder | None) -> HolderState:
    return holder_state(holder) if holder is not None else "unknown"


def _process(pid: int) -> tuple[str, str]:
    """Return the state letter and start time of a process from /proc, else two empty strings."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return (fields[0], fields[19]) if len(fields) > 19 else ("", "")


def _me() -> bytes:
    pid = os.getpid()
    holder = Holder(pid, os.uname().nodename, time.time(), _process(pid)[1])
    return json.dumps(msgspec.to_builtins(holder)).encode("ascii")


def _write_holder(descriptor: int, files: JournalFiles) -> None:
    with contextlib.suppress(OSError):  # only a note for others; a full disk must not keep us out
        files.truncate(descriptor, 0)
        files.write_all(descriptor, _me(), 0)


def _read_holder(path: str, files: JournalFiles) -> Holder | None:
    try:
        return msgspec.json.decode(files.read_all(path, 0, 4096), type=Holder)
    except (OSError, ValueError):
        return None


def _acquire_by_link(directory: str, files: JournalFiles) -> SessionLock:
    held = os.path.join(directory, HELD)
    for _ in range(_TRIES):
        temporary = _own_file(directory, files)
        try:
            files.link(temporary, held)
            return SessionLock(files, None, held)
        except FileExistsError:
            holder = _read_holder(held, files)
            if holder is None or holder_state(holder) != "gone":
                raise LockedError(directory, holder, _state(holder)) from None
            _clear_away(directory, held, holder, files)
        finally:
            files.unlink(temporary)
    raise LockedError(directory, _read_holder(held, files), "unknown")


def _own_file(directory: str, files: JournalFiles) -> str:
    path = os.path.join(directory, f"{NAME}.{os.urandom(6).hex()}.tmp")
    with files.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        files.write_all(descriptor, _me(), 0)
    return path


def _clear_away(directory: str, held: str, dead: Holder, files: JournalFiles) -> None:
    """Remove a dead holder's file; put it back if another process had meanwhile replaced it."""
    stale = os.path.join(directory, f"{NAME}.{os.urandom(6).hex()}.stale")
    try:
        files.rename(held, stale)
    except FileNotFoundError:
        return
    if _read_holder(stale, files) != dead:
        with contextlib.suppress(FileExistsError):
            files.link(stale, held)
    files.unlink(stale)


def _replace_lock(directory: str, files: JournalFiles) -> SessionLock:
    temporary = _own_file(directory, files)
    descriptor = files.open(temporary, os.O_RDWR)
    try:
        files.flock(descriptor)
    except OSError as error:
        files.close(descriptor)
        if error.errno not in _NO_FLOCK:
            files.unlink(temporary)
            raise
        held = os.path.join(directory, HELD)
        files.rename(temporary, held)
        return SessionLock(files, None, held)
    files.rename(temporary, os.path.join(directory, NAME))
    return SessionLock(files, descriptor, "")
