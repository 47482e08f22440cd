"""The seam between a kind of target and everything that works on one: programs that reach it, and a client
for its files."""

from __future__ import annotations

import time
from collections.abc import Callable
from io import BufferedReader
from typing import IO, Literal, Protocol

import msgspec

from buddy.agent.tool import ToolError
from buddy.workspace.elsewhere import RemoteStatus

ConnectionState = Literal["closed", "open", "lost"]
FindProgram = Callable[[str], str | None]
"""Finds a program of this machine by its name."""


CANCEL_GRACE_S = 3.0
"""The time a cancelled call has to end what it has begun over there."""


class Cancellation:
    """The end of a call that a person cancels, for threads, which nobody else can end."""

    def __init__(self, is_cancelled: Callable[[], bool], grace_s: float = CANCEL_GRACE_S) -> None:
        self._is_cancelled, self._grace_s = is_cancelled, grace_s
        self._since: float | None = None

    def is_over(self) -> bool:
        """Tell whether the call is cancelled, and its time to come to an end is over."""
        if self._since is None:
            if not self._is_cancelled():
                return False
            self._since = time.monotonic()
        return time.monotonic() - self._since >= self._grace_s


class TargetError(ToolError):
    """The target can't be reached, or the connection to it was lost."""


class DestinationError(ToolError):
    """A target that can't be used; the message names the setting."""


class HostFacts(msgspec.Struct, frozen=True):
    """The other side: home folder, the target's folder with links resolved, system, and whether it has
    bash."""

    home: str
    folder: str
    system: str
    has_bash: bool


class FinishedScript(msgspec.Struct, frozen=True):
    """The output of a script, and its exit code; None when its time was over."""

    text: str
    code: int | None


class FileClient(Protocol):
    """One channel to the files of a target. Every method blocks, raises `OSError` for a refusal of the other
    side and `TargetError` when the channel has ended; after that `is_usable` is False."""

    @property
    def is_usable(self) -> bool:
        """Tell whether the channel still works."""
        ...

    def begin(self, cancellation: Cancellation | None) -> None:
        """Begin a request, of a call that may be cancelled."""
        ...

    def real_path(self, path: str) -> str:
        """Return a path with its links resolved."""
        ...

    def status(self, path: str) -> RemoteStatus:
        """Return the attributes of a file; of a link its own."""
        ...

    def read_link(self, path: str) -> str:
        """Return the target of a link."""
        ...

    def read(self, path: str, max_bytes: int, expected: int) -> bytes:
        """Return a file's bytes, at most so many; about as many as `expected`."""
        ...

    def write_new(self, path: str, data: bytes, mode: int, owner: tuple[int, int] | None) -> None:
        """Write a file that must not exist yet, and have it flushed to the disk. `owner`: its user and group,
        where they can be set."""
        ...

    def replace(self, old: str, new: str) -> None:
        """Rename a file over another one, atomically."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file to a name that is free."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file or a link."""
        ...

    def make_folder(self, path: str) -> None:
        """Make a folder."""
        ...

    def list(self, path: str) -> list[tuple[str, RemoteStatus]]:
        """Return the entries of a folder."""
        ...

    def free_bytes(self, path: str) -> int | None:
        """Return the free space around a path, None where it is not known."""
        ...


class Destination(Protocol):
    """A machine and a folder on it, and the local programs that reach it. `private` is a folder of this
    machine that belongs to one connection."""

    @property
    def name(self) -> str:
        """Return the name of the target."""
        ...

    @property
    def folder(self) -> str:
        """Return the folder to work in."""
        ...

    @property
    def shown(self) -> str:
        """Return the destination for people."""
        ...

    @property
    def no_files(self) -> str:
        """Return the likely reason when the channel for files ends at once."""
        ...

    @property
    def ended(self) -> str:
        """Return the likely reason when the connection ends without a word."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the programs that must be over there."""
        ...

    def check(self) -> None:
        """Raise `DestinationError` for a setting that can't be used."""
        ...

    def locate_program(self, find: FindProgram) -> str:
        """Return the local program that reaches it. Raises `TargetError` where there is none."""
        ...

    def master_argv(self, program: str, private: str) -> tuple[str, ...]:
        """Return the command that runs `sh` over there as long as the connection is wanted."""
        ...

    def channel_argv(self, program: str, private: str) -> tuple[str, ...]:
        """Return the command that runs another `sh` over there, fed through stdin."""
        ...

    def terminal_argv(self, program: str, private: str, tag: str, lead: str) -> tuple[str, ...]:
        """Return the command that runs `sh` on a terminal over there. `lead` is its script, without quotes,
        backslashes and `!`; `tag` is the value of BUDDY_JOB in its environment."""
        ...

    def files_argv(self, program: str, private: str) -> tuple[str, ...]:
        """Return the command that `file_client` talks to."""
        ...

    def file_client(
        self, to: IO[bytes], back: BufferedReader, lost: Callable[[str], TargetError]
    ) -> FileClient:
        """Return a client for the pipes of that command."""
        ...

    def explain(self, text: str) -> str:
        """Return the reason why a program failed, from its stderr, with what to do about it."""
        ...
