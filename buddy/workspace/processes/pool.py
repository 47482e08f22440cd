"""The owner of all child processes of a session: starts them, attends to them, leaves none behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from types import TracebackType
from typing import Protocol

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.tool import NOTHING_BLOCKED, Blocked, ToolError
from buddy.safety.secrets.redact import Finder, secret_spans
from buddy.workspace.processes.child import Child, ConfinedChild, Exit, Remarks
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.launch import (
    Launch,
    Start,
    TerminalSize,
    bash_path,
    launch_in_terminal,
    launch_with_pipe,
    start_directly,
)
from buddy.workspace.processes.limits import (
    NO_LIMITS,
    ProcessLimits,
    leaves_room,
    machine_processes,
    shared_processes,
    with_limits,
)
from buddy.workspace.processes.output import OutputBounds, OutputLog
from buddy.workspace.processes.pids_group import PidsGroup, pids_group
from buddy.workspace.processes.process_tree import (
    Tag,
    adopt_orphans,
    new_tag,
    own_children,
    read_process,
    reap,
    tag_number,
)
from buddy.workspace.processes.termination import to_the_end
from buddy.workspace.sandbox.profile import Confinement


class CommandRequest(msgspec.Struct, frozen=True):
    """A command to run. `env` is added by buddy's own code; `terminal` asks for a terminal instead of a
    pipe; `confinement` is how the sandbox confines it, None for what runs outside of it; `kept` is
    False where a listener takes the output and nobody reads it again: it never goes to the disk. `limited` is
    False for buddy's own programs: a git that ends at a limit would leave half a checkout, and they may take
    the processes that commands must leave free. `only_reads`: it runs without a question because it
    only reads. `bounds`: how much
    of the output is kept, where that is not the usual; `stdin`: a descriptor to read from, the caller's to
    close, nothing to read for -1; `is_raw`: the terminal passes everything on as it is, to another terminal;
    `select` returns the part of what it writes that is output of the command."""

    argv: tuple[str, ...]
    cwd: str
    task_id: int
    env: Mapping[str, str] = {}
    terminal: TerminalSize | None = None
    confinement: Confinement | None = None
    kept: bool = True
    limited: bool = True
    only_reads: bool = False
    bounds: OutputBounds | None = None
    stdin: int = -1
    is_raw: bool = False
    select: Callable[[bytes], bytes] | None = None


class FinishedCommand(msgspec.Struct, frozen=True):
    """A command that ran to its end. `text` has both ends of its output; `timed_out`: it was ended at its
    time limit; `remarks`: what it said on stderr, where that is kept apart; `blocked`: what the sandbox
    refused it."""

    text: str
    exit: Exit
    timed_out: bool
    bytes_written: int
    remarks: str = ""
    blocked: Blocked = NOTHING_BLOCKED

    @property
    def ok(self) -> bool:
        """Tell whether the command ended by itself with exit code 0."""
        return self.exit.code == 0 and not self.timed_out


class ProcessSettings(msgspec.Struct, frozen=True):
    """Settings for running child processes. `spill_folder` (made with mode 0700) stores long outputs, with
    the spans found by `find_secrets` removed; `grace_s` is the time between TERM and KILL;
    `reader_bytes` is the memory of each process of a command that runs without a question, where the limits
    set none."""

    spill_folder: str
    limits: ProcessLimits = NO_LIMITS
    grace_s: float = 1.0
    bounds: OutputBounds = OutputBounds()
    find_secrets: Finder = secret_spans
    reader_bytes: int | None = None


class ConfinedLaunch(ConfinedChild, Protocol):
    """A command that was put into the sandbox: what to start instead, and how."""

    @property
    def launch(self) -> Launch:
        """Return the launch to carry out."""
        ...

    def start(self, start: Start, terminal: str) -> subprocess.Popen[bytes]:
        """Start `launch`; `terminal` is the path of its terminal, "" for none."""
        ...


class Sandboxing(Protocol):
    """Interface of the sandbox that confines commands (`buddy.workspace.sandbox.sandbox.Sandbox`, loaded
    after startup)."""

    def confine(self, launch: Launch, confinement: Confinement, tag: Tag) -> ConfinedLaunch:
        """Put a command into the sandbox. Raises `ToolError` where that can't be done."""
        ...

    async def check(self) -> None:
        """Check the protected names for changes by running commands."""
        ...


def _nothing() -> None:
    return


class ChildProcesses:
    """All children of one session. Leaving the context ends every one of them. `sandbox` is what requests
    with a confinement are put into."""

    def __init__(
        self, environment: ChildEnvironment, settings: ProcessSettings, sandbox: Sandboxing | None = None
    ) -> None:
        self.environment = environment
        self.settings = settings
        self.sandbox = sandbox
        self._children: list[Child] = []
        self._numbers: set[int] = set()
        self._adopting = False

    @cached_property
    def _machine_processes(self) -> int | None:
        return machine_processes()

    @cached_property
    def _group(self) -> PidsGroup:
        return pids_group()

    async def __aenter__(self) -> ChildProcesses:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end_all()
        if "_group" in self.__dict__:  # a session without commands makes none
            self._group.close()
        if self._adopting:
            self._adopting = False
            adopt_orphans(wanted=False)

    async def end_all(self) -> None:
        """End every command with everything it started, at the same time."""
        endings = [child.stop("session ended") for child in self._children if not child.is_closed]
        if endings:
            await to_the_end(asyncio.ensure_future(asyncio.wait(endings)))
        self._reap_strays()

    def start(
        self, request: CommandRequest, *, errors: int = -1, remote: ConfinedChild | None = None
    ) -> Child:
        """Start a command; about a millisecond, on the loop's thread. `errors`: a descriptor for its stderr,
        which is part of its output otherwise; `remote`: its other side, where it runs on another machine.
        Raises `ToolError`."""
        if not self._adopting:
            self._adopting = True
            adopt_orphans(wanted=True)
        self._reap_strays()
        tag = new_tag()
        launch = self._launch(request, tag)
        confined: ConfinedLaunch | None = None
        if request.confinement is not None:
            confined = self._confine(launch, request.confinement, tag)
            launch = confined.launch
        starter = confined.start if confined else start_directly
        with on_failure(confined.finish if confined else _nothing):
            if request.terminal is None:
                launched = launch_with_pipe(launch, tag, errors=errors, starter=starter)
            else:
                launched = launch_in_terminal(
                    launch, tag, request.terminal, is_raw=request.is_raw, starter=starter
                )
        self._numbers.add(tag.number)
        path = self._spill_path(tag) if request.kept else ""
        log = OutputLog(path, request.bounds or self.settings.bounds, self.settings.find_secrets)
        child = Child(
            launched,
            log,
            grace_s=self.settings.grace_s,
            confined=confined or remote,
            select=request.select,
        )
        self._children = [*(child for child in self._children if not child.is_closed), child]
        return child

    def _launch(self, request: CommandRequest, tag: Tag) -> Launch:
        argv = request.argv
        limits = self.limits_of(request)
        inherited = limits.data_bytes
        if inherited is not None and leaves_room(inherited):
            limits = msgspec.structs.replace(limits, data_bytes=None)
        else:
            inherited = None
        if limits != NO_LIMITS or sys.platform != "linux":
            argv = with_limits(argv, limits, bash_path())
        env = self.environment.for_child(task_id=request.task_id, tag=tag.text, extra=request.env)
        processes = shared_processes(self._machine_processes) if request.limited else None
        return Launch(
            argv,
            request.cwd,
            env,
            processes=processes,
            data_bytes=inherited,
            is_expendable=request.limited,
            stdin=request.stdin,
            group=self._group.limit(processes),
        )

    def limits_of(self, request: CommandRequest) -> ProcessLimits:
        """Return the limits a command runs under."""
        if not request.limited:
            return NO_LIMITS
        limits = self.settings.limits
        is_reader = request.only_reads or (
            request.confinement is not None and request.confinement.kind == "read-only"
        )
        if not is_reader or limits.memory_bytes is not None:
            return limits
        return msgspec.structs.replace(limits, data_bytes=self.settings.reader_bytes)

    def _confine(self, launch: Launch, confinement: Confinement, tag: Tag) -> ConfinedLaunch:
        if self.sandbox is None:
            raise ToolError("this command is to run in a sandbox, and there is none")
        return self.sandbox.confine(launch, confinement, tag)

    def _spill_path(self, tag: Tag) -> str:
        return os.path.join(self.settings.spill_folder, f"{tag.text}.out")

    def _reap_strays(self) -> None:
        """Reap adopted orphans that ended: only ones that carry a tag of ours, never other owners'
        children."""
        running = {child.pid for child in self._children if not child.is_closed}
        for pid in own_children() if self._numbers else ():
            process = read_process(pid)
            if process and not process.alive and pid not in running and tag_number(pid) in self._numbers:
                reap(pid)

    async def attend(self, child: Child, *, timeout_s: float | None, cancelled: asyncio.Event) -> Exit | None:
        """Wait for the shell's end; None when the time is over. When the event fires or the caller is
        cancelled, the whole tree is dead before `CancelledError` is raised."""
        waiter = asyncio.ensure_future(cancelled.wait())
        shell = asyncio.ensure_future(child.wait())
        try:
            await asyncio.wait({waiter, shell}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await child.end("cancelled")
            raise
        finally:
            waiter.cancel()
            shell.cancel()
        if child.exit is not None:
            return child.exit
        if cancelled.is_set():
            await child.end("cancelled")
            raise asyncio.CancelledError
        return None

    async def run(
        self,
        request: CommandRequest,
        *,
        timeout_s: float | None,
        cancelled: asyncio.Event,
        listener: Callable[[bytes], None] | None = None,
    ) -> FinishedCommand:
        """Run a command to its end, or to its time limit; nothing it started survives. Raises `ToolError`
        when it cannot be started."""
        await self._judge_others(request)
        child = self.start(request)
        return await self._to_its_end(child, timeout_s, cancelled, listener)

    async def run_apart(
        self, request: CommandRequest, *, timeout_s: float | None, cancelled: asyncio.Event
    ) -> FinishedCommand:
        """Return the same for a program whose answer is taken apart: what it says on stderr is no part of
        it."""
        await self._judge_others(request)
        with Remarks() as remarks:
            child = self.start(request, errors=remarks.writing)
            remarks.close_writer()
            done = await self._to_its_end(child, timeout_s, cancelled, None)
            return msgspec.structs.replace(done, remarks=remarks.text())

    async def _judge_others(self, request: CommandRequest) -> None:
        """Let nothing outside of the sandbox, as buddy's own git, act on what a running command planted."""
        if self.sandbox is not None and request.confinement is None:
            await self.sandbox.check()

    async def _to_its_end(
        self,
        child: Child,
        timeout_s: float | None,
        cancelled: asyncio.Event,
        listener: Callable[[bytes], None] | None,
    ) -> FinishedCommand:
        if listener is not None:
            child.listeners.append(listener)
        exit_ = await self.attend(child, timeout_s=timeout_s, cancelled=cancelled)
        if exit_ is None or exit_.left_running:
            await child.end("time limit" if exit_ is None else "left running")
        ended = exit_ or await child.wait()
        return FinishedCommand(
            child.log.text(),
            ended,
            timed_out=exit_ is None,
            bytes_written=child.log.total,
            blocked=child.blocked_accesses,
        )


class ConfinedProcesses(ChildProcesses):
    """The children of a session as a plug-in tool gets them: what it starts is confined like its call."""

    def __init__(self, owner: ChildProcesses, confinement: Confinement) -> None:
        super().__init__(owner.environment, owner.settings, owner.sandbox)
        self._owner = owner
        self._confinement = confinement

    def start(
        self, request: CommandRequest, *, errors: int = -1, remote: ConfinedChild | None = None
    ) -> Child:
        """Start a command in the sandbox."""
        if remote is not None:
            raise ToolError("a confined tool can start nothing on another machine")
        confined = msgspec.structs.replace(request, confinement=request.confinement or self._confinement)
        return self._owner.start(confined, errors=errors)
