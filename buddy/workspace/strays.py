"""Processes of a buddy that was killed: found by the tag in their environment, never ended unasked."""

from __future__ import annotations

import asyncio
import signal
import time

import msgspec

from buddy.workspace.environment import TAG_VARIABLE
from buddy.workspace.process_tree import ProcessInfo, all_processes, read_process, send, variables_of

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
        """The command line of its first process."""
        return self.processes[0].command

    @property
    def pids(self) -> str:
        """Its processes in words: `process 12`, `processes 12, 13`."""
        numbers = ", ".join(str(one.process.pid) for one in self.processes)
        return f"process{'es' if len(self.processes) > 1 else ''} {numbers}"


def strays() -> tuple[Stray, ...]:
    """Living processes with the tag of a buddy that no longer runs; Linux only, elsewhere none are known."""
    found: list[Stray] = []
    for process in all_processes().values():
        variables = variables_of(process.pid) if process.alive else {}
        tag = variables.get(TAG_VARIABLE, "")
        if tag and not _owner_runs(tag):
            session_id = variables.get("BUDDY_SESSION_ID", "")
            found.append(Stray(process, _command_line(process.pid), session_id, tag))
    return tuple(found)


def left_commands(session_id: str) -> tuple[LeftCommand, ...]:
    """The commands that still run since a session was left, oldest first."""
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
    """Parents before their children, by age otherwise."""
    pids = {one.process.pid for one in found}
    return tuple(
        sorted(found, key=lambda one: (one.process.parent in pids, one.process.started, one.process.pid))
    )


def _owner_runs(tag: str) -> bool:
    pid, _, rest = tag.partition(".")
    started = rest.partition(".")[0]
    owner = read_process(int(pid)) if pid.isdigit() else None
    return owner is not None and owner.alive and str(owner.started) == started


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read(4000).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""
