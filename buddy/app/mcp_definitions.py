"""The MCP servers defined for a folder, looked at without a session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec

from buddy.app.launch import LaunchContext
from buddy.app.mcp import sources_of
from buddy.app.options import Options
from buddy.app.providers import Models
from buddy.app.session import Session, open_session
from buddy.app.session_store import open_store
from buddy.config.loading import LoadedSettings
from buddy.config.settings import Settings
from buddy.extend.mcp.approvals import ServerApprovals, Standing, standing
from buddy.extend.mcp.definitions import ServerDefinition, expand_variables
from buddy.extend.mcp.digests import definition_digest
from buddy.extend.mcp.sources import find_servers
from buddy.workspace.temporary import TemporaryFolder


class KnownServer(msgspec.Struct, frozen=True):
    """A server that is defined, and the state it begins in: only a waiting one may be started or asked."""

    definition: ServerDefinition
    standing: Standing


class KnownServers(msgspec.Struct, frozen=True):
    """The servers in force by name, those that others of the same name hide, and problems."""

    servers: dict[str, KnownServer]
    hidden: tuple[ServerDefinition, ...]
    problems: tuple[str, ...]


def known_servers(launch: LaunchContext, settings: Settings, options: Options) -> KnownServers:
    """Find the servers of a folder. Blocks."""
    found = find_servers(sources_of(launch, settings, options))
    approvals = ServerApprovals(launch.where.state, launch.boundary.root)
    servers: dict[str, KnownServer] = {}
    for definition in found.servers:
        digest = definition_digest(definition, launch.boundary.root)
        approval = approvals.find(definition)
        state = standing(definition, digest, approval, found.accepted, trust_all=options.trust)
        servers[definition.name] = KnownServer(definition, state)
    return KnownServers(servers, found.hidden, found.problems)


def expanded(definition: ServerDefinition, launch: LaunchContext, settings: Settings) -> ServerDefinition:
    """Return a definition with its variables replaced. Raises `DefinitionError`."""
    return expand_variables(definition, launch.environment, Models(settings, launch).key_names)


@asynccontextmanager
async def passing_session(
    launch: LaunchContext, loaded: LoadedSettings, options: Options, tell: Callable[[str], None]
) -> AsyncGenerator[Session]:
    """Open a session that leaves nothing behind and has no model."""
    with TemporaryFolder("session") as folder:
        store = open_store(launch, loaded.settings, tell, root=folder)
        models = Models(loaded.settings, launch)
        loaded = msgspec.structs.replace(loaded, first_model="")
        # Attended: unlike an unattended one, such a session opens before any model is chosen.
        opening = open_session(launch, loaded, options, models=models, store=store, attended=True)
        async with opening as session:
            yield session
