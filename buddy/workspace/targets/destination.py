"""The arguments of the ssh client: nothing from the settings can become an option, and buddy's own
restrictions win over every configuration file. Pure."""

from __future__ import annotations

import os

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError

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


class DestinationError(ToolError):
    """A target that can't be used; the message names the setting."""


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

    def check(self) -> None:
        """Raise `DestinationError` for anything that ssh or a shell could take for something else."""
        if not _NAME().fullmatch(self.name):
            raise DestinationError(
                f"[targets.{self.name!r}]: expected a name of letters, digits, '.', '_' and '-' that begins "
                "with a letter or digit and is not local"
            )
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

    def master_argv(self, program: str, socket: str) -> tuple[str, ...]:
        """Return the command that opens the shared connection; it runs `sh` over there, fed through stdin."""
        return (program, "-M", "-S", socket, *self._arguments(_MASTER), "exec /bin/sh -s")

    def channel_argv(self, program: str, socket: str) -> tuple[str, ...]:
        """Return the command that runs `sh` over the shared connection."""
        return (program, "-S", socket, *self._arguments(_CHANNEL), "exec /bin/sh -s")

    def sftp_argv(self, program: str, socket: str) -> tuple[str, ...]:
        """Return the command that speaks sftp over the shared connection."""
        return (program, "-s", "-S", socket, *self._arguments(_CHANNEL), "sftp")

    def _arguments(self, more: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
        options = tuple(word for name, value in (*_OPTIONS, *more) for word in ("-o", f"{name}={value}"))
        config = ("-F", self.config) if self.config else ()
        user = ("-l", self.user) if self.user else ()
        port = ("-p", str(self.port)) if self.port else ()
        return ("-T", *config, *options, *user, *port, "--", self.host)
