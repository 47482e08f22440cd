"""The system's process tree: ancestry, tags of commands, adopted orphans, and what a killed buddy left
behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable

import msgspec

from buddy.workspace.processes import process_psutil
from buddy.workspace.processes.environment import TAG_VARIABLE
from buddy.workspace.processes.limits import RTTIME_FLOOR
from buddy.workspace.processes.process_info import ProcessInfo

LINUX = sys.platform == "linux"
PF_KTHREAD = 0x00200000  # linux/sched.h: a thread of the kernel


class Tag(msgspec.Struct, frozen=True):
    """The mark of one command: `text` stands in the environment, `number` in a resource limit. The text
    starts with the process id and start time of the buddy that made it."""

    text: str
    number: int


def new_tag() -> Tag:
    """Return a tag nobody else has."""
    me = read_process(os.getpid())
    started = me.started if me else 0
    return Tag(f"{os.getpid()}.{started}.{os.urandom(6).hex()}", int.from_bytes(os.urandom(6), "big"))


def read_process(pid: int) -> ProcessInfo | None:
    """Return the process with this id, or None when there is none."""
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
    """Return every process by id, without kernel threads."""
    if not LINUX:
        return process_psutil.all_processes()
    found: dict[int, ProcessInfo] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := read_process(int(name))) and not process.kernel:
            found[process.pid] = process
    return found


def own_children() -> tuple[int, ...]:
    """Return ids of this process's children, adopted orphans included; without a walk over all processes
    where the kernel offers that."""
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
    """Return the tag in a process's limits; readable of zombies and of other users' processes too."""
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
    """Return the environment a process was started with; empty when it may not be read."""
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
    """Return the processes of one command, zombies included: the leader's group and session, whatever carries
    the tag, and all their descendants. `leader` as it was when it started; `look` gives all processes."""
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
    """Return the process as it is now; None when it is gone, even if another one has its number."""
    now = read_process(process.pid)
    return now if now is not None and now.started == process.started else None


def is_process(pid: int, started: int) -> bool:
    """Tell whether the process with this id and start time runs."""
    process = read_process(pid)
    return process is not None and process.alive and process.started == started


def send(process: ProcessInfo, number: signal.Signals) -> None:
    """Send a signal to exactly this process, never to one that got its number later."""
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
    """Send a signal to a process group whose leader has not been waited for (its number cannot be reused)."""
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


LOOK_EVERY_S = 0.05
GIVE_UP_S = 3.0
"""How long after KILL a process is waited for before it is named as a survivor."""


class Stray(msgspec.Struct, frozen=True):
    """A process whose buddy is gone. `session_id` is the session it was started in, `tag` that of the command
    it descends from."""

    process: ProcessInfo
    command: str
    session_id: str
    tag: str

    def end(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still the same process and carries the same tag."""
        if variables_of(self.process.pid).get(TAG_VARIABLE) == self.tag:
            send(self.process, number)


class LeftCommand(msgspec.Struct, frozen=True):
    """A command whose buddy is gone, with all its processes; the one that started the others comes first."""

    tag: str
    processes: tuple[Stray, ...]

    @property
    def command(self) -> str:
        """Return the command line of its first process."""
        return self.processes[0].command

    @property
    def pids(self) -> str:
        """Name its processes: `process 12`, `processes 12, 13`."""
        numbers = ", ".join(str(process.process.pid) for process in self.processes)
        return f"process{'es' if len(self.processes) > 1 else ''} {numbers}"


def strays() -> tuple[Stray, ...]:
    """Return living processes with the tag of a buddy that no longer runs; Linux only, elsewhere none are
    known."""
    found: list[Stray] = []
    for process in all_processes().values():
        variables = variables_of(process.pid) if process.alive else {}
        tag = variables.get(TAG_VARIABLE, "")
        if tag and not owner_runs(tag):
            session_id = variables.get("BUDDY_SESSION_ID", "")
            found.append(Stray(process, _command_line(process.pid), session_id, tag))
    return tuple(found)


def left_commands(session_id: str) -> tuple[LeftCommand, ...]:
    """Return the commands that still run since a session was left, oldest first."""
    by_tag: dict[str, list[Stray]] = {}
    for stray in strays():
        if stray.session_id == session_id:
            by_tag.setdefault(stray.tag, []).append(stray)
    commands = [LeftCommand(tag, _in_order(found)) for tag, found in by_tag.items()]
    return tuple(sorted(commands, key=lambda one: one.processes[0].process.started))


async def end_left(command: LeftCommand, *, grace_s: float = 1.0) -> LeftCommand | None:
    """End a command that was left running, with what it starts meanwhile: TERM first, KILL after the grace
    time. Return what survived, None when nothing did."""
    for number, limit_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, GIVE_UP_S)):
        until = time.monotonic() + limit_s
        signalled: set[int] = set()
        while left := await asyncio.to_thread(_with_tag, command.tag):
            for stray in left:
                if stray.process.pid not in signalled:
                    signalled.add(stray.process.pid)
                    stray.end(number)
            if time.monotonic() >= until:
                break
            await asyncio.sleep(LOOK_EVERY_S)
        else:
            return None
    return LeftCommand(command.tag, _in_order(left))


def _with_tag(tag: str) -> list[Stray]:
    return [stray for stray in strays() if stray.tag == tag]


def _in_order(found: list[Stray]) -> tuple[Stray, ...]:
    """Return parents before their children, by age otherwise."""
    pids = {one.process.pid for one in found}
    return tuple(
        sorted(found, key=lambda one: (one.process.parent in pids, one.process.started, one.process.pid))
    )


def owner_runs(tag: str) -> bool:
    """Tell whether the buddy that made a tag still runs."""
    pid, _, rest = tag.partition(".")
    started = rest.partition(".")[0]
    return pid.isdigit() and started.isdigit() and is_process(int(pid), int(started))


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read(4000).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


_SET_CHILD_SUBREAPER = 36


def adopt_orphans(*, wanted: bool) -> bool:
    """Have orphaned descendants handed to this process instead of to process 1, so that they can be found
    and waited for; or no longer. Returns whether the system did as asked."""
    return _prctl(_SET_CHILD_SUBREAPER, int(wanted))


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes  # 5 ms, and only a session that starts a process pays them

    try:
        return ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False
