"""The MCP servers that subagent files define: they run only while their subagent works."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from buddy.extend.definitions import ExtensionFile
from buddy.extend.mcp.arrivals import Arrivals
from buddy.extend.mcp.definitions import Scope, ServerDefinition, read_servers
from buddy.extend.mcp.names import agent_server_name
from buddy.extend.mcp.server import McpServer
from buddy.extend.mcp.sources import with_folder
from buddy.safety.sanitise import visible


class FoundAgentServers(msgspec.Struct, frozen=True):
    """The servers that subagent files define, and by the name of their subagent a sentence for each that
    cannot be used."""

    servers: tuple[ServerDefinition, ...]
    problems: dict[str, tuple[str, ...]] = {}


def find_agent_servers(files: Sequence[ExtensionFile]) -> FoundAgentServers:
    """Return the servers that active subagent files define. A name belongs to the person's file of that name
    even where a project's file comes first: rules the person made for a server must not hold for another."""
    mine = [one for one in files if one.scope == "user" and one.state in ("active", "shadowed")]
    others = [one for one in files if one.scope != "user" and one.state == "active"]
    taken: dict[str, ServerDefinition] = {}
    in_force: list[ServerDefinition] = []
    problems: dict[str, tuple[str, ...]] = {}
    for file in (*mine, *others):
        servers, wrong = _read(file)
        first = [one for one in servers if taken.setdefault(one.name, one) is one]
        if file.state != "active":
            continue
        in_force += first
        problems[file.name] = (
            *wrong,
            *(
                f"MCP server {visible(one.name)} of {visible(one.source)} is not used: "
                "a file of yours has that name"
                for one in servers
                if one not in first
            ),
        )
    return FoundAgentServers(tuple(in_force), problems)


def _read(file: ExtensionFile) -> tuple[tuple[ServerDefinition, ...], tuple[str, ...]]:
    scopes: Mapping[str, Scope] = {
        "project": "project",
        "plug-in": "plugin",
        "user": "user" if file.path else "arguments",
    }
    scope = scopes[file.scope]
    folder = file.inside if scope == "plugin" else ""
    named: Any = {agent_server_name(file.name, name): entry for name, entry in file.own_servers.items()}
    servers, problems = read_servers(
        with_folder(named, folder) if folder else named, scope, file.path or file.label
    )
    return tuple(msgspec.structs.replace(one, folder=folder, agent=file.name) for one in servers), problems


class AgentServers:
    """The use that running subagents make of the servers their files define: one begins with the first task
    that needs it, and ends with the last. `ended` is called after the end of one. `problems` are sentences
    about definitions that cannot be used, by subagent."""

    def __init__(
        self, servers: Mapping[str, McpServer], arrivals: Arrivals, ended: Callable[[McpServer], None]
    ) -> None:
        self._servers = servers
        self._arrivals = arrivals
        self._ended = ended
        self._users: Counter[McpServer] = Counter()
        self._changing = asyncio.Lock()
        """Held while servers begin or end: a task that comes during an end waits, and starts it anew."""
        self.problems: Mapping[str, tuple[str, ...]] = {}

    @asynccontextmanager
    async def running_for(self, agent: str) -> AsyncGenerator[tuple[str, ...]]:
        """Run the servers of a subagent file. They are waited for, for a limited time; gives a sentence for
        each that is missing."""
        mine = tuple(one for one in self._servers.values() if one.definition.agent == agent)
        async with self._changing:
            self._users.update(mine)
            for server in mine:
                if server.state == "waiting":
                    server.begin()
        try:
            await self._arrivals.wait_until_settled(mine)
            missing = (f"{one.advice}; its tools are missing" for one in mine if one.state != "ready")
            yield (*map(visible, self.problems.get(agent, ())), *missing)
        finally:
            async with self._changing:
                self._users.subtract(mine)
                await self._end_unused(mine)

    def is_used(self, server: McpServer) -> bool:
        """Tell whether a subagent that needs the server works now."""
        return self._users[server] > 0

    async def _end_unused(self, servers: Iterable[McpServer]) -> None:
        for server in servers:
            if self.is_used(server):
                continue
            del self._users[server]
            if server.state not in ("untrusted", "disabled"):
                await server.stop("waiting")
                self._ended(server)
