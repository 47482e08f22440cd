"""A limit on the processes of root's commands, which `RLIMIT_NPROC` does not bind.

The kernel never applies that limit to root, not without capabilities and not in a user namespace either,
whose root is the same user (measured with Linux 6.18). A control group of version 1 binds root, and it can
hold a single thread: the one that starts a command is in the group for that instant, so that the command is
born there. Groups of version 2 hold whole processes only; there the limits that systemd sets for sessions and
services bind root too.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from buddy.agent.lazy_regex import pattern
from buddy.workspace.processes.process_tree import is_process, read_process

_TRIED = 1_000_000
_NAME = pattern(r"buddy-(\d+)-(\d+)-\d+")


class PidsGroup:
    """The group of one session, made by the first `limit` and removed by `close`. `parent` is the folder of
    this process's own group, "" for none. Each session of a process has a group of its own, which neither the
    end of another session nor what it left running touches."""

    def __init__(self, parent: str) -> None:
        self._parent = parent
        self._folder = ""
        self._inside = self._outside = -1
        self._limit = 0

    def limit(self, processes: int | None) -> PidsGroup | None:
        """Let the group have at most this many processes and threads; return it, None where it cannot be
        used. Call it before the command is started, where opening files is nobody's attempt."""
        if processes is None or not self._parent:
            return None
        if self._limit != processes:
            try:
                self._make()
                with open(os.path.join(self._folder, "pids.max"), "wb", buffering=0) as file:
                    file.write(b"%d" % processes)
                self._limit = processes
            except OSError:  # no right to make groups
                self.close()
                self._parent = ""
                return None
        return self

    @contextmanager
    def hold_children(self) -> Generator[None]:
        """While this lasts, processes started by this thread are born in the group. Some 25 microseconds."""
        try:
            os.write(self._inside, b"0")
        except OSError:  # another session has removed it
            yield
            return
        try:
            yield
        finally:
            os.write(self._outside, b"0")

    def close(self) -> None:
        """Remove the group, with those of sessions that its commands started and somebody killed.

        A group with processes that have not ended is removed by a later session.
        """
        for descriptor in (self._inside, self._outside):
            if descriptor >= 0:
                os.close(descriptor)
        self._inside = self._outside = -1
        self._limit = 0
        _remove_group(self._folder)
        self._folder = ""

    def _make(self) -> None:
        if self._inside >= 0:
            return
        _remove_left(self._parent)
        me = read_process(os.getpid())
        self._folder = _make_next(
            os.path.join(self._parent, f"buddy-{os.getpid()}-{me.started if me else 0}")
        )
        self._outside = os.open(os.path.join(self._parent, "tasks"), os.O_WRONLY | os.O_CLOEXEC)
        os.write(self._outside, b"0")  # the way back has to work
        self._inside = os.open(os.path.join(self._folder, "tasks"), os.O_WRONLY | os.O_CLOEXEC)


def _make_next(name: str) -> str:
    """Make the first folder `name`-1, `name`-2 … that does not exist; return its path."""
    number = 1
    while True:
        try:
            os.mkdir(f"{name}-{number}")
        except FileExistsError:
            number += 1
        else:
            return f"{name}-{number}"


def _remove_left(parent: str) -> None:
    """Remove the empty groups of processes that are gone."""
    for name in os.listdir(parent):
        if (found := _NAME().fullmatch(name)) and not is_process(int(found[1]), int(found[2])):
            _remove_group(os.path.join(parent, name))


def _remove_group(group: str) -> None:
    with contextlib.suppress(OSError):  # its commands still run
        _remove_left(group)
        os.rmdir(group)


def pids_group() -> PidsGroup:
    """Return the group for a session: only root with control groups of version 1 gets a working one."""
    return PidsGroup(own_folder() if os.geteuid() == 0 else "")


def is_bounded(groups: str = "/proc/self/cgroup", mounted: str = "/sys/fs/cgroup") -> bool:
    """Tell whether the processes of this user's commands are bounded: root's only by control groups."""
    if os.geteuid() != 0:
        return True
    group = pids_group()
    try:
        return group.limit(_TRIED) is not None or has_limit_above(groups, mounted)
    finally:
        group.close()


def has_limit_above(groups: str, mounted: str) -> bool:
    """Tell whether a control group of version 2 around this process has a limit."""
    try:
        with open(groups, encoding="utf-8", errors="surrogateescape") as file:
            own: str = next((path for names, path in _groups(file) if names == [""]), "")
    except OSError:
        return False
    place: str = own.strip("/")
    while True:
        limit = os.path.join(mounted, place, "pids.max")
        with contextlib.suppress(OSError, ValueError), open(limit, encoding="ascii") as file:
            int(file.read())  # or it is not there, or "max"
            return True
        if not place:
            return False
        place = os.path.dirname(place)


def own_folder(groups: str = "/proc/self/cgroup", mounts: str = "/proc/self/mountinfo") -> str:
    """Return the folder of this process's group of the controller `pids`, "" where there is none."""
    try:
        with open(groups, encoding="utf-8", errors="surrogateescape") as file:
            own = next((path for names, path in _groups(file) if "pids" in names), "")
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            mounted = [line.split() for line in file]
    except OSError:
        return ""
    for fields in mounted:
        root, place = (_unescape(field) for field in fields[3:5])
        inner = own if root == "/" else own.removeprefix(root)
        is_pids = fields[-3] == "cgroup" and "pids" in fields[-1].split(",")
        if own and is_pids and (root == "/" or own == root or own.startswith(root + "/")):
            return os.path.join(place, inner.strip("/")).rstrip("/")
    return ""


def _groups(lines: Iterator[str]) -> Iterator[tuple[list[str], str]]:
    for line in lines:
        _number, names, path = line.rstrip("\n").split(":", 2)
        yield names.split(","), path


def _unescape(field: str) -> str:
    """Decode the octal escapes of blanks in mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
