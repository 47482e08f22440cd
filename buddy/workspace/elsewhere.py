"""The other machine a task works on, as tools see it: services of a task, missing on this machine.

Tools that find one of them use it; all others look at this machine, and are not offered where there is one.
Only the interfaces: what implements them is imported when a target is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import msgspec

from buddy.agent.tool import ToolContext
from buddy.safety.paths import Located
from buddy.workspace.files.access import FileAccess
from buddy.workspace.processes.child import Child
from buddy.workspace.processes.launch import TerminalSize


class RemoteStatus(msgspec.Struct, frozen=True):
    """The state of a file on another machine. `mode` has the kind of file in it; `owner` is a user and a
    group; `links`: how many names the file has, 1 where that is not known."""

    size: int
    mode: int
    modified_s: int
    owner: tuple[int, int] | None = None
    links: int = 1


class TargetFiles(FileAccess, Protocol):
    """The files of another machine. Every method blocks, and raises `ToolError`."""

    name: str

    def for_call(self, is_cancelled: Callable[[], bool]) -> TargetFiles:
        """Return the same files for one call: its requests end soon after it is cancelled."""
        ...

    def locate(self, given: str) -> Located:
        """Resolve a path over there."""
        ...

    def status(self, real: str) -> RemoteStatus | None:
        """Return what is at a real path, None for nothing."""
        ...

    def entries(self, real: str) -> list[tuple[str, RemoteStatus]]:
        """Return the entries of a folder."""
        ...

    def read_link(self, real: str) -> str:
        """Return the target of a link, "" when it can't be read."""
        ...

    def is_secret(self, real: str) -> bool:
        """Tell whether a path's name says that it holds secrets."""
        ...


class StartedThere(Protocol):
    """A command that was started on another machine."""

    child: Child
    advice: str
    """What else the model can do with it while it runs, "" for nothing."""

    def note(self) -> str:
        """Return what the model has to know about its end, "" for nothing; once the child has ended. Raises
        `ToolError` where nobody knows how it ended."""
        ...


class TargetShell(Protocol):
    """The commands of another machine."""

    name: str
    shown: str

    async def start(self, ctx: ToolContext, command: str, cwd: str, *, in_background: bool) -> StartedThere:
        """Start a command in a folder ("": the target's own). `in_background`: nobody waits for its end.
        Raises `ToolError`."""
        ...

    async def start_terminal(
        self, ctx: ToolContext, command: str, cwd: str, size: TerminalSize
    ) -> StartedThere:
        """Start a command on a terminal of its own. Raises `ToolError`, also where there is none."""
        ...


def target_files(ctx: ToolContext) -> TargetFiles | None:
    """Return the files of the machine a call works on, None for this one."""
    files = cast(TargetFiles | None, ctx.services.get(TargetFiles))
    return files.for_call(ctx.cancelled.is_set) if files is not None else None


def machine_of(ctx: ToolContext) -> str:
    """Return the name of the machine a call works on, "" for this one."""
    files = target_files(ctx)
    return files.name if files is not None else ""


def target_shell(ctx: ToolContext) -> TargetShell | None:
    """Return the shell of the machine a call works on, None for this one."""
    return cast(TargetShell | None, ctx.services.get(TargetShell))
