"""Processes of a buddy that was killed: found by the tag in their environment, never ended unasked."""

from __future__ import annotations

import signal

import msgspec

from buddy.workspace.environment import TAG_VARIABLE
from buddy.workspace.process_tree import ProcessInfo, all_processes, read_process, send, variables_of


class Stray(msgspec.Struct, frozen=True):
    """A process whose buddy is gone. `session_id` is the session it was started in, `tag` that of the command
    it descends from."""

    process: ProcessInfo
    command: str
    session_id: str
    tag: str

    def end(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still the same process."""
        send(self.process, number)


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
