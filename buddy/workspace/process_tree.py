"""The system's process tree: ancestry of processes, and the tags of the commands they belong to.

Linux tells through `/proc`; elsewhere psutil does.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import msgspec

from buddy.workspace import process_psutil
from buddy.workspace.environment import TAG_VARIABLE
from buddy.workspace.limits import RTTIME_FLOOR
from buddy.workspace.process_info import ProcessInfo

LINUX = sys.platform == "linux"
PF_KTHREAD = 0x00200000  # linux/sched.h: a thread of the kernel


class Tag(msgspec.Struct, frozen=True):
    """The mark of one command: `text` stands in the environment, `number` in a resource limit. The text
    starts with the process id and start time of the buddy that made it."""

    text: str
    number: int


def new_tag() -> Tag:
    """A tag nobody else has."""
    me = read_process(os.getpid())
    started = me.started if me else 0
    return Tag(f"{os.getpid()}.{started}.{os.urandom(6).hex()}", int.from_bytes(os.urandom(6), "big"))


def read_process(pid: int) -> ProcessInfo | None:
    """The process with this id, or None when there is none."""
    if not LINUX:
        return process_psutil.read_process(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    return parse_stat(pid, line)


def parse_stat(pid: int, line: bytes) -> ProcessInfo | None:
    """One line of `/proc/PID/stat` (`man 5 proc_pid_stat`); None when it is too short to be one."""
    # The name stands in parentheses and may hold anything, parentheses and blanks included.
    fields = line[line.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return ProcessInfo(
        pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        state=fields[0].decode(),
        started=int(fields[19]),
        kernel=bool(int(fields[6]) & PF_KTHREAD),
    )


def all_processes() -> dict[int, ProcessInfo]:
    """Every process, by id; kernel threads left out."""
    if not LINUX:
        return process_psutil.all_processes()
    found: dict[int, ProcessInfo] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := read_process(int(name))) and not process.kernel:
            found[process.pid] = process
    return found


def own_children() -> tuple[int, ...]:
    """Ids of this process's children, adopted orphans included; without a walk over all processes where the
    kernel offers that."""
    if not LINUX:
        return process_psutil.own_children()
    found: list[int] = []
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb") as file:
                found.extend(int(pid) for pid in file.read().split())
    except FileNotFoundError:
        me = os.getpid()
        return tuple(process.pid for process in all_processes().values() if process.parent == me)
    except OSError:
        return ()
    return tuple(found)


def has_tag(pid: int, tag: Tag) -> bool:
    """Tell whether a process descends from the command with this tag, by its resource limit or its
    environment."""
    return tag_number(pid) == tag.number or variables_of(pid).get(TAG_VARIABLE) == tag.text


def tag_number(pid: int) -> int | None:
    """The tag in a process's limits; readable of zombies and of other users' processes too."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            text = file.read()
    except OSError:
        return None
    _, found, rest = text.partition(b"Max realtime timeout")
    value = rest.split(maxsplit=1)[0] if found else b""
    if not value.isdigit() or int(value) < RTTIME_FLOOR:
        return None
    return int(value) ^ RTTIME_FLOOR


def variables_of(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty when it may not be read."""
    if not LINUX:
        return process_psutil.variables_of(pid)
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            lines = file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return {}
    return {name: value for name, found, value in (line.partition("=") for line in lines) if found}


def members(
    tag: Tag, leader: ProcessInfo | None, look: Callable[[], dict[int, ProcessInfo]] | None = None
) -> dict[int, ProcessInfo]:
    """The processes of one command, zombies included: the leader's group and session, whatever carries the
    tag, and all their descendants. `leader` as it was when it started; `look` gives all processes."""
    everyone = (look or all_processes)()
    me = os.getpid()
    since = leader.started if leader else 0
    # Once the leader is gone its number may be somebody else's; then only tag and descent count.
    now = everyone.get(leader.pid) if leader else None
    number = leader.pid if leader and (now is None or now.started == leader.started) else -1
    found: dict[int, ProcessInfo] = {}
    for process in everyone.values():
        if process.pid == me or process.started < since:
            continue
        if number in (process.pid, process.group, process.session) or has_tag(process.pid, tag):
            found[process.pid] = process
    return _with_descendants(found, everyone)


def _with_descendants(
    found: dict[int, ProcessInfo], everyone: dict[int, ProcessInfo]
) -> dict[int, ProcessInfo]:
    by_parent: dict[int, list[ProcessInfo]] = {}
    for process in everyone.values():
        by_parent.setdefault(process.parent, []).append(process)
    waiting = list(found)
    while waiting:
        for child in by_parent.get(waiting.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child
                waiting.append(child.pid)
    return found


def is_same(process: ProcessInfo) -> ProcessInfo | None:
    """The process as it is now; None when it is gone, even if another one has its number."""
    now = read_process(process.pid)
    return now if now is not None and now.started == process.started else None


def send(process: ProcessInfo, number: signal.Signals) -> None:
    """A signal to exactly this process, never to one that got its number later."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (OSError, AttributeError):
        return _send_by_number(process, number)
    try:
        if is_same(process) is not None:
            signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return None  # it ended first, or it runs as another user
    finally:
        os.close(descriptor)


def _send_by_number(process: ProcessInfo, number: signal.Signals) -> None:
    if is_same(process) is not None:
        try:
            os.kill(process.pid, number)
        except OSError:
            return


def send_group(group: int, number: signal.Signals) -> None:
    """A signal to a process group whose leader has not been waited for (its number cannot be reused)."""
    try:
        os.killpg(group, number)
    except OSError:
        return


def reap(pid: int) -> bool:
    """Take the exit status of one known child that ended. False when it runs or is not ours."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False
