"""Jobs: commands that go on while the conversation does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Literal

import msgspec

from buddy.agent.tool import ToolError
from buddy.workspace.processes.child import Child, Exit
from buddy.workspace.processes.launch import TerminalSize
from buddy.workspace.processes.output import OutputLog
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest
from buddy.workspace.processes.terminal import JobTerminal
from buddy.workspace.processes.termination import Ending

KEPT_ENDED = 50
"""Jobs that ended and are still listed."""

JobState = Literal["running", "shell ended", "ended"]


class JobStatus(msgspec.Struct, frozen=True):
    """A job at one moment. `shell ended`: the command itself is over, processes it started run on. `exit` is
    how the command ended, None while it runs; `tag` is what everything it started carries; `machine` is the
    target it runs on, "" for this machine."""

    id: int
    task_id: int
    command: str
    state: JobState
    exit: Exit | None
    seconds: float
    bytes_written: int
    has_terminal: bool
    tag: str
    machine: str = ""


class Job:
    """One command that was left running, and its terminal when it has one. `machine` is the target it runs
    on, "" for this machine."""

    def __init__(
        self,
        number: int,
        task_id: int,
        command: str,
        child: Child,
        terminal: JobTerminal | None,
        machine: str = "",
    ) -> None:
        self.id = number
        self.task_id = task_id
        self.command = command
        self.child = child
        self.terminal = terminal
        self.machine = machine

    @property
    def log(self) -> OutputLog:
        """Log of the job's output."""
        return self.child.log

    def status(self) -> JobStatus:
        """Return the job's current status."""
        state: JobState = "running"
        if self.child.is_closed:
            state = "ended"
        elif self.child.exit is not None:
            state = "shell ended"
        return JobStatus(
            id=self.id,
            task_id=self.task_id,
            command=self.command,
            state=state,
            exit=self.child.exit,
            seconds=self.child.age_s,
            bytes_written=self.child.log.total,
            has_terminal=self.terminal is not None,
            tag=self.child.tree.tag.text,
            machine=self.machine,
        )


def _tell_nobody(_status: JobStatus) -> None:
    return


class Jobs:
    """The jobs of a session, numbered 1, 2, 3 …. Leaving the context ends them all. `changed` is called when
    a job starts or ends."""

    def __init__(self, children: ChildProcesses, changed: Callable[[JobStatus], None] = _tell_nobody) -> None:
        self._children = children
        self._changed = changed
        self._jobs: dict[int, Job] = {}
        self._watches: dict[int, asyncio.Task[None]] = {}
        self._last = 0

    async def __aenter__(self) -> Jobs:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end_all()

    async def end_all(self) -> None:
        """End every job with everything it started."""
        endings = [job.child.stop("session ended") for job in self._jobs.values() if not job.child.is_closed]
        watches = list(self._watches.values())
        await self._children.end_all()
        if endings or watches:
            await asyncio.wait([*endings, *watches])

    def adopt(
        self,
        child: Child,
        *,
        command: str,
        task_id: int,
        terminal: TerminalSize | None = None,
        machine: str = "",
    ) -> Job:
        """Make a running command a job. `terminal`: the size of the terminal it runs on."""
        return self._add(
            child, command, task_id, None if terminal is None else JobTerminal(child, terminal), machine
        )

    def start(self, request: CommandRequest, *, command: str) -> Job:
        """Start a command as a job, on a terminal when the request says so. Raises `ToolError`."""
        child = self._children.start(request)
        terminal = None if request.terminal is None else JobTerminal(child, request.terminal)
        return self._add(child, command, request.task_id, terminal)

    def _add(
        self, child: Child, command: str, task_id: int, terminal: JobTerminal | None, machine: str = ""
    ) -> Job:
        self._last += 1
        job = Job(self._last, task_id, command, child, terminal, machine)
        self._jobs[job.id] = job
        self._watches[job.id] = asyncio.ensure_future(self._watch(job))
        self._forget_old()
        self._changed(job.status())
        return job

    async def _watch(self, job: Job) -> None:
        await job.child.wait_all()
        if job.terminal is not None:
            await job.terminal.close()
        del self._watches[job.id]
        self._forget_old()
        self._changed(job.status())

    def _forget_old(self) -> None:
        ended = [number for number in self._jobs if number not in self._watches]
        for number in ended[: max(0, len(ended) - KEPT_ENDED)]:
            del self._jobs[number]

    def all(self) -> tuple[JobStatus, ...]:
        """Return every job that runs or ended recently, in order."""
        return tuple(job.status() for job in self._jobs.values())

    def get(self, number: int) -> Job:
        """Return the job with this number. Raises `ToolError` that names the ones there are."""
        job = self._jobs.get(number)
        if job is None:
            known = ", ".join(str(each) for each in self._jobs) or "none"
            raise ToolError(f"there is no job {number}; jobs: {known}")
        return job

    async def stop(self, number: int) -> Ending:
        """End a job with everything it started."""
        ending = await self.get(number).child.end("stopped")
        watch = self._watches.get(number)
        if watch is not None:
            await asyncio.wait([watch])
        return ending

    async def news(self, job: Job, *, offset: int, wait_s: float, cancelled: asyncio.Event) -> None:
        """Wait until a job has written past `offset`, or ended, or the time is over, or the event fired."""
        arrived = asyncio.Event()
        job.child.listeners.append(lambda _data: arrived.set())
        listener = job.child.listeners[-1]
        watch = self._watches.get(job.id)
        waits = {asyncio.ensure_future(arrived.wait()), asyncio.ensure_future(cancelled.wait())}
        try:
            if watch is not None and job.log.total <= offset:
                await asyncio.wait({watch, *waits}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            job.child.listeners.remove(listener)
            for wait in waits:
                wait.cancel()
