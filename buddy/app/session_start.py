"""The start of a session: its first task, worktrees of resumed tasks and the launch context in one, and
background jobs: those that an earlier, killed run left running, and notices when one ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from buddy.agent.events import Notice
from buddy.agent.tool import ToolError
from buddy.app.launch import LaunchContext
from buddy.app.options import Options
from buddy.config.settings import ConfigError
from buddy.safety.paths import Boundary
from buddy.sessions.errors import NotSavedError
from buddy.sessions.records import JobChanged, Note
from buddy.sessions.session import OpenSession
from buddy.sessions.writer import SessionWriter
from buddy.tasks.board import TaskBoard
from buddy.tasks.task import TaskError
from buddy.workspace.processes.jobs import JobStatus
from buddy.workspace.processes.launch import path_outside
from buddy.workspace.processes.process_tree import LeftCommand, left_commands
from buddy.workspace.worktrees.worktrees import Worktree, read_origin

MAX_COMMAND_CHARS = 60


async def open_first_task(board: TaskBoard, options: Options) -> tuple[str, ...]:
    """Open the first task; return notes about the folder it works in. Raises `ConfigError`."""
    if not options.in_worktree:
        board.open(model=options.model)
        return ()
    try:
        tree, notice = await _get_worktree(board, options)
    except (ToolError, TaskError) as error:
        raise ConfigError(f"--worktree: {error}") from error
    board.open(model=options.model, worktree=tree.name)
    sentence = f"this session works in {tree.display_path}, on the branch {tree.branch}"
    return (f"{sentence}; {notice}" if notice else sentence,)


async def _get_worktree(board: TaskBoard, options: Options) -> tuple[Worktree, str]:
    """Return the worktree named on the command line, existing or new; without a name, a new one. The second
    value is a notice."""
    trees = board.workspaces.parts().trees
    if not options.worktree:
        return await board.workspaces.make(" ".join(options.words) or "session", carrying=options.carry)
    known = trees.by_name(options.worktree)
    if read_origin(known) is not None and not trees.missing(known):
        return known, "it already existed" if options.carry else ""
    return await board.workspaces.make(options.worktree, exact=True, carrying=options.carry)


async def restore_worktrees(board: TaskBoard) -> tuple[str, ...]:
    """Recreate the foreground task's unchanged worktree; return one notice per missing worktree."""
    notices: list[str] = []
    for task in board.tasks.values():
        tree = task.workspace.worktree
        if tree is None or task.closed:
            continue
        missing = board.workspaces.parts().trees.missing(tree)
        if not missing or (read_origin(tree) is None and task.task_id != board.focus):
            continue
        try:
            notices.append(await board.workspaces.prepare(task))
        except TaskError as error:
            notices.append(f"task {task.task_id}: {error}")
    return tuple(notices)


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


def launch_in_worktree(launch: LaunchContext, directory: str, tree: Worktree) -> LaunchContext:
    """Return the launch context of a task in a worktree: its boundary is the worktree, the folders of
    --add-dir and `output` in the session's `directory`, with the long outputs of its commands."""
    main = launch.boundary
    below = os.path.relpath(main.cwd, main.root)
    cwd = os.path.normpath(os.path.join(tree.path, below))
    boundary = Boundary(
        root=tree.path,
        cwd=cwd if os.path.isdir(cwd) else tree.path,
        home=main.home,
        extra=(*main.extra, os.path.realpath(os.path.join(directory, "output"))),
        own=main.own,
        main=main.root,
        trusts_repository=main.trusts_repository,
        git_settings=main.git_settings,
    )
    return replace(launch, boundary=boundary, environment=environment_outside(launch))


def environment_outside(launch: LaunchContext) -> dict[str, str]:
    """Return the environment without PATH entries in the main tree: a file a task can write there must not be
    run as git."""
    outside = path_outside(launch.environment.get("PATH", ""), launch.boundary.root)
    return {**launch.environment, "PATH": outside}
