"""Commands that go on beside the conversation: what is said when one ends, and what an earlier run left."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping

import msgspec

from buddy.agent.events import Notice
from buddy.sessions.journal import NotSavedError
from buddy.sessions.records import JobChanged, Note
from buddy.sessions.session import OpenSession
from buddy.sessions.writer import SessionWriter
from buddy.tasks.board import TaskBoard
from buddy.workspace.processes.jobs import JobStatus
from buddy.workspace.processes.process_tree import LeftCommand, left_commands

MAX_COMMAND_CHARS = 60


def job_notice(status: JobStatus) -> Notice | None:
    """Return the notice about a job that ended; None while it runs."""
    if status.state != "ended":
        return None
    code = status.exit.code if status.exit else None
    how = f"exit code {code}" if code is not None else (status.exit and status.exit.signal) or "stopped"
    return Notice("info", f"job {status.id} ended ({how}, {status.seconds:.0f} s): {_short(status.command)}")


class JobNews:
    """Keeps what happens to jobs in the journal, and passes it on while somebody listens: what ends with the
    session is no news."""

    def __init__(self, memory: SessionWriter) -> None:
        self._memory = memory
        self.tell: Callable[[int, Notice], None] | None = None

    def changed(self, status: JobStatus) -> None:
        """A job began or ended."""
        now = JobChanged(str(status.id), "running", {"command": status.command, "tag": status.tag})
        if status.state == "ended":
            now = JobChanged(str(status.id), "ended")
        with contextlib.suppress(NotSavedError):  # the writer was closed first: it has said what is lost
            self._memory.record_job(status.task_id, now)
        notice = job_notice(status)
        if self.tell is not None and notice is not None:
            self.tell(status.task_id, notice)

    def stop(self) -> None:
        """Nobody listens any more."""
        self.tell = None


class _LostJob(msgspec.Struct, frozen=True):
    """A job that ran when buddy was lost, and what became of it."""

    number: str
    command: str
    fate: str


async def what_was_left(session: OpenSession, board: TaskBoard) -> tuple[str, ...]:
    """Report the session's commands that were running when buddy was killed; none is ended without asking.
    The model is told of its jobs with the next prompt in the foreground. Jobs are reported once, other
    processes as long as they run."""
    found = {one.tag: one for one in await asyncio.to_thread(left_commands, session.session_id)}
    state = session.loaded.state
    lost = [
        (task_id, job)
        for job, task_id in zip(state.jobs, state.job_tasks, strict=False)
        if job.state == "running"
    ]
    jobs = [_lost(job, found) for _, job in lost]
    tags = [_text_of(job, "tag") for _, job in lost]
    for (task_id, _), tag, job in zip(lost, tags, jobs, strict=True):
        board.notes.offer(_note(f"lost {tag}", task_id, job))
        session.writer.record_job(task_id, JobChanged(job.number, "lost"))
    others = [one for one in found.values() if one.tag not in tags]
    return (
        *(f"job {job.number} was running when buddy died; {job.fate}: {_short(job.command)}" for job in jobs),
        *(f"still running from before: {one.command} ({one.pids})" for one in others),
        *(("/jobs lists what still runs; /jobs stop ends it",) if found and board.parts.attended else ()),
    )


def _lost(job: JobChanged, found: Mapping[str, LeftCommand]) -> _LostJob:
    left = found.get(_text_of(job, "tag"))
    if left is not None:
        fate = f"it still runs ({left.pids})"
    else:
        fate = "it ended, too" if sys.platform == "linux" else "it may still run: look with ps"
    return _LostJob(job.job_id, _text_of(job, "command"), fate)


def _note(note_id: str, task_number: int, job: _LostJob) -> Note:
    """The same for the same job: a buddy that is killed while it says so says it once."""
    title = f"job {job.number} ran when buddy was lost"
    heading = f"buddy was lost while job {job.number} ran, and was started again. What became of the job:"
    return Note(note_id, task_number, title, f"{job.fate}: {job.command}", heading)


def _text_of(job: JobChanged, name: str) -> str:
    return str(job.data.get(name, ""))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_COMMAND_CHARS else f"{line[:MAX_COMMAND_CHARS]}…"
