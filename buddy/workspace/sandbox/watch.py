"""Guards of the commands that run: they judge while a command runs, when it ends, and after buddy was killed.

The person's own git, editor and shell act on what a command planted from the moment it is there. So a command
that changes something is looked at soon, and not only at its end. A record of each command lies in buddy's
own folder, where no command and no repository can write; whoever finds one that nobody holds judges it.
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

from buddy.safety.paths import Boundary
from buddy.workspace.sandbox.git_data import REBASE, GitData
from buddy.workspace.sandbox.guard import Guard, GuardedEntry, Snapshot, snapshot
from buddy.workspace.sandbox.left_behind import ENDED, record_prefix
from buddy.workspace.sandbox.places import Surveyor
from buddy.workspace.sandbox.profile import SandboxRules
from buddy.workspace.sandbox.tether import Tether

JUDGE_AFTER_S = 0.5
"""From a change to the look at it; many changes in this time cost one look."""
SHARE_OF_TIME = 20
"""A look that took long is followed by a pause this many times as long."""
CONFIRM_AFTER_S = 0.2
"""A running git has files half written: only what is found twice is put back while a command runs."""


SPARE_DESCRIPTORS = 32
"""Kept while commands run: where programs or buddy itself used up all others, a look needs some."""


class _WrittenSnapshot(msgspec.Struct, frozen=True):
    """A snapshot on disk. Paths are bytes: they need not be text."""

    boundary: Boundary
    names: tuple[bytes, ...]
    git: tuple[tuple[bytes, ...], ...]
    entries: dict[bytes, GuardedEntry]
    complete: bool


class WatchedCommand:
    """The guard of one command that may change the workspace, until `close`. `look` gives the names as they
    are now; `record`: the file that outlives buddy, locked while it lives."""

    def __init__(self, guard: Guard, look: Callable[[], Snapshot], left: int, record: HeldRecord) -> None:
        self.guard = guard
        self.look = look
        self.left = left
        self.record = record


class CommandWatch:
    """All watched commands of a session. `records` is the folder of their records."""

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
        """Look at the protected names before a command starts; on the loop's thread. Raises `OSError`."""

        def look() -> Snapshot:
            return snapshot(boundary, surveyor.look(), contents=contents)

        before = snapshot(boundary, surveyor.survey, contents=contents)
        record = HeldRecord(self._records, boundary, before)
        self._tether.tie_record(record.name)
        command = WatchedCommand(Guard(boundary, before), look, self._rules().left, record)
        self._watched.append(command)
        self._keep_spare()
        self._loop = asyncio.get_running_loop()
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.ensure_future(self._keep_judging())
        return command

    def end(self, command: WatchedCommand) -> None:
        """The command is gone, and judged."""
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
        with contextlib.suppress(IndexError):  # the loop and a look may give them at once
            while True:
                os.close(self._spare.pop())

    def stir(self) -> None:
        """Ask for a look soon: a command changed something. May be called from any thread."""
        if not self._is_stirred and self._loop is not None:
            self._is_stirred = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: all commands are gone
                self._loop.call_soon_threadsafe(self._changed.set)

    async def _keep_judging(self) -> None:
        while self._watched:
            await self._changed.wait()
            await asyncio.sleep(max(JUDGE_AFTER_S, self._took_s * SHARE_OF_TIME))
            self._changed.clear()
            self._is_stirred = False
            await asyncio.to_thread(self.judge)

    @property
    def is_watching(self) -> bool:
        """Tell whether some command runs that may change something."""
        return bool(self._watched)

    def judge(self, ended: WatchedCommand | None = None) -> None:
        """Look at what commands did, and put it back; `ended` is one that is over. Blocks."""
        with self._lock:
            begin = time.monotonic()
            self._give_spare()
            # The one that is over comes first, and what keeps one from being judged keeps no other.
            for command in sorted(self._watched, key=lambda one: one is not ended):
                try:
                    self._judge_one(command, has_ended=command is ended)
                except (OSError, ValueError) as error:
                    self._told.append(f"protected names could not be looked at: {error}")
            if self._watched:
                self._keep_spare()
            self._took_s = time.monotonic() - begin

    def _judge_one(self, command: WatchedCommand, *, has_ended: bool) -> None:
        rules = self._rules()
        found, after = _found(command, rules.permitted, has_ended=has_ended)
        touch = rules.left == command.left
        self._told.extend(command.guard.put_back(found, after, touch=touch))

    def take_told(self) -> tuple[str, ...]:
        """Return what was done about protected names, a sentence each, once."""
        return tuple(self._told.popleft() for _ in range(len(self._told)))


def _found(
    command: WatchedCommand, permitted: Sequence[str], *, has_ended: bool
) -> tuple[tuple[str, ...], Snapshot]:
    """The paths a command changed that are to be put back, and the look that found them."""
    after = command.look()
    found = command.guard.changed(after, permitted)
    if not has_ended and found:
        time.sleep(CONFIRM_AFTER_S)
        after = command.look()
        again = command.guard.changed(after, permitted)
        found = tuple(path for path in again if path in found and not path.endswith(REBASE))
    return found, after


class HeldRecord:
    """The record of a command on disk; its lock goes with the process that holds it, however that ends."""

    def __init__(self, folder: str, boundary: Boundary, before: Snapshot) -> None:
        os.makedirs(folder, 0o700, exist_ok=True)
        self.name = f"{record_prefix(boundary.main or boundary.root)}{os.urandom(8).hex()}"
        self._path = os.path.join(folder, self.name)
        unfinished = os.path.join(folder, f".{self.name}")  # nobody looks at it before it is locked
        self._descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with open(self._descriptor, "wb", closefd=False) as file:
            file.write(_written(boundary, before))
        os.rename(unfinished, self._path)

    def drop(self) -> None:
        """Remove it: the command was judged."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        os.close(self._descriptor)


def _written(boundary: Boundary, before: Snapshot) -> bytes:
    return msgspec.msgpack.encode(
        _WrittenSnapshot(
            boundary,
            tuple(map(os.fsencode, before.names)),
            tuple(tuple(map(os.fsencode, paths)) for paths in msgspec.structs.astuple(before.git)),
            {os.fsencode(path): entry for path, entry in before.entries.items()},
            before.complete,
        )
    )


def judge_left(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Judge what commands left behind whose buddy was killed; return a sentence for each finding. Blocks."""
    return tuple(told for path in paths for told in _judge_record(path))


def _judge_record(path: str) -> Iterator[str]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # another buddy was quicker
    with open(descriptor, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # its buddy lives
        try:
            record = msgspec.msgpack.decode(file.read(), type=_WrittenSnapshot)
        except msgspec.MsgspecError:
            yield f"the record {path} cannot be read: what a command did meanwhile was not looked at"
        else:
            try:
                yield from _judge(record, _end_of(path))
            except (OSError, ValueError) as error:  # a start goes on, whatever lies there
                yield f"what a command left behind could not be looked at: {error}"
        for one in (path, path + ENDED):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(one)


def _judge(record: _WrittenSnapshot, end: float) -> tuple[str, ...]:
    boundary = record.boundary
    before = Snapshot(
        frozenset(map(os.fsdecode, record.names)),
        GitData(*(tuple(map(os.fsdecode, paths)) for paths in record.git)),
        {os.fsdecode(path): entry for path, entry in record.entries.items()},
        record.complete,
    )
    surveyor = Surveyor((boundary.root, *boundary.extra), boundary.home)
    after = snapshot(boundary, surveyor.look(), contents=bool(before.entries))
    guard = Guard(boundary, before)
    theirs = tuple(path for path in guard.changed(after, ()) if _oldest(path) <= end)
    return guard.put_back(theirs, after, touch=True)


def _end_of(path: str) -> float:
    """The time when the last command of a killed buddy was gone. Nobody marked it where the whole machine
    went down: all there is counts as the command's then."""
    try:
        return os.stat(path + ENDED).st_mtime
    except OSError:
        return time.time()


def _oldest(path: str) -> float:
    """The time of the oldest last change at and below a path; a path that is gone is as old as can be. No
    program can set these times back."""
    times: list[float] = []
    for place in (path, *(os.path.join(top, one) for top, _, names in os.walk(path) for one in names)):
        with contextlib.suppress(OSError):
            times.append(os.lstat(place).st_ctime)
    return min(times, default=0.0)
