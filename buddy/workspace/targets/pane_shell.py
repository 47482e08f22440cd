"""The commands of a tmux target: typed into the shared pane, a background one into a window of its own."""

from __future__ import annotations

import asyncio

from buddy.agent.tool import ToolContext, ToolError
from buddy.safety.paths import Boundary, locate
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.processes.child import Child
from buddy.workspace.processes.environment import CAPTURED, TAG_VARIABLE
from buddy.workspace.processes.launch import TerminalSize
from buddy.workspace.processes.pool import ChildProcesses
from buddy.workspace.processes.termination import run_to_end
from buddy.workspace.targets.pane_command import PaneCommand
from buddy.workspace.targets.pane_connection import PaneConnection
from buddy.workspace.targets.pane_prompt import StoppedTypingError
from buddy.workspace.targets.pane_script import check_command

_SET_THERE = ("PAGER", "GIT_PAGER")
"""What a command in a pane gets of the variables for captured output: a pager would wait for a key."""


class CommandInPane:
    """A command that was typed into a pane."""

    def __init__(self, connection: PaneConnection, command: PaneCommand, child: Child, pane: str) -> None:
        self._connection, self._command, self._pane = connection, command, pane
        self.child = child
        self.advice = "capture_pane shows the pane, send_keys types into it"

    def note(self) -> str:
        """Return what the model has to know about its end. Raises `ToolError` where nobody knows how it
        ended."""
        words, exit_ = self._command.end_words, self.child.exit
        if exit_ is not None and exit_.lost:
            raise ToolError(self._explain_loss(exit_.lost))
        notes = [f"{self._command.shell} ran it"] if self._command.shell != "bash" else []
        if words.get("interrupted") is not None:
            notes.append("it was interrupted in the pane")
        if words.get("stopped") is not None:
            notes.append("it was stopped in the pane (C-z) and waits there as a job of the shell (fg, bg)")
        if self._command.survivors:
            notes.append(f"processes {', '.join(map(str, self._command.survivors))} could not be ended")
        return "; ".join(notes)

    def _explain_loss(self, reason: str) -> str:
        is_there = self._connection.is_there(self._pane)
        still = ", and it may still run; capture_pane shows it" if is_there else ""
        said = self.child.log.text()
        return f"{reason}: how the command ended is not known{still}. Its output so far:\n{said}"


class PaneShell:
    """The shell of one pane. `children` owns the readers; `scratch` is the folder for private files."""

    def __init__(self, connection: PaneConnection, children: ChildProcesses, scratch: str) -> None:
        self._connection, self._children, self._scratch = connection, children, scratch
        self.name = connection.address.name
        self.shown = f"{self.name} ({connection.address.shown})"

    async def start(self, ctx: ToolContext, command: str, cwd: str, *, in_background: bool) -> CommandInPane:
        """Type a command into the pane; it runs in a folder of the workspace. Raises `ToolError`."""
        check_command(command)
        folder = await self._folder(ctx, cwd)
        pane = await asyncio.to_thread(self._connection.ensure)
        if in_background:
            pane = await asyncio.to_thread(self._connection.new_window)
        typed = PaneCommand(
            self._connection,
            pane,
            own_window=in_background,
            scratch=self._scratch,
            variables=self._variables(ctx.task_id),
        )
        child = typed.start(self._children, ctx.task_id)
        sending = asyncio.ensure_future(asyncio.to_thread(typed.send, command, folder, ctx.cancelled.is_set))
        try:
            await asyncio.shield(sending)
        except (asyncio.CancelledError, StoppedTypingError) as error:
            typed.abandon()
            await run_to_end(_end(sending, child))
            raise asyncio.CancelledError from error
        except ToolError:
            await child.end("cancelled")
            raise
        return CommandInPane(self._connection, typed, child, pane)

    async def start_terminal(
        self, ctx: ToolContext, command: str, cwd: str, size: TerminalSize
    ) -> CommandInPane:
        """Refuse: a pane is a terminal already."""
        del ctx, command, cwd, size
        raise ToolError(
            f"pty does not work on {self.name}, which is a terminal: leave it out, and use capture_pane and "
            "send_keys while the command runs; nothing was run"
        )

    async def _folder(self, ctx: ToolContext, cwd: str) -> str:
        """Return the folder to run in, as it was approved."""
        boundary = ctx.service(Boundary)
        folder = locate(boundary, cwd).real if cwd else boundary.cwd
        approved = ctx.services.get(Approved)
        if isinstance(approved, Approved):
            if cwd:
                approved.check_path(ctx.call_id, cwd, folder)
            await asyncio.to_thread(approved.check_scripts, ctx.call_id, boundary)
        return folder

    def _variables(self, task_id: int) -> dict[str, str]:
        own = self._children.environment.for_child(task_id=task_id, tag="", extra={})
        names = [name for name in own if name.startswith("BUDDY_") and name != TAG_VARIABLE]
        return {**{name: CAPTURED[name] for name in _SET_THERE}, **{name: own[name] for name in names}}


async def _end(sending: asyncio.Future[None], child: Child) -> None:
    await asyncio.wait({sending})
    if not sending.cancelled():
        sending.exception()  # it stopped, as it was told to
    await child.end("cancelled")
