"""From a definition to a running server: program, folder, environment and sandbox of a stdio server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from buddy.agent.tool import ToolError
from buddy.extend.mcp.channel import Channel, ChannelClosed
from buddy.extend.mcp.definitions import DefinitionError, ServerDefinition
from buddy.extend.mcp.names import server_part
from buddy.extend.mcp.stdio import ServerProcess, StderrTail, StdioChannel
from buddy.safety.paths import Boundary, is_beneath, make_private_folders
from buddy.workspace.processes.child import Child
from buddy.workspace.processes.launch import trusted_program
from buddy.workspace.processes.pool import ChildProcesses
from buddy.workspace.sandbox.profile import Confinement
from buddy.workspace.sandbox.status import SandboxStatus

SERVER_VARIABLES = {
    # Node's own fetch takes the sandbox's proxy only when it is told to.
    "NODE_USE_ENV_PROXY": "1",
}
"""Variables that every server gets besides the environment of commands and its own `env`."""
CACHE_FOLDERS = (".npm", ".cache", ".local/share/uv", ".local/share/pipx")
"""Folders of the home folder that `npx`, `uvx` and `pipx run` keep programs in."""


class ServerSandbox(Protocol):
    """The sandbox as servers meet it."""

    async def survey(self, boundary: Boundary) -> SandboxStatus:
        """Get ready for a command in a workspace."""
        ...


class LaunchParts(msgspec.Struct, frozen=True):
    """The parts that starting a server needs. `trusted`: the person trusts the folder; `own_folder`: a
    folder of buddy's own with those that servers start in elsewhere; `sandbox_level`: `[sandbox] level`;
    `tie` ends a process with buddy."""

    children: ChildProcesses
    sandbox: ServerSandbox
    sandbox_level: str
    boundary: Boundary
    trusted: bool
    own_folder: str
    environment: Mapping[str, str]
    tie: Callable[[Child], None]


@asynccontextmanager
async def running_server(
    definition: ServerDefinition, parts: LaunchParts, stderr: StderrTail
) -> AsyncGenerator[Channel]:
    """Start the server of an expanded definition; it has ended when this is left. Raises `DefinitionError`,
    `ChannelClosed`."""
    cwd = starting_folder(definition, parts)
    argv = (find_program(definition, parts, cwd), *definition.args)
    confinement = await _confinement(definition, parts, cwd)
    process = ServerProcess(argv, cwd, {**SERVER_VARIABLES, **definition.env}, confinement)
    channel = StdioChannel(parts.children, process, stderr, parts.tie)
    try:
        yield channel
    finally:
        await channel.aclose()


def own_folder(definition: ServerDefinition, parts: LaunchParts) -> str:
    """Return the folder of a server that starts outside the workspace: no other one leaves files there."""
    return os.path.join(parts.own_folder, server_part(definition.name))


def starting_folder(definition: ServerDefinition, parts: LaunchParts) -> str:
    """Return the folder a server starts in: the workspace where the person trusts it or approved the server.
    Elsewhere programs like npx and python would run what the workspace holds. Raises `DefinitionError`."""
    root = parts.boundary.root
    near = root if definition.scope == "project" or parts.trusted else own_folder(definition, parts)
    if not definition.cwd:
        if near != root:
            with contextlib.suppress(OSError):
                make_private_folders(near)
        return near
    folder = os.path.realpath(os.path.join(near, os.path.expanduser(definition.cwd)))
    if not os.path.isdir(folder):
        raise DefinitionError(f"cwd: expected a folder, found none at {folder}")
    if is_beneath(folder, root) and near != root:
        raise DefinitionError(f"its cwd {folder} lies in a folder you do not trust (/trust)")
    return folder


def find_program(definition: ServerDefinition, parts: LaunchParts, cwd: str) -> str:
    """Return the program's path. One of the workspace runs only for a server of the project, or in a folder
    the
    person trusts. Raises `DefinitionError`."""
    command, root = os.path.expanduser(definition.command), parts.boundary.root
    may_be_inside = definition.scope == "project" or parts.trusted
    if "/" in command:
        path = os.path.normpath(os.path.join(cwd, command))
        if is_beneath(os.path.realpath(path), root) and not may_be_inside:
            raise DefinitionError(f"its program {path} lies in a folder you do not trust (/trust)")
    else:
        search = definition.env.get("PATH") or parts.environment.get("PATH", "")
        path = trusted_program(command, search, "" if may_be_inside else root) or ""
    if not path or not os.access(path, os.X_OK) or os.path.isdir(path):
        raise DefinitionError(
            f"expected the program {definition.command}, found none; install it or correct command"
        )
    return path


async def _confinement(definition: ServerDefinition, parts: LaunchParts, cwd: str) -> Confinement | None:
    """Return the server's sandbox: the workspace and its own caches can be written, any host can be reached
    through the proxy. Raises `DefinitionError` where a sandbox is demanded and missing."""
    if not definition.sandbox or parts.sandbox_level == "off":
        return None
    try:
        status = await parts.sandbox.survey(parts.boundary)
    except (OSError, ToolError) as error:
        raise ChannelClosed(f"the sandbox could not be made: {error}") from error
    if not status.is_working:
        if parts.sandbox_level == "require":
            raise DefinitionError(
                f'[sandbox] level = "require", and there is no sandbox here: {status.reason}'
            )
        return None
    home = parts.boundary.home
    caches = [os.path.join(home, folder) for folder in CACHE_FOLDERS]
    written = [os.path.join(home, path[2:]) if path.startswith("~/") else path for path in definition.write]
    # Buddy's own folders are hidden in the sandbox; the one it starts in has to be there.
    own = [cwd] if cwd == own_folder(definition, parts) else []
    places = [path for path in (*caches, *written, *own) if os.path.isdir(path)]
    return Confinement(
        "workspace",
        parts.boundary,
        ("*",) if definition.network else (),
        tuple(map(os.path.realpath, places)),
    )
