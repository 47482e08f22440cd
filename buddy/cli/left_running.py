"""Commands that go on beside the conversation: what is said when one ends, and what an earlier run left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from buddy.agent.events import Notice
from buddy.workspace.jobs import JobStatus
from buddy.workspace.strays import strays

MAX_COMMAND_CHARS = 60


def job_notice(status: JobStatus) -> Notice | None:
    """What the person is told when a job changes; nothing as long as it runs."""
    if status.state != "ended":
        return None
    command = " ".join(status.command.split())
    if len(command) > MAX_COMMAND_CHARS:
        command = f"{command[:MAX_COMMAND_CHARS]}…"
    code = status.exit.code if status.exit else None
    how = f"exit code {code}" if code is not None else (status.exit and status.exit.signal) or "stopped"
    return Notice("info", f"job {status.id} ended ({how}, {status.seconds:.0f} s): {command}")


class JobNews:
    """Passes on what happens to jobs while somebody listens: what ends with the session is no news."""

    def __init__(self) -> None:
        self.tell: Callable[[int, Notice], None] | None = None

    def changed(self, status: JobStatus) -> None:
        """A job began or ended."""
        notice = job_notice(status)
        if self.tell is not None and notice is not None:
            self.tell(status.task_id, notice)

    def stop(self) -> None:
        """Nobody listens any more."""
        self.tell = None


async def left_running(session_id: str) -> tuple[str, ...]:
    """What the session's commands left behind when buddy was killed: named, never ended unasked."""
    found = [stray for stray in await asyncio.to_thread(strays) if stray.session_id == session_id]
    return tuple(
        f"still running since this session was left: {stray.command} (process {stray.process.pid})"
        for stray in found
    )
