"""The MCP servers of a session: found, approved, connected, and their tools in the session's registry.

Nothing waits for a server. Its tools come and go between turns: a running turn keeps the list it began with.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import ModuleType
from typing import Any

import msgspec

from buddy.agent.messages import UserPart
from buddy.agent.tool import Tool, ToolRegistry, ToolResult
from buddy.extend.definitions import ExtensionFile
from buddy.extend.mcp.acceptance import AcceptedWords
from buddy.extend.mcp.agent_servers import AgentServers, find_agent_servers
from buddy.extend.mcp.approvals import ServerApprovals, Standing, standing
from buddy.extend.mcp.arrivals import Arrivals
from buddy.extend.mcp.channel import Channel, ChannelClosed, ChannelFactory
from buddy.extend.mcp.definitions import (
    OF_OTHERS,
    DefinitionError,
    ServerDefinition,
    expand_variables,
)
from buddy.extend.mcp.digests import definition_digest
from buddy.extend.mcp.instructions import clean_instructions, instructions_digest, prompt_section
from buddy.extend.mcp.launching import LaunchParts, running_server
from buddy.extend.mcp.logins import Logins
from buddy.extend.mcp.names import server_part, tool_names
from buddy.extend.mcp.prompts import ServerPrompt, content_of, prompts_of, values_of
from buddy.extend.mcp.records import LoginFailedError, LoginPage, ToolInfo
from buddy.extend.mcp.resources import attach_resources, mentioned_resources, write_resource
from buddy.extend.mcp.server import McpServer, ServerParts
from buddy.extend.mcp.session_logins import SessionLogins
from buddy.extend.mcp.sources import FoundServers, Sources, find_servers
from buddy.extend.mcp.stdio import StderrTail
from buddy.extend.mcp.tools import UnusableTool, make_tool
from buddy.extend.mentions import ExpandedPrompt
from buddy.safety.sanitise import one_line, visible

ANNOUNCE_AFTER_S = 0.3
"""Servers that connect at about the same time are announced in one line."""


class McpParts(msgspec.Struct, frozen=True):
    """Everything the servers of a session need. `forbidden`: variables with keys of the person's providers;
    `trust_all`: the folder's servers are trusted for this run; `off`: tool names the person switched off;
    `channels`: servers that the embedding program provides, by name; `tell` says a sentence to the person;
    `logins` are the saved logins to servers with an address."""

    sources: Sources
    registry: ToolRegistry
    off: frozenset[str]
    launch: LaunchParts
    server: ServerParts
    approvals: ServerApprovals
    environment: Mapping[str, str]
    forbidden: frozenset[str]
    trust_all: bool
    tell: Callable[[str], None]
    logins: Logins
    channels: Mapping[str, ChannelFactory] = {}


class ServerInstructions(msgspec.Struct, frozen=True):
    """The cleaned instructions of a server; withheld where they changed since they were accepted."""

    words: str
    is_withheld: bool


class Withheld(msgspec.Struct, frozen=True):
    """A tool that is not offered, and why."""

    tool: str
    reason: str


class TrustOffer(msgspec.Struct, frozen=True):
    """A server as it would be approved. `digest` covers all of it, `definition_digest` its definition and
    programs; `changed` are the tools that are withheld now."""

    digest: str
    definition_digest: str
    definition: ServerDefinition
    changed: tuple[ToolInfo, ...]
    instructions: str

    @property
    def code(self) -> str:
        """Return the beginning of the digest, for the person to repeat."""
        return self.digest[:8]


class OfferChangedError(Exception):
    """An approval that does not answer what was shown last."""


class McpServers:
    """The servers by name. Used as `async with`; `begin` connects them."""

    def __init__(self, parts: McpParts) -> None:
        self._parts = parts
        self.servers: dict[str, McpServer] = {}
        self.hidden: tuple[ServerDefinition, ...] = ()
        self._problems: tuple[str, ...] = ()
        self.withheld: dict[str, tuple[Withheld, ...]] = {}
        self._digests: dict[str, str] = {}
        self._offers: dict[str, TrustOffer] = {}
        self._tools: dict[str, dict[str, Tool]] = {}
        self._infos: dict[str, tuple[ToolInfo, ...]] = {}
        self._accepted: dict[str, AcceptedWords] = {}
        self._instructions: dict[str, str] = {}
        self._news: dict[str, str] = {}
        self._unsaid: set[str] = set()
        self._announcing: asyncio.TimerHandle | None = None
        self._listeners: list[Callable[[], None]] = []
        self.arrivals = Arrivals(self.servers, self._unsaid.clear)
        self._of_agents = AgentServers(self.servers, self.arrivals, self._note_ended)
        self._logins = SessionLogins(parts.logins, parts.server.library, parts.environment)

    async def __aenter__(self) -> McpServers:
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._announcing is not None:
            self._announcing.cancel()
        await asyncio.gather(*(server.stop("waiting") for server in self.servers.values()))

    async def find(self) -> None:
        """Read the definitions, and what was answered about them. Connects nothing."""
        found = await asyncio.to_thread(find_servers, self._parts.sources)
        self.hidden, self._problems = found.hidden, found.problems
        await self._add_all(found)
        for name in self._parts.channels:
            self._add(
                ServerDefinition(name=name, scope="program", source="the program", kind="channel"),
                "waiting",
            )

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each definition that cannot be used."""
        return (*self._problems, *(one for told in self._of_agents.problems.values() for one in told))

    async def take_agents(self, files: Sequence[ExtensionFile]) -> None:
        """Take up the servers that these subagent files define, instead of those of before. One that stays as
        it was goes on."""
        found = find_agent_servers(files)
        taken = {name for name, server in self.servers.items() if not server.definition.agent}
        wanted = [one for one in found.servers if one.name not in taken]
        for server in [one for one in self.servers.values() if one.definition.agent]:
            if server.definition not in wanted:
                await server.stop("waiting")
                self._withdraw(server.name)
                del self.servers[server.name]
        new = [one for one in wanted if one.name not in self.servers]
        problems, self._of_agents.problems = self.problems, found.problems
        await self._add_all(FoundServers(tuple(new)))
        notes = [note for note in self.problems if note not in problems]
        notes += self._approvals_to_give([self.servers[one.name] for one in new])
        for note in notes:
            self._parts.tell(note)

    def running_for(self, agent: str) -> AbstractAsyncContextManager[tuple[str, ...]]:
        """Run the servers of a subagent's file while its turn runs; gives a sentence for each that is
        missing."""
        return self._of_agents.running_for(agent)

    def _note_ended(self, server: McpServer) -> None:
        if self.servers.get(server.name) is server:
            self._withdraw(server.name)

    async def _add_all(self, found: FoundServers) -> None:
        states = await asyncio.to_thread(self._judge, found)
        for definition in found.servers:
            digest, state, accepted = states[definition.name]
            self._digests[definition.name] = digest
            self._accepted[definition.name] = accepted
            self._add(definition, state)

    def _judge(self, found: FoundServers) -> dict[str, tuple[str, Standing, AcceptedWords]]:
        parts = self._parts
        states: dict[str, tuple[str, Standing, AcceptedWords]] = {}
        for definition in found.servers:
            digest = definition_digest(definition, parts.sources.root)
            approval = parts.approvals.find(definition)
            accepted = AcceptedWords()
            if approval is not None and approval.definition == digest:
                accepted = AcceptedWords(approval.tools, approval.instructions)
            state = standing(definition, digest, approval, found.accepted, trust_all=parts.trust_all)
            states[definition.name] = (digest, state, accepted)
        return states

    def _add(self, definition: ServerDefinition, state: Standing) -> None:
        stderr = StderrTail()
        self.servers[definition.name] = McpServer(
            definition,
            self._parts.server,
            partial(self._transport, definition, stderr),
            self._changed,
            state=state,
            stderr=stderr,
        )

    def begin(self) -> None:
        """Connect every server that may run, in the background."""
        for server in self.servers.values():
            if server.state == "waiting" and not server.definition.agent:
                server.begin()

    def notes(self) -> tuple[str, ...]:
        """Return what the person should know before anything is connected."""
        of_session = [server for server in self.servers.values() if not server.definition.agent]
        return (*self._problems, *self._approvals_to_give(of_session))

    def _approvals_to_give(self, servers: Sequence[McpServer]) -> tuple[str, ...]:
        waiting = [server for server in servers if server.state == "untrusted"]
        notes: list[str] = []
        for server in waiting[:8]:
            changed = (
                "changed since you approved it" if self._was_approved(server) else "waits for your approval"
            )
            notes.append(
                f"MCP server {visible(server.name)} of {_place(server.definition)} "
                f"({server.definition.summary(160)}) "
                f"{changed}: /mcp trust {visible(server.name)} shows it and starts it"
            )
        if len(waiting) > 8:
            notes.append(f"{len(waiting) - 8} more MCP servers wait for your approval: /mcp")
        return tuple(notes)

    def _was_approved(self, server: McpServer) -> bool:
        approval = self._parts.approvals.find(server.definition)
        return approval is not None and approval.trusted

    # -- what the person does ------------------------------------------------------------------------------

    async def offer(self, name: str) -> TrustOffer:
        """Return everything an approval of a server would cover now, to be shown. `trust` takes the answer to
        the last one."""
        definition = self.servers[name].definition
        digest = await asyncio.to_thread(definition_digest, definition, self._parts.sources.root)
        offer = self._offers[name] = self._offer_of(name, digest)
        return offer

    def _offer_of(self, name: str, digest: str) -> TrustOffer:
        server, accepted = self.servers[name], self._accepted.get(name, AcceptedWords())
        tools = server.tools if server.facts is not None else ()
        words = self._words_of(server) if server.facts is not None else ""
        changed = tuple(info for info in tools if accepted.refuse_tool(info, tools))
        parts = [digest, instructions_digest(words), *sorted(info.digest() for info in tools)]
        whole = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return TrustOffer(whole, digest, server.definition, changed, words)

    async def trust(self, name: str, code: str) -> str:
        """Let a server run, and accept its words, as the last offer showed them; `code` is that offer's.
        Returns "" or the reason why the answer is not remembered. Raises `OfferChangedError` where anything
        is not as it was shown."""
        server, shown = self.servers[name], self._offers.pop(name, None)
        definition = server.definition
        digest = await asyncio.to_thread(definition_digest, definition, self._parts.sources.root)
        # From here to the acceptance nothing is awaited: what is compared is what is accepted.
        if shown is None or shown.code != code or self._offer_of(name, digest).digest != shown.digest:
            raise OfferChangedError(name)
        accepted = self._accepted.setdefault(name, AcceptedWords())
        if server.facts is not None:
            accepted.accept(server.tools, instructions_digest(self._words_of(server)))
        self._digests[name] = digest
        problem = await asyncio.to_thread(
            self._parts.approvals.save,
            definition,
            digest,
            trusted=True,
            tools=dict(accepted.tools),
            instructions=accepted.instructions,
        )
        if server.state == "untrusted":
            server.state = "waiting"
            if not server.definition.agent or self._of_agents.is_used(server):
                server.begin()
        elif server.facts is not None:
            self._offer(server)
        return problem

    async def distrust(self, name: str) -> str:
        """Never start this definition of a server, and end it now. Returns "" or why that is not
        remembered."""
        server = self.servers[name]
        await server.stop("untrusted", "you said no")
        self._withdraw(name)
        return await asyncio.to_thread(
            self._parts.approvals.save,
            server.definition,
            self._digests.get(name, ""),
            trusted=False,
            tools={},
        )

    def login_page(self, name: str) -> LoginPage | None:
        """Return the page a login to a server waits for, None where there is none."""
        return self._logins.page(name)

    async def log_in(self, name: str, show: Callable[[LoginPage], Awaitable[None]]) -> str:
        """Log in to a server, save the login and connect with it. `show` shows the page to the person.
        Returns the place of the tokens. Raises `LoginFailedError`."""
        server = self.servers[name]
        try:
            definition = expand_variables(server.definition, self._parts.environment, self._parts.forbidden)
            await self._check_unchanged(server.definition)
        except DefinitionError as error:
            raise LoginFailedError(str(error)) from error
        place = await self._logins.log_in(definition, show)
        if self._may_connect(server):
            server.reconnect()
        return place

    async def log_out(self, name: str) -> tuple[str, ...]:
        """Forget every login saved under a server's name, and connect without it. Returns the addresses.
        Raises `LoginFailedError`."""
        addresses = await self._logins.log_out(name)
        server = self.servers.get(name)
        if addresses and server is not None and self._may_connect(server):
            server.reconnect()
        return addresses

    def _may_connect(self, server: McpServer) -> bool:
        """Tell whether a server may be connected now: approved, and with its subagent at work."""
        return server.state not in ("untrusted", "disabled") and (
            not server.definition.agent or self._of_agents.is_used(server)
        )

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call this after each change."""
        self._listeners.append(listener)

    # -- the servers' side ---------------------------------------------------------------------------------

    def _changed(self, server: McpServer) -> None:
        """Take up what is new of a server."""
        match server.state:
            case "ready":
                self._offer(server)
            case "login":
                self._withdraw(server.name)
                self._announce(
                    server.name, f"{visible(server.name)} needs a login ({one_line(server.reason, 200)})"
                )
            case "failed":
                self._withdraw(server.name)
                self._announce(server.name, server.advice.removeprefix("MCP server "))
            case "lost":
                self._announce(server.name, server.advice.removeprefix("MCP server "))
            case "disabled" | "untrusted":
                self._withdraw(server.name)
            case "waiting" | "connecting":
                pass
        for listener in self._listeners:
            listener()
        self.arrivals.note_change()

    def _offer(self, server: McpServer) -> None:
        """Put the server's tools into the registry, without those that changed since they were accepted."""
        name, accepted = server.name, self._accepted.setdefault(server.name, AcceptedWords())
        words = self._words_of(server)
        digest, is_first = instructions_digest(words), accepted.instructions is None
        if accepted.admit_new(server.tools, digest) and server.definition.scope != "program":
            self._remember(server)
        withheld: list[Withheld] = []
        tools: dict[str, Tool] = {}
        names = tool_names(server_part(name), (info.name for info in server.tools))
        known = {tool.name: tool for tool in self._tools.get(name, {}).values()}
        before = {info.name: info for info in self._infos.get(name, ())}
        advice = f"/mcp trust {visible(name)} accepts it"
        for info in server.tools:
            if refusal := accepted.refuse_tool(info, server.tools):
                withheld.append(Withheld(info.name, f"{refusal}; {advice}"))
                continue
            public = names[info.name]
            if public in self._parts.off:
                continue
            if before.get(info.name) == info and public in known:  # the same object: nothing is encoded anew
                tools[public] = known[public]
                continue
            try:
                agent = server.definition.agent
                tools[public] = make_tool(info, public, visible(name), server.call, agent)
            except UnusableTool as error:
                withheld.append(Withheld(info.name, str(error)))
        self.withheld[name] = tuple(withheld)
        self._infos[name] = server.tools
        has_changed = accepted.has_changed(digest)
        self._instructions[name] = "" if has_changed else words
        self._replace(name, tools)
        more = ""
        if words and has_changed:
            more = f", its instructions for models changed and are withheld (/mcp {visible(name)})"
        elif words and is_first:
            more = f", and gives models instructions (/mcp {visible(name)})"
        if more or withheld or not server.definition.agent:
            self._announce(name, _offered(server, len(tools), withheld) + more)

    def _words_of(self, server: McpServer) -> str:
        return clean_instructions(server.facts.instructions) if server.facts is not None else ""

    def instructions_of(self, name: str) -> ServerInstructions:
        """Return the instructions of a server as it gives them now, and whether models read them."""
        words = self._words_of(self.servers[name])
        return ServerInstructions(words, is_withheld=words != self._instructions.get(name, words))

    def prompt_text(self, only: Collection[str] | None = None, agent: str = "") -> str:
        """Return what the system prompt of a subagent, "" for any other task, says of servers: the
        instructions of those with tools for models, or with one of the tools `only`. They come and go with
        the tools, which begin the prompt too."""
        return prompt_section(
            {
                name: words
                for name, words in self._instructions.items()
                if words and self._gives_tools(name, only, agent)
            }
        )

    def _gives_tools(self, name: str, only: Collection[str] | None, agent: str) -> bool:
        of_agent = self.servers[name].definition.agent
        if of_agent:
            return of_agent == agent and bool(self._tools.get(name))
        return any(only is None or tool in only for tool in self._tools.get(name, ()))

    def _remember(self, server: McpServer) -> None:
        digest, accepted = self._digests.get(server.name, ""), self._accepted[server.name]
        if self._is_trusted_for_this_run(server.definition):
            return
        asyncio.get_running_loop().run_in_executor(
            None,
            partial(
                self._parts.approvals.save,
                server.definition,
                digest,
                trusted=True,
                tools=dict(accepted.tools),
                instructions=accepted.instructions,
            ),
        )

    def _is_trusted_for_this_run(self, definition: ServerDefinition) -> bool:
        return definition.scope == "project" and self._parts.trust_all

    def _withdraw(self, name: str) -> None:
        self._infos.pop(name, None)
        self._instructions.pop(name, None)
        self._replace(name, {})

    def _replace(self, name: str, tools: dict[str, Tool]) -> None:
        """Change the registry only where something differs: an equal list keeps the prefix of requests."""
        registry, before = self._parts.registry, self._tools.get(name, {})
        for public, tool in before.items():
            if tools.get(public) is not tool:
                registry.remove(public)
        for public, tool in tools.items():
            if before.get(public) is not tool and registry.get(public) is None:
                registry.register(tool)
        self._tools[name] = tools

    def tools_of(self, name: str) -> tuple[Tool, ...]:
        """Return the tools of a server that models are offered."""
        return tuple(self._tools.get(name, {}).values())

    # -- what the person uses by name ----------------------------------------------------------------------

    def resource_mentions(self) -> tuple[tuple[str, str], ...]:
        """Return the resources of connected servers as they stand in a prompt, with their names."""
        return tuple(
            (write_resource(server.name, info.uri), f"{info.name}: {info.description}".removesuffix(": "))
            for server in self._ready()
            for info in server.resources
        )

    def prompt_commands(self) -> tuple[tuple[str, str], ...]:
        """Return the prompts of connected servers as commands, with what they take and are for."""
        return tuple((prompt.command, prompt.about()) for prompt in self._prompts())

    async def attach(self, text: str) -> ExpandedPrompt:
        """Return the resources a text names as attachments."""
        known = {server.name: [info.uri for info in server.resources] for server in self._ready()}

        async def read(name: str, uri: str) -> ToolResult:
            return await self.servers[name].read(uri)

        return await attach_resources(mentioned_resources(text, known), read)

    async def fill_prompt(self, command: str, words: str) -> tuple[UserPart, ...] | None:
        """Return the content of the prompt a command names; None for no such prompt. Raises `ToolError`."""
        prompt = next((one for one in self._prompts() if one.command == command), None)
        if prompt is None:
            return None
        server = self.servers[prompt.server]
        return content_of(prompt, words, await server.get_prompt(prompt.info.name, values_of(prompt, words)))

    def _prompts(self) -> Iterable[ServerPrompt]:
        for server in self._ready():
            yield from prompts_of(server.name, server.prompts)

    def _ready(self) -> list[McpServer]:
        """Return the servers whose resources and prompts the person can name."""
        return [one for one in self.servers.values() if one.state == "ready" and not one.definition.agent]

    def _announce(self, name: str, words: str) -> None:
        """Tell the person, together with what other servers have to tell at the same moment."""
        if self._news.get(name) == words:
            return
        self._news[name] = words
        if self._announcing is None:
            loop = asyncio.get_running_loop()
            self._announcing = loop.call_later(ANNOUNCE_AFTER_S, self._tell_news)
            self._unsaid.clear()
        self._unsaid.add(name)

    def _tell_news(self) -> None:
        self._announcing = None
        words = [self._news[name] for name in sorted(self._unsaid) if self._news.get(name)]
        if words:
            self._parts.tell(f"MCP: {'; '.join(words)}")

    # -- transports ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _transport(
        self,
        definition: ServerDefinition,
        stderr: StderrTail,
        client: ModuleType,
        lost: Callable[[ChannelClosed], None],
    ) -> AsyncGenerator[Any]:
        """Open the transport of a server, as its definition is now."""
        if definition.kind == "channel":
            opened = _open_channel(self._parts.channels[definition.name])
            async with client.channel_transport(opened, lost) as streams:
                yield streams
            return
        await self._check_unchanged(definition)
        expanded = expand_variables(definition, self._parts.environment, self._parts.forbidden)
        if definition.kind == "stdio":
            running = running_server(expanded, self._parts.launch, stderr)
            async with client.channel_transport(running, lost) as streams:
                yield streams
            return
        async with client.remote_transport(
            expanded, self._parts.logins, self._parts.environment, lost
        ) as streams:
            yield streams

    async def _check_unchanged(self, definition: ServerDefinition) -> None:
        """Refuse a project's server whose files in the workspace changed since it was approved. Raises
        `DefinitionError`."""
        if definition.scope not in OF_OTHERS or self._is_trusted_for_this_run(definition):
            return
        digest = await asyncio.to_thread(definition_digest, definition, self._parts.sources.root)
        if digest != self._digests[definition.name]:
            raise DefinitionError(
                "its program changed since you approved it; "
                f"/mcp trust {definition.name} approves it as it is"
            )


def _place(definition: ServerDefinition) -> str:
    place = "a plug-in" if definition.scope == "plugin" else "this folder"
    return f"the subagent {visible(definition.agent)} of {place}" if definition.agent else place


def _offered(server: McpServer, count: int, withheld: Iterable[Withheld]) -> str:
    held = len(tuple(withheld))
    more = f", {held} withheld (/mcp {visible(server.name)})" if held else ""
    if agent := server.definition.agent:
        return f"{visible(server.name)} offers {count} tools to the subagent {visible(agent)}{more}"
    return (
        f"{visible(server.name)} offers {count} tool{'' if count == 1 else 's'} from the next turn on{more}"
    )


@asynccontextmanager
async def _open_channel(factory: ChannelFactory) -> AsyncGenerator[Channel]:
    channel = await factory()
    try:
        yield channel
    finally:
        await channel.aclose()
