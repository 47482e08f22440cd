"""Ending a command with everything it started: TERM to all at once, KILL to what is left.

Nobody survives: the process group and session, all descendants, and strays that left both are found by
their tag. Only known processes are waited for, so that other owners of children keep theirs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from buddy.workspace.processes.process_tree import (
    LINUX,
    ProcessInfo,
    Tag,
    has_tag,
    is_same,
    members,
    own_children,
    read_process,
    reap,
    send,
    send_group,
)

T = TypeVar("T")
GIVE_UP_S = 3.0
"""How long after KILL a process in an uninterruptible wait is looked at before it is named as a survivor."""


class Ending(msgspec.Struct, frozen=True):
    """Outcome of ending a process tree. `forced`: something had to be killed. `survivors`: process ids that
    could not be ended."""

    forced: bool
    survivors: tuple[int, ...]
    seconds: float


class Tree:
    """The processes of one command. `pid` leads its own group and session."""

    def __init__(self, pid: int, tag: Tag) -> None:
        self.pid = pid
        self.tag = tag
        self.leader = read_process(pid)
        self.leader_reaped = False
        self.unburied = 0
        self.is_quiet = False
        self._dead: set[tuple[int, int]] = set()
        self._told: set[tuple[int, int]] = set()
        self._told_group = False
        self._seen: dict[int, ProcessInfo] = {}

    def living(self) -> list[ProcessInfo]:
        """Return members that run. Zombies among them that are ours to wait for are taken care of.

        One walk can miss a process: it was born after the walk began, of a parent that had ended when it was
        looked at. That parent is then a new zombie, so a walk proves something (`is_quiet`) only when it
        finds nobody alive and nobody newly dead.
        """
        found: list[ProcessInfo] = []
        dead: set[tuple[int, int]] = set()
        self.unburied = 0
        known = self._members()
        for process in known.values():
            if process.alive:
                found.append(process)
                continue
            dead.add((process.pid, process.started))
            if process.pid != self.pid and not reap(process.pid) and _is_dying(process.parent, known):
                self.unburied += 1  # it is handed to us when its parent is gone
        self.is_quiet = not found and dead <= self._dead
        self._dead = dead
        return found

    def _members(self) -> dict[int, ProcessInfo]:
        """Return members now, and those seen before that still exist: a descendant with a tag of its own
        (buddy run by buddy) is no longer recognised once its parents are gone."""
        known = members(self.tag, self.leader)
        for process in self._seen.values():
            if process.pid not in known and (now := is_same(process)):
                known[now.pid] = now
        self._seen = dict(known)
        return known

    def _group(self) -> int:
        """Return the group to signal as one, 0 when that is not safe: once the leader was waited for, its
        number can be somebody else's. Where single processes are not known, a group that still exists has to
        do."""
        if self.leader_reaped and (LINUX or not _group_exists(self.pid)):
            return 0
        return self.pid

    def terminate(self) -> list[ProcessInfo]:
        """TERM, once, to each member: to the group at once, then to whoever left it. Returns who is alive."""
        group = self._group() if not self._told_group else 0
        self._told_group = True
        if group:
            send_group(group, signal.SIGTERM)
        found = self.living()
        for process in found:
            if (process.pid, process.started) in self._told:
                continue
            self._told.add((process.pid, process.started))
            if process.group != group:
                send(process, signal.SIGTERM)
            if process.state == "T":  # a stopped process gets its signal only when it goes on
                send(process, signal.SIGCONT)
        return found

    def kill(self) -> list[ProcessInfo]:
        """KILL to everyone there is. Returns who was alive."""
        if group := self._group():
            send_group(group, signal.SIGKILL)
        found = self.living()
        for process in found:
            send(process, signal.SIGKILL)
        return found

    def left_running(self) -> bool:
        """Tell whether any process of a command whose shell ended still runs. Orphans become buddy's own
        children, so only those are examined."""
        if not LINUX:
            return _group_exists(self.pid)
        found = False
        for pid in own_children():
            process = read_process(pid)
            if process is None or pid == self.pid or not self._is_ours(process):
                continue
            if process.alive:
                found = True
            else:
                reap(pid)
        return found

    def _is_ours(self, process: ProcessInfo) -> bool:
        return process.session == self.pid or has_tag(process.pid, self.tag)


def _is_dying(pid: int, members_seen: dict[int, ProcessInfo]) -> bool:
    """Tell whether a zombie's parent (`pid`) will leave the zombie to buddy: it is a member of the tree,
    gone, or dead itself."""
    parent = read_process(pid)
    return pid in members_seen or parent is None or not parent.alive


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


async def end_tree(tree: Tree, *, grace_s: float) -> Ending:
    """End everything: TERM, and KILL to whatever is left after the grace."""
    begin = time.monotonic()
    if await _end_within(tree, tree.terminate, grace_s):
        return Ending(forced=False, survivors=(), seconds=time.monotonic() - begin)
    await _end_within(tree, tree.kill, GIVE_UP_S)
    survivors = tuple(process.pid for process in tree.living())
    return Ending(forced=True, survivors=survivors, seconds=time.monotonic() - begin)


async def _end_within(tree: Tree, signalled: Callable[[], list[ProcessInfo]], limit_s: float) -> bool:
    """Signal until a walk over all processes proves that nobody is left. Between walks, which cost some
    milliseconds, only the known ones are looked at."""
    end = time.monotonic() + limit_s
    pause = 0.001
    known = signalled()
    while True:
        known = [process for process in known if (now := is_same(process)) and now.alive]
        if not known:
            known = signalled()
            if not known and tree.is_quiet and (LINUX or not _group_exists(tree.pid)):
                await _bury(tree)
                return True
        if time.monotonic() >= end:
            return False
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.02)


async def _bury(tree: Tree) -> None:
    """Wait for members that ended before their parents did: they are handed over a moment later. Zombies
    whose parent lives outside the tree stay that parent's."""
    end = time.monotonic() + 1.0
    while tree.unburied and time.monotonic() < end:
        await asyncio.sleep(0.002)
        tree.living()


async def to_the_end(task: asyncio.Task[T]) -> T:
    """Await a task that must not be given up. A cancellation of the caller waits until it is done."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and not task.cancelled():
        raise cancelled
    return task.result()


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end whatever happens to the caller."""
    return await to_the_end(asyncio.ensure_future(work))
