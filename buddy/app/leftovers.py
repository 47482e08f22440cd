"""Background jobs: notices when one ends, and a report of what an earlier, killed run left running."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping

import msgspec

from buddy.agent.events import Notice
from buddy.sessions.errors import NotSavedError
from buddy.sessions.records import JobChanged, Note
from buddy.sessions.session import OpenSession
from buddy.sessions.writer import SessionWriter
from buddy.tasks.board import TaskBoard
from buddy.workspace.processes.jobs import JobStatus
from buddy.workspace.processes.process_tree import LeftCommand, left_commands

MAX_COMMAND_CHARS = 60


def job_notice(status: JobStatus) -> Notice | None:
    """Return the notice about a job that ended, None while it runs."""
    if status.state != "ended":
        return None
    code = status.exit.code if status.exit else None
    ending = f"exit code {code}" if code is not None else (status.exit and status.exit.signal) or "stopped"
    if status.exit is not None and status.exit.lost:
        ending = f"{status.exit.lost}: how it ended is not known"
    return Notice(
        "info", f"job {status.id} ended ({ending}, {status.seconds:.0f} s): {_short(status.command)}"
    )


class JobReporter:
    """Records jobs in the journal and reports their end while `tell` is set. Jobs that end with the session
    are not reported."""

    def __init__(self, journal: SessionWriter) -> None:
        self._journal = journal
        self.tell: Callable[[int, Notice], None] | None = None

    def record(self, status: JobStatus) -> None:
        """Record that a job started or ended."""
        record = JobChanged(str(status.id), "running", {"command": status.command, "tag": status.tag})
        if status.state == "ended":
            record = JobChanged(str(status.id), "ended")
        with contextlib.suppress(NotSavedError):  # the closed writer has reported what is lost
            self._journal.record_job(status.task_id, record)
        notice = job_notice(status)
        if self.tell is not None and notice is not None:
            self.tell(status.task_id, notice)

    def stop(self) -> None:
        """Stop reporting."""
        self.tell = None


class _LostJob(msgspec.Struct, frozen=True):
    """A job that ran when buddy was killed, and its state now."""

    job_id: str
    command: str
    fate: str


async def report_leftovers(session: OpenSession, board: TaskBoard) -> tuple[str, ...]:
    """Report the session's commands that still ran when buddy was killed; end none of them.

    The model is told about its jobs with the next foreground prompt. A job is reported once, another process
    as long as it runs.
    """
    running = {left.tag: left for left in await asyncio.to_thread(left_commands, session.session_id)}
    state = session.loaded.state
    lost = [
        (task_id, job)
        for job, task_id in zip(state.jobs, state.job_tasks, strict=False)
        if job.state == "running"
    ]
    jobs = [_describe_lost(job, running) for _, job in lost]
    tags = [_text_of(job, "tag") for _, job in lost]
    for (task_id, _), tag, job in zip(lost, tags, jobs, strict=True):
        board.notes.offer(_note(f"lost {tag}", task_id, job))
        session.writer.record_job(task_id, JobChanged(job.job_id, "lost"))
    others = [left for left in running.values() if left.tag not in tags]
    return (
        *(
            f"job {job.job_id} was running when buddy was killed; {job.fate}: {_short(job.command)}"
            for job in jobs
        ),
        *(f"still running from before: {left.command} ({left.pids})" for left in others),
        *(("/jobs lists running jobs; /jobs stop N ends one",) if running and board.parts.attended else ()),
    )


def _describe_lost(job: JobChanged, running: Mapping[str, LeftCommand]) -> _LostJob:
    left = running.get(_text_of(job, "tag"))
    if left is not None:
        fate = f"it still runs ({left.pids})"
    else:
        fate = "it has ended too" if sys.platform == "linux" else "it may still run: check with ps"
    return _LostJob(job.job_id, _text_of(job, "command"), fate)


def _note(note_id: str, task_id: int, job: _LostJob) -> Note:
    """Build the note about a lost job. Its id depends only on the job, so that a buddy killed again does not
    add it twice."""
    title = f"job {job.job_id} ran when buddy was killed"
    heading = f"buddy was killed while job {job.job_id} ran, and has been restarted"
    lead = ". State of the job:"
    return Note(note_id, task_id, title, f"{job.fate}: {job.command}", heading, lead=lead)


def _text_of(job: JobChanged, name: str) -> str:
    return str(job.data.get(name, ""))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_COMMAND_CHARS else f"{line[:MAX_COMMAND_CHARS]}…"
