"""Waiting for servers that are starting: a little before the first turn of a run, longer only for one that
somebody asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from buddy.extend.mcp.definitions import ServerDefinition
from buddy.extend.mcp.names import server_part
from buddy.extend.mcp.server import McpServer

STARTING_S = 2.0
"""The longest wait of a run's first turn for a server that is starting. Later, a search finds its tools."""
NAMED_S = 10.0
"""The same for a server that this run names: with --mcp-config, or in its prompt."""
REQUIRED_S = 60.0
"""The same for one whose definition says that it is required."""
ARRIVAL_S = 30.0
"""The longest wait of a model that asks for the tools of a server that is starting."""


class Arrivals:
    """The servers of a session that are starting. `said` is called when the person hears of all of them at
    once."""

    def __init__(self, servers: Mapping[str, McpServer], said: Callable[[], None]) -> None:
        self._servers = servers
        self._said = said
        self._moved = asyncio.Event()

    def note_change(self) -> None:
        """Note that a server is in another state."""
        self._moved.set()
        self._moved = asyncio.Event()

    def names(self) -> tuple[str, ...]:
        """Return the names of servers that are about to connect for the first time."""
        return tuple(
            name
            for name, one in self._servers.items()
            if one.state in ("waiting", "connecting") and not one.definition.agent
        )

    async def before_turn(self, prompt: str = "") -> tuple[str, ...]:
        """Wait before the first turn of a run with this prompt, for each server as long as it is worth.
        Returns a sentence for each whose tools are missing."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        limits = {name: begun + _patience(one.definition, prompt) for name, one in self._servers.items()}
        await self._until_done(lambda: [limits[name] for name in self.names() if limits[name] > loop.time()])
        self._said()
        return tuple(
            f"{server.advice}; its tools "
            f"{'are found once it is ready' if server.state == 'connecting' else 'are missing'}"
            for server in self._servers.values()
            if server.state in ("connecting", "lost", "failed", "login") and not server.definition.agent
        )

    async def wait_for(self, names: Collection[str]) -> None:
        """Wait until these servers are no longer starting, or for a limited time."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + ARRIVAL_S
        await self._until_done(
            lambda: [limit] if limit > loop.time() and not {*names}.isdisjoint(self.names()) else []
        )

    async def wait_until_settled(self, servers: Collection[McpServer]) -> None:
        """Wait until these servers are ready or have failed, or for a limited time."""
        limit = asyncio.get_running_loop().time() + ARRIVAL_S
        await self._until_done(
            lambda: (
                [limit]
                if limit > asyncio.get_running_loop().time()
                and any(one.state in ("waiting", "connecting") for one in servers)
                else []
            )
        )

    def missing(self) -> tuple[str, ...]:
        """Return a sentence for each required server that is not there. One that waits for an approval is
        not required: a project must not keep a run from beginning."""
        return tuple(
            server.advice
            for server in self._servers.values()
            if server.definition.required
            and not server.definition.agent
            and server.state not in ("ready", "untrusted", "disabled")
        )

    async def _until_done(self, limits: Callable[[], list[float]]) -> None:
        """Wait until no limit is left, looking again after each change and at each limit."""
        while left := limits():
            moved = self._moved
            try:
                async with asyncio.timeout_at(min(left)):
                    await moved.wait()
            except TimeoutError:
                pass  # the next look finds fewer limits


def _patience(definition: ServerDefinition, prompt: str) -> float:
    """Return how long the first turn of a run with this prompt waits for a server, in seconds."""
    if definition.required:
        return REQUIRED_S
    names = (f"@{definition.name}:", f"/mcp__{server_part(definition.name)}__")
    is_named = definition.scope in ("arguments", "program") or any(name in prompt for name in names)
    return NAMED_S if is_named else STARTING_S
