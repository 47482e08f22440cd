"""The targets of a session. Imported when one is used."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Protocol

from buddy.agent.tool import ToolError
from buddy.app.remote_workspace import RemoteTarget, TargetParts, unusable_workspace
from buddy.app.target_states import TargetStanding
from buddy.config.settings import TargetSettings
from buddy.safety.paths import is_beneath
from buddy.safety.sanitise import visible
from buddy.tasks.dependencies import Workspace
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.launch import trusted_program
from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.container import ContainerDestination
from buddy.workspace.targets.destination import SshDestination
from buddy.workspace.targets.transport import ConnectionState, Destination, DestinationError

GONE = "the target {name} is not in your buddy.toml any more; /target local works on this machine"
_SSH_VARIABLES = ("SSH_AUTH_SOCK",)
"""The variables ssh itself needs of the person's environment. Nothing of it is sent to the other side."""
_CONTAINER_VARIABLES = (
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    *("CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"),
    "SSH_AUTH_SOCK",  # a daemon on another machine is reached through ssh
)


class SessionTarget(Protocol):
    """One target of a session, of any kind."""

    shown: str

    @property
    def state(self) -> ConnectionState:
        """Return the state of the connection, without asking the other side."""
        ...

    def explain_loss(self) -> str:
        """Return why the connection was lost or could not be opened, "" when it was not."""
        ...

    def connect(self) -> None:
        """Connect unless it is connected. Blocks; raises `ToolError`."""
        ...

    def try_out(self) -> None:
        """Check that it can be reached, and leave nothing behind over there. Blocks; raises `ToolError`."""
        ...

    def close(self) -> None:
        """End the connection and everything that goes through it. Blocks."""
        ...

    def workspace(self, parts: TargetParts) -> Workspace:
        """Return a workspace there, not connected yet."""
        ...


class TargetClients:
    """The programs of this machine that reach targets, and their environment. `allowed` is the environment
    of every child; `environment` is the person's; nothing in `root`, the workspace, is run."""

    def __init__(self, allowed: ChildEnvironment, environment: Mapping[str, str], root: str) -> None:
        self._allowed, self._environment, self._root = allowed, environment, root

    def find(self, program: str) -> str | None:
        """Return a program by its name or path, None where there is none outside of the workspace."""
        if os.path.isabs(program) and is_beneath(os.path.realpath(program), self._root):
            return None
        return trusted_program(program, self._environment.get("PATH", ""), self._root)

    def variables(self, wanted: tuple[str, ...]) -> Callable[[], dict[str, str]]:
        """Return the environment of a client: that of every child, without secrets, and the variables it
        needs itself. So `SendEnv` of an ssh configuration finds nothing else to send."""
        extra = {name: self._environment[name] for name in wanted if self._environment.get(name)}
        return lambda: self._allowed.for_child(task_id=0, tag="", extra=extra)

    def pane_target(self, name: str, settings: TargetSettings) -> SessionTarget:
        """Return a tmux target. Raises `DestinationError`."""
        from buddy.app.pane_workspace import PaneTarget  # only for a target of this kind
        from buddy.workspace.targets.pane_address import PaneAddress
        from buddy.workspace.targets.pane_connection import PaneConnection, server_environment
        from buddy.workspace.targets.tmux import Tmux

        socket = os.path.expanduser(settings.socket)
        address = PaneAddress(name, socket, settings.session, settings.pane, settings.width, settings.height)
        address.check(self._root)
        folder = self._environment.get("TMUX_TMPDIR", "")
        if is_beneath(os.path.realpath(folder), self._root):
            folder = ""
        variables = self.variables(())
        tmux = Tmux(
            address.server_words,
            lambda: self.find("tmux"),
            lambda: server_environment(variables(), folder),
        )
        return PaneTarget(PaneConnection(address, tmux, self._root), self._root)


def make_target(name: str, settings: TargetSettings, clients: TargetClients) -> SessionTarget:
    """Return a target of its kind, not connected. Raises `DestinationError`."""
    match settings.kind:
        case "ssh":
            config = os.path.expanduser(settings.config) if settings.config else ""
            destination: Destination = SshDestination(
                name, settings.host, settings.folder, settings.user, settings.port, config
            )
            variables = clients.variables(_SSH_VARIABLES)
        case "container":
            program = os.path.expanduser(settings.program)
            destination = ContainerDestination(
                name, settings.container, settings.folder, settings.user, program
            )
            variables = clients.variables(_CONTAINER_VARIABLES)
        case "tmux":
            return clients.pane_target(name, settings)
    destination.check()
    return RemoteTarget(TargetConnection(destination, variables, clients.find), settings.local_tools)


class Targets:
    """The targets of a session; `close` ends their connections."""

    def __init__(
        self, settings: Mapping[str, TargetSettings], clients: TargetClients, parts: TargetParts
    ) -> None:
        self._settings, self._clients, self._parts = settings, clients, parts
        self._targets: dict[str, SessionTarget] = {}

    def workspace(self, name: str) -> Workspace:
        """Return the workspace on a target, not connected yet. One that is not in the settings, or can't be
        used, has a workspace in which every tool says so."""
        try:
            return self._target(name).workspace(self._parts)
        except DestinationError as error:
            return unusable_workspace(name, str(error), self._parts)

    def standing(self, name: str) -> TargetStanding:
        """Return the state of a target. Raises `DestinationError`."""
        target = self._target(name)
        return TargetStanding(name, target.shown, target.state, target.explain_loss())

    def state(self, name: str) -> ConnectionState:
        """Return the state of a target's connection, without asking the other side."""
        target = self._targets.get(name)
        return target.state if target is not None else "closed"

    async def connect(self, name: str) -> None:
        """Connect now, again after a loss. Raises `ToolError` with the reason, `DestinationError`."""
        await asyncio.to_thread(self._target(name).connect)

    async def close(self) -> None:
        """End every connection. What still runs over there ends with it."""
        for target in self._targets.values():
            await asyncio.to_thread(target.close)

    def _target(self, name: str) -> SessionTarget:
        settings = self._settings.get(name)
        if settings is None:
            raise DestinationError(GONE.format(name=visible(name)))
        if name not in self._targets:
            self._targets[name] = make_target(name, settings, self._clients)
        return self._targets[name]


def try_target(name: str, settings: TargetSettings, clients: TargetClients) -> tuple[str, str]:
    """Connect to a target; return it for people, and why it can't be reached, "" when it can. Blocks."""
    try:
        target = make_target(name, settings, clients)
        try:
            target.try_out()
        finally:
            target.close()
    except ToolError as error:
        return "", str(error)
    return target.shown, ""
