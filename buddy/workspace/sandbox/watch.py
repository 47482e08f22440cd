"""Guards of running commands: they check while a command runs, when it ends, and after buddy was killed.

The user's git, editor and shell act on a planted file at once, so a command that changes something is checked
soon and not only at its end. A record of each command is kept in buddy's own folder, where no command and no
repository can write; whoever finds an unlocked one checks it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import msgspec

from buddy.agent.cancel import on_failure
from buddy.safety.paths import Boundary, walk_tree
from buddy.workspace.sandbox.git_data import REBASE, GitData
from buddy.workspace.sandbox.guard import Guard, GuardedEntry, Snapshot, snapshot
from buddy.workspace.sandbox.left_behind import ENDED, record_prefix
from buddy.workspace.sandbox.places import Surveyor
from buddy.workspace.sandbox.profile import SandboxRules
from buddy.workspace.sandbox.tether import Tether

JUDGE_AFTER_S = 0.5
"""Delay between a change and its check; many changes in this time cost one check."""
SHARE_OF_TIME = 20
"""A long check is followed by a pause of this many times its duration."""
CONFIRM_AFTER_S = 0.2
"""While a command runs, only changes found twice are undone: a running git has half-written files."""


SPARE_DESCRIPTORS = 32
"""Reserved while commands run: a check needs some even when all others are used up."""


class _EncodedBoundary(msgspec.Struct, frozen=True):
    """A boundary on disk."""

    root: bytes
    cwd: bytes
    home: bytes
    extra: tuple[bytes, ...]
    own: tuple[bytes, ...]
    main: bytes
    trusts_repository: bool

    @classmethod
    def of(cls, boundary: Boundary) -> _EncodedBoundary:
        """Encode the paths of a boundary."""
        return cls(
            os.fsencode(boundary.root),
            os.fsencode(boundary.cwd),
            os.fsencode(boundary.home),
            tuple(map(os.fsencode, boundary.extra)),
            tuple(map(os.fsencode, boundary.own)),
            os.fsencode(boundary.main),
            boundary.trusts_repository,
        )

    def decode(self) -> Boundary:
        """Return the boundary."""
        return Boundary(
            os.fsdecode(self.root),
            os.fsdecode(self.cwd),
            os.fsdecode(self.home),
            tuple(map(os.fsdecode, self.extra)),
            tuple(map(os.fsdecode, self.own)),
            os.fsdecode(self.main),
            self.trusts_repository,
        )


class _EncodedSnapshot(msgspec.Struct, frozen=True):
    """A snapshot on disk. Paths are bytes: they need not be text."""

    boundary: _EncodedBoundary
    names: tuple[bytes, ...]
    git: tuple[tuple[bytes, ...], ...]
    entries: dict[bytes, GuardedEntry]
    complete: bool


class WatchedCommand:
    """The guard of one command that may change the workspace, until `close`. `look` takes a snapshot;
    `record` is the file that outlives buddy, locked while buddy lives."""

    def __init__(self, guard: Guard, look: Callable[[], Snapshot], left: int, record: HeldRecord) -> None:
        self.guard = guard
        self.look = look
        self.left = left
        self.record = record


class CommandWatch:
    """The watched commands of a session. `records` is the folder of their records."""

    def __init__(self, rules: Callable[[], SandboxRules], records: str, tether: Tether) -> None:
        self._rules = rules
        self._records = records
        self._tether = tether
        self._watched: list[WatchedCommand] = []
        self._lock = threading.Lock()
        self._told: deque[str] = deque()
        self._took_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._is_stirred = False
        self._keeper: asyncio.Task[None] | None = None
        self._spare: list[int] = []

    def begin(self, boundary: Boundary, surveyor: Surveyor, *, contents: bool) -> WatchedCommand:
        """Take a snapshot of the protected names before a command starts, on the loop's thread. Raises
        `OSError`."""

        def look() -> Snapshot:
            return snapshot(boundary, surveyor.look(), contents=contents)

        before = snapshot(boundary, surveyor.survey, contents=contents)
        record = HeldRecord(self._records, boundary, before)
        with on_failure(record.drop):
            self._tether.tie_record(record.name)
        command = WatchedCommand(Guard(boundary, before), look, self._rules().unconfined_calls, record)
        self._watched.append(command)
        self._keep_spare()
        self._loop = asyncio.get_running_loop()
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.ensure_future(self._keep_checking())
        return command

    def end(self, command: WatchedCommand) -> None:
        """Forget a command that ended and was checked."""
        self._watched.remove(command)
        command.record.drop()
        self._tether.untie_record(command.record.name)
        if not self._watched:
            self._give_spare()
            if self._keeper is not None:
                self._keeper.cancel()

    def _keep_spare(self) -> None:
        with contextlib.suppress(OSError):
            while len(self._spare) < SPARE_DESCRIPTORS:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def _give_spare(self) -> None:
        with contextlib.suppress(IndexError):  # the loop and a check may release them at the same time
            while True:
                os.close(self._spare.pop())

    def stir(self) -> None:
        """Request a check soon: a command changed something. May be called from any thread."""
        if not self._is_stirred and self._loop is not None:
            self._is_stirred = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: all commands are gone
                self._loop.call_soon_threadsafe(self._changed.set)

    async def _keep_checking(self) -> None:
        while self._watched:
            await self._changed.wait()
            await asyncio.sleep(max(JUDGE_AFTER_S, self._took_s * SHARE_OF_TIME))
            self._changed.clear()
            self._is_stirred = False
            await asyncio.to_thread(self.check)

    @property
    def is_watching(self) -> bool:
        """Tell whether a command runs that may change something."""
        return bool(self._watched)

    def check(self, ended: WatchedCommand | None = None) -> None:
        """Check what commands changed and undo it; `ended` is a command that is over. Blocks."""
        with self._lock:
            begin = time.monotonic()
            self._give_spare()
            # The ended one first; a failed check of one command must not prevent the others.
            for command in sorted(self._watched, key=lambda one: one is not ended):
                try:
                    self._check_one(command, has_ended=command is ended)
                except (OSError, ValueError) as error:
                    self._told.append(f"protected names could not be looked at: {error}")
            if self._watched:
                self._keep_spare()
            self._took_s = time.monotonic() - begin

    def _check_one(self, command: WatchedCommand, *, has_ended: bool) -> None:
        rules = self._rules()
        found, after = _find_changes(command, rules.permitted, has_ended=has_ended)
        touch = rules.unconfined_calls == command.left
        self._told.extend(command.guard.restore(found, after, touch=touch))

    def take_repairs(self) -> tuple[str, ...]:
        """Return, once, a sentence for each protected name that was changed and restored."""
        return tuple(self._told.popleft() for _ in range(len(self._told)))


def _find_changes(
    command: WatchedCommand, permitted: Sequence[str], *, has_ended: bool
) -> tuple[tuple[str, ...], Snapshot]:
    """Return the paths to restore and the snapshot that shows their changes."""
    after = command.look()
    found = command.guard.find_changes(after, permitted)
    if not has_ended and found:
        time.sleep(CONFIRM_AFTER_S)
        after = command.look()
        again = command.guard.find_changes(after, permitted)
        found = tuple(path for path in again if path in found and not path.endswith(REBASE))
    return found, after


class HeldRecord:
    """The record of a command on disk; its lock ends with the process that holds it."""

    def __init__(self, folder: str, boundary: Boundary, before: Snapshot) -> None:
        os.makedirs(folder, 0o700, exist_ok=True)
        self.name = f"{record_prefix(boundary.main or boundary.root)}{os.urandom(8).hex()}"
        self._path = os.path.join(folder, self.name)
        unfinished = os.path.join(folder, f".{self.name}")  # hidden until it is locked
        self._descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with on_failure(os.close, self._descriptor), on_failure(_remove, unfinished):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            with open(self._descriptor, "wb", closefd=False) as file:
                file.write(_encode_snapshot(boundary, before))
            os.rename(unfinished, self._path)

    def drop(self) -> None:
        """Delete the record: the command was checked."""
        _remove(self._path)
        os.close(self._descriptor)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _encode_snapshot(boundary: Boundary, before: Snapshot) -> bytes:
    return msgspec.msgpack.encode(
        _EncodedSnapshot(
            _EncodedBoundary.of(boundary),
            tuple(map(os.fsencode, before.names)),
            tuple(tuple(map(os.fsencode, paths)) for paths in msgspec.structs.astuple(before.git)),
            {os.fsencode(path): entry for path, entry in before.entries.items()},
            before.complete,
        )
    )


def restore_left(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Check and undo what commands of a killed buddy changed; return a sentence for each finding. Blocks."""
    return tuple(told for path in paths for told in _judge_record(path))


def _judge_record(path: str) -> Iterator[str]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # another buddy has deleted it
    with open(descriptor, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # its buddy is running
        try:
            record = msgspec.msgpack.decode(file.read(), type=_EncodedSnapshot)
        except msgspec.MsgspecError:
            yield f"the record {path} cannot be read: what a command did meanwhile was not looked at"
        else:
            try:
                yield from _judge(record, _end_of(path))
            except (OSError, ValueError) as error:  # no file there may stop a start
                yield f"what a command left behind could not be looked at: {error}"
        _remove(path)
        _remove(path + ENDED)


def _judge(record: _EncodedSnapshot, end: float) -> tuple[str, ...]:
    boundary = record.boundary.decode()
    before = Snapshot(
        frozenset(map(os.fsdecode, record.names)),
        GitData(*(tuple(map(os.fsdecode, paths)) for paths in record.git)),
        {os.fsdecode(path): entry for path, entry in record.entries.items()},
        record.complete,
    )
    surveyor = Surveyor((boundary.root, *boundary.extra), boundary.home)
    after = snapshot(boundary, surveyor.look(), contents=bool(before.entries))
    guard = Guard(boundary, before)
    theirs = tuple(path for path in guard.find_changes(after, ()) if _oldest(path) <= end)
    return guard.restore(theirs, after, touch=True)


def _end_of(path: str) -> float:
    """Return the time when the last command of a killed buddy ended. Without a mark (the machine went down)
    everything counts as the command's."""
    try:
        return os.stat(path + ENDED).st_mtime
    except OSError:
        return time.time()


def _oldest(path: str) -> float:
    """Return the oldest last change at and below a path, 0 when it is gone. No program can set these times
    back."""
    times: list[float] = []
    for place in (path, *(os.path.join(top, name) for top, _, names in walk_tree(path) for name in names)):
        with contextlib.suppress(OSError):
            times.append(os.lstat(place).st_ctime)
    return min(times, default=0.0)
