"""The arguments of docker or podman for a running container: nothing from the settings can become an option.
Pure."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BufferedReader
from typing import IO

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.sanitise import visible
from buddy.workspace.targets.destination import MAX_FOLDER_CHARS, check_name
from buddy.workspace.targets.shell_files import FILES_NEED, ShellFileClient
from buddy.workspace.targets.supervisor import SUPERVISOR_NEEDS
from buddy.workspace.targets.transport import DestinationError, FindProgram, TargetError

PROGRAMS = ("docker", "podman")
"""Looked for in this order where the settings name none."""
_CONTAINER = pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
_PROGRAM = pattern(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_USER = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")

_LEAD = (
    "read -r stat </proc/$$/stat && set -- ${stat##*) } && "
    '[ "$3" != $$ ] && command -v setsid >/dev/null && exec setsid /bin/sh -s; exec /bin/sh -s'
)
"""podman starts a command in a session of its own program: one of its own makes it possible to find all that
it started. A leader of a process group can't ask for one, and has one already."""


class ContainerDestination(msgspec.Struct, frozen=True):
    """A running container, by its name or id, and a folder in it. `folder` may be empty: then it is the one
    the container works in; `user` too: then it is the container's; `program`: the first of `PROGRAMS`."""

    name: str
    container: str
    folder: str = ""
    user: str = ""
    program: str = ""

    @property
    def shown(self) -> str:
        """Return the destination for people."""
        user = f"{self.user}@" if self.user else ""
        return f"container {user}{self.container}{':' + self.folder if self.folder else ''}"

    @property
    def no_files(self) -> str:
        """Return the likely reason when a shell for files ends at once."""
        return "its shell ended, or the container was stopped"

    @property
    def ended(self) -> str:
        """Return the likely reason when the shell of the connection ends without a word."""
        return f"the container {self.container} was stopped or removed, or its shell was ended"

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the programs that end commands there and handle files."""
        return (*SUPERVISOR_NEEDS, *FILES_NEED)

    def check(self) -> None:
        """Raise `DestinationError` for anything that the program could take for something else."""
        check_name(self.name)
        if not _CONTAINER().fullmatch(self.container):
            raise self._error("container", "the name or id of a running container", self.container)
        if self.user and not _USER().fullmatch(self.user):
            raise self._error("user", "a user, or user:group", self.user)
        if len(self.folder) > MAX_FOLDER_CHARS or not self.folder.isprintable():
            raise self._error("folder", "a folder in the container", self.folder)
        if self.folder and not self.folder.startswith("/"):
            raise self._error("folder", "an absolute path in the container", self.folder)
        if self.program and not _PROGRAM().fullmatch(self.program) and not os.path.isabs(self.program):
            raise self._error("program", "docker, podman, or the path of such a program", self.program)

    def _error(self, field: str, expected: str, found: str) -> DestinationError:
        return DestinationError(f"[targets.{self.name}] {field}: expected {expected}, found {found!r}")

    def locate_program(self, find: FindProgram) -> str:
        """Return docker, podman or what the settings name. Raises `TargetError` where there is none."""
        wanted = (self.program,) if self.program else PROGRAMS
        for name in wanted:
            if (program := find(name)) is not None:
                return program
        raise TargetError(
            f"expected the program {' or '.join(wanted)} outside of the workspace, found none; install "
            f"it, or name another one: [targets.{self.name}] program"
        )

    def master_argv(self, program: str, private: str) -> tuple[str, ...]:
        """Return the command that runs `sh` in the container as long as the connection is wanted."""
        return self.channel_argv(program, private)

    def channel_argv(self, program: str, private: str) -> tuple[str, ...]:
        """Return the command that runs `sh` in the container, fed through stdin."""
        return (program, "exec", *self._options(), self.container, "/bin/sh", "-c", _LEAD)

    def terminal_argv(self, program: str, private: str, tag: str, lead: str) -> tuple[str, ...]:
        """Return the command that runs `sh` on a terminal of the container."""
        options = (*self._options(), "--tty", f"--env=BUDDY_JOB={tag}")
        return (program, "exec", *options, self.container, "/bin/sh", "-c", lead)

    def _options(self) -> tuple[str, ...]:
        user = ("--user", self.user) if self.user else ()
        # Without keys to detach: podman looks for them in everything that is sent.
        return ("--interactive", "--detach-keys=", *user)

    def files_argv(self, program: str, private: str) -> tuple[str, ...]:
        """Return the command that runs the shell for files."""
        return self.channel_argv(program, private)

    def file_client(
        self, to: IO[bytes], back: BufferedReader, lost: Callable[[str], TargetError]
    ) -> ShellFileClient:
        """Return a client for the pipes of that command."""
        return ShellFileClient(to, back, lost)

    def explain(self, text: str) -> str:
        """Return the reason that docker or podman gave, with what to do about it."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        last = visible(lines[-1]) if lines else ""
        for words, reason in _REASONS:
            if words in text.lower():
                return reason.format(self.container)
        return last


_REASONS = (
    ("no such container", "there is no container {}"),
    ("is paused", "the container {} is paused; unpause it"),
    ("is restarting", "the container {} is restarting; try again when it runs"),
    ("is not running", "the container {} is not running; start it"),
    ("container state improper", "the container {} is not running, or is paused; start or unpause it"),
    (
        "cannot connect to the docker daemon",
        "the docker daemon does not run, or is not where docker looks for it",
    ),
    ("permission denied while trying to connect", "you may not use the docker daemon's socket"),
    ("/bin/sh: no such file", "the container {} has no /bin/sh, which work there needs"),
    ("`/bin/sh` not found", "the container {} has no /bin/sh, which work there needs"),
)
"""Words of docker and podman, in lower case."""
