"""The commands of one target on another machine or in a container, on pipes or on a terminal."""

from __future__ import annotations

import asyncio
import posixpath
import time
from typing import Protocol

from buddy.agent.formatting import format_count
from buddy.agent.tool import ToolContext, ToolError
from buddy.safety.sanitise import visible
from buddy.workspace.processes.child import Child
from buddy.workspace.processes.launch import TerminalSize
from buddy.workspace.processes.pool import ChildProcesses
from buddy.workspace.processes.termination import run_to_end
from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.remote_command import RemoteCommand, RemoteEnd
from buddy.workspace.targets.remote_terminal import RemoteTerminal

BEGIN_LIMIT_S = 15.0
POLL_S = 0.01


class OtherSide(Protocol):
    """The other side of a command."""

    def end(self) -> RemoteEnd:
        """Return what is known after the local client ended."""
        ...


class StartedCommand:
    """A command that was started over there."""

    def __init__(self, connection: TargetConnection, command: OtherSide, child: Child, cwd: str) -> None:
        self._connection, self._command, self._cwd = connection, command, cwd
        self.child = child
        self.advice = ""

    def note(self) -> str:
        """Return what the model has to know about its end. Raises `ToolError` where nobody knows how it
        ended."""
        name, end = self._connection.destination.name, self._command.end()
        if end.has_no_folder:
            raise _no_folder(self._cwd, self._connection)
        exit_ = self.child.exit
        was_stopped = exit_ is not None and bool(exit_.stopped_for)
        if end.is_lost and not (was_stopped and end.is_clean):
            raise ToolError(
                f"{self._connection.lost()}. How the command ended is not known; {name} ends what is left of "
                f"it. Its output so far:\n{self.child.log.text()}"
            )
        notes = [f"no bash on {name}: sh ran it"] if end.shell != "bash" else []
        if end.ended_others:
            notes.append("processes it left running were ended: nothing outlives a command there")
        if end.survivors:
            count = format_count(len(end.survivors.split()), "process", "processes")
            notes.append(f"{count} could not be ended over there: {visible(end.survivors)}")
        return "; ".join(notes)


class RemoteShell:
    """The shell of one target; `children` owns the local clients."""

    def __init__(self, connection: TargetConnection, children: ChildProcesses) -> None:
        self._connection, self._children = connection, children
        self.name = connection.destination.name
        self.shown = f"{self.name} ({connection.destination.shown})"

    async def start(self, ctx: ToolContext, command: str, cwd: str, *, in_background: bool) -> StartedCommand:
        """Start a command in a folder ("": the target's own). Connects; raises `ToolError`."""
        del in_background  # nobody sees where it runs
        folder = await self._folder(cwd)
        remote = RemoteCommand(self._connection, folder, command)
        child = remote.start(self._children, ctx.task_id)
        try:
            await asyncio.to_thread(remote.send)
            await _wait_for_begin(remote, child)
        except asyncio.CancelledError:
            await run_to_end(_end_when_begun(remote, child))
            raise
        except ToolError:
            await child.end("not sent")
            raise
        return StartedCommand(self._connection, remote, child, cwd)

    async def start_terminal(
        self, ctx: ToolContext, command: str, cwd: str, size: TerminalSize
    ) -> StartedCommand:
        """Start a command on a terminal in a folder ("": the target's own). Connects; raises `ToolError`."""
        folder = await self._folder(cwd)
        remote = RemoteTerminal(self._connection, folder, command, size)
        watching = asyncio.ensure_future(asyncio.to_thread(remote.watch))
        try:
            await asyncio.shield(watching)
        except asyncio.CancelledError:
            await run_to_end(_stop_watching(watching, remote))
            raise
        child = remote.start(self._children, ctx.task_id)
        try:
            await remote.begin(child)
        except asyncio.CancelledError:
            await run_to_end(child.end("cancelled"))
            raise
        except ToolError as error:
            await child.end("not begun")
            if remote.end().has_no_folder:
                raise _no_folder(cwd, self._connection) from error
            raise
        return StartedCommand(self._connection, remote, child, cwd)

    async def _folder(self, cwd: str) -> str:
        facts = await asyncio.to_thread(self._connection.ensure)
        if cwd == "~" or cwd.startswith("~/"):
            cwd = facts.home + cwd[1:]
        return posixpath.join(facts.folder, cwd)


def _no_folder(cwd: str, connection: TargetConnection) -> ToolError:
    return ToolError(f"there is no folder {visible(cwd)} on {connection.destination.name}; nothing was run")


async def _stop_watching(watching: asyncio.Future[None], remote: RemoteTerminal) -> None:
    await asyncio.wait({watching})
    if not watching.cancelled():
        watching.exception()  # nobody needs to know any more
    await asyncio.to_thread(remote.finish)


async def _wait_for_begin(remote: RemoteCommand, child: Child) -> None:
    """Wait until the other side has begun, or will not."""
    deadline = time.monotonic() + BEGIN_LIMIT_S

    def is_waiting() -> bool:
        return not remote.has_begun() and child.exit is None and time.monotonic() < deadline

    while is_waiting():  # noqa: ASYNC110 - a thread reads what the other side says
        await asyncio.sleep(POLL_S)


async def _end_when_begun(remote: RemoteCommand, child: Child) -> None:
    """End a command that was cancelled while it began: what is not there yet can't be ended."""
    await _wait_for_begin(remote, child)
    await child.end("cancelled")
