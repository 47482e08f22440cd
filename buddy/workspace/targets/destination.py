"""The arguments of the ssh client: nothing from the settings can become an option, and buddy's own
restrictions win over every configuration file. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BufferedReader
from typing import IO

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.sanitise import visible
from buddy.workspace.targets.sftp import SftpClient
from buddy.workspace.targets.supervisor import SUPERVISOR_NEEDS
from buddy.workspace.targets.transport import DestinationError, FindProgram, TargetError

_HOST = pattern(r"[A-Za-z0-9_\[][A-Za-z0-9_.:\[\]-]{0,254}")
"""No `%`, quotes or signs of a shell: a `ProxyCommand` of the person's configuration gets the name."""
_NAME = pattern(r"(?!local$)[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_USER = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
MAX_FOLDER_CHARS = 1000

_OPTIONS = (
    ("BatchMode", "yes"),  # no question about a password or an unknown host key: it fails instead
    ("ForwardAgent", "no"),  # a command over there must not use the person's keys
    ("ForwardX11", "no"),
    ("ClearAllForwardings", "yes"),
    ("Tunnel", "no"),
    ("PermitLocalCommand", "no"),
    ("RemoteCommand", "none"),
    ("EscapeChar", "none"),
    ("LogLevel", "ERROR"),
)
CONNECT_LIMIT_S = 15
_MASTER = (
    ("ControlPersist", "no"),
    ("ConnectTimeout", str(CONNECT_LIMIT_S)),
    ("ServerAliveInterval", "5"),  # a dead connection is noticed after 15 s
    ("ServerAliveCountMax", "3"),
)
_CHANNEL = (
    ("ControlMaster", "no"),
    ("ProxyCommand", "false"),  # without the shared connection it fails: it never opens one of its own
)


class SshDestination(msgspec.Struct, frozen=True):
    """A machine and a folder on it. `user`, `port` and `config` (a file instead of the person's own) may be
    empty: then ssh's configuration decides."""

    name: str
    host: str
    folder: str
    user: str = ""
    port: int = 0
    config: str = ""

    @property
    def shown(self) -> str:
        """Return the destination for people."""
        return f"{self.user + '@' if self.user else ''}{self.host}:{self.folder}"

    @property
    def no_files(self) -> str:
        """Return the likely reason when sftp ends at once."""
        return "it offers no sftp, or ended it"

    @property
    def ended(self) -> str:
        """Return the reason when ssh ends without a word."""
        return "the other side ended it"

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the programs that end commands over there."""
        return SUPERVISOR_NEEDS

    def check(self) -> None:
        """Raise `DestinationError` for anything that ssh or a shell could take for something else."""
        check_name(self.name)
        if not _HOST().fullmatch(self.host):
            raise self._error("host", "a host name or an alias of your ssh configuration", self.host)
        if self.user and not _USER().fullmatch(self.user):
            raise self._error("user", "a user name", self.user)
        if not 0 <= self.port < 65536:
            raise self._error("port", "a port number", str(self.port))
        if not self.folder or len(self.folder) > MAX_FOLDER_CHARS or not self.folder.isprintable():
            raise self._error("folder", "a folder over there", self.folder)
        if self.config and not os.path.isabs(self.config):
            raise self._error("config", "an absolute path of an ssh configuration file", self.config)

    def _error(self, field: str, expected: str, found: str) -> DestinationError:
        return DestinationError(f"[targets.{self.name}] {field}: expected {expected}, found {found!r}")

    def locate_program(self, find: FindProgram) -> str:
        """Return the ssh client. Raises `TargetError` where there is none."""
        program = find("ssh")
        if program is None:
            raise TargetError("expected the program ssh in the system's folders, found none; install OpenSSH")
        return program

    def master_argv(self, program: str, private: str) -> tuple[str, ...]:
        """Return the command that opens the shared connection; it runs `sh` over there, fed through stdin."""
        return (program, "-M", "-S", _socket(private), *self._arguments(_MASTER), "exec /bin/sh -s")

    def channel_argv(self, program: str, private: str) -> tuple[str, ...]:
        """Return the command that runs `sh` over the shared connection."""
        return (program, "-S", _socket(private), *self._arguments(_CHANNEL), "exec /bin/sh -s")

    def terminal_argv(self, program: str, private: str, tag: str, lead: str) -> tuple[str, ...]:
        """Return the command that runs `sh` on a terminal over there, over the shared connection."""
        words = self._arguments(_CHANNEL, terminal="-tt")
        return (program, "-S", _socket(private), *words, f"exec env BUDDY_JOB={tag} /bin/sh -c '{lead}'")

    def files_argv(self, program: str, private: str) -> tuple[str, ...]:
        """Return the command that speaks sftp over the shared connection."""
        return (program, "-s", "-S", _socket(private), *self._arguments(_CHANNEL), "sftp")

    def file_client(
        self, to: IO[bytes], back: BufferedReader, lost: Callable[[str], TargetError]
    ) -> SftpClient:
        """Return a client for the pipes of that command."""
        return SftpClient(to, back, lost)

    def explain(self, text: str) -> str:
        """Return the reason ssh gave, with what to do about it."""
        return explain_ssh(text, self.host)

    def _arguments(self, more: tuple[tuple[str, str], ...], *, terminal: str = "-T") -> tuple[str, ...]:
        options = tuple(word for name, value in (*_OPTIONS, *more) for word in ("-o", f"{name}={value}"))
        config = ("-F", self.config) if self.config else ()
        user = ("-l", self.user) if self.user else ()
        port = ("-p", str(self.port)) if self.port else ()
        return (terminal, *config, *options, *user, *port, "--", self.host)


def check_name(name: str) -> None:
    """Raise `DestinationError` unless it can be the name of a target of any kind."""
    if not _NAME().fullmatch(name):
        raise DestinationError(
            f"[targets.{name!r}]: expected a name of letters, digits, '.', '_' and '-' that begins "
            "with a letter or digit and is not local"
        )


def _socket(private: str) -> str:
    return os.path.join(private, "s")


def explain_ssh(text: str, host: str) -> str:
    """Return the reason ssh gave, with what to do about it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = visible(lines[-1]) if lines else ""
    if "IDENTIFICATION HAS CHANGED" in text:
        return (
            f"the host key of {host} is not the one that is known: somebody may be listening. Nothing was "
            "sent. Find out why it changed before you remove the old key (ssh-keygen -R)"
        )
    if "Host key verification failed" in text:
        return (
            f"the host key of {host} is not known, and buddy accepts none by itself: run `ssh {host}` once "
            "and compare it"
        )
    if "Permission denied" in last:
        return f"{last}; buddy never asks for a password: load your key into the agent (ssh-add)"
    return last
