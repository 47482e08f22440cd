"""The MCP servers of a session, opened only where one is defined."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Protocol

import msgspec

from buddy.agent.messages import UserPart
from buddy.agent.tool import Tool, ToolRegistry
from buddy.app.launch import LaunchContext
from buddy.app.options import Options
from buddy.app.providers import Models
from buddy.config.settings import Settings
from buddy.extend.definitions import ExtensionFile
from buddy.extend.mcp.channel import ChannelFactory
from buddy.extend.mcp.definitions import ServerDefinition
from buddy.extend.mcp.records import LoginPage
from buddy.extend.mcp.sources import Sources
from buddy.extend.mentions import ExpandedPrompt
from buddy.extend.plugin_folders import PluginStore
from buddy.safety.secrets.redact import redact
from buddy.tools.ask_user import Questions
from buddy.tools.search_tools import LateTools
from buddy.workspace.processes.pool import ChildProcesses
from buddy.workspace.sandbox.handle import SandboxHandle


class ServerStderr(Protocol):
    """Interface of `buddy.extend.mcp.stdio.StderrTail`."""

    def text(self) -> str:
        """Return the end of stderr, not yet fit for a terminal."""
        ...


class SessionServer(Protocol):
    """Interface of `buddy.extend.mcp.server.McpServer`."""

    @property
    def name(self) -> str:
        """Return the server's name."""
        ...

    @property
    def definition(self) -> ServerDefinition:
        """Return the definition it runs by."""
        ...

    @property
    def state(self) -> str:
        """Return the state's name."""
        ...

    @property
    def state_words(self) -> str:
        """Return the state as a person reads it."""
        ...

    @property
    def advice(self) -> str:
        """Return a sentence about its state: the reason, and what to do."""
        ...

    @property
    def resources(self) -> Sequence[object]:
        """Return its resources."""
        ...

    @property
    def prompts(self) -> Sequence[object]:
        """Return its prompts."""
        ...

    @property
    def reason(self) -> str:
        """Return why it is in this state, "" where that needs no words."""
        ...

    @property
    def stderr(self) -> ServerStderr:
        """Return the end of its stderr."""
        ...

    def reconnect(self) -> None:
        """Connect anew, now."""
        ...


class WithheldTool(Protocol):
    """Interface of `buddy.extend.mcp.servers.Withheld`."""

    @property
    def tool(self) -> str:
        """Return the tool's name."""
        ...

    @property
    def reason(self) -> str:
        """Return why it is not offered."""
        ...


class ServerWords(Protocol):
    """Interface of `buddy.extend.mcp.servers.ServerInstructions`."""

    @property
    def words(self) -> str:
        """Return the cleaned instructions."""
        ...

    @property
    def is_withheld(self) -> bool:
        """Tell whether models do not read them."""
        ...


class DescribedTool(Protocol):
    """Interface of `buddy.extend.mcp.records.ToolInfo`."""

    @property
    def name(self) -> str:
        """Return the tool's name."""
        ...

    @property
    def description(self) -> str:
        """Return its description."""
        ...


class ServerOffer(Protocol):
    """Interface of `buddy.extend.mcp.servers.TrustOffer`."""

    @property
    def code(self) -> str:
        """Return the code that answers it."""
        ...

    @property
    def changed(self) -> Sequence[DescribedTool]:
        """Return the tools that are withheld now and would be accepted."""
        ...

    @property
    def instructions(self) -> str:
        """Return the instructions that would be accepted."""
        ...


class ServerArrivals(Protocol):
    """Interface of `buddy.extend.mcp.arrivals.Arrivals`."""

    def names(self) -> tuple[str, ...]:
        """Return the names of servers that are about to connect for the first time."""
        ...

    async def before_turn(self, prompt: str = "") -> tuple[str, ...]:
        """Wait before the first turn of a run. Returns a sentence for each server whose tools are missing."""
        ...

    async def wait_for(self, names: Collection[str]) -> None:
        """Wait until these servers are no longer starting, or for a limited time."""
        ...

    def missing(self) -> tuple[str, ...]:
        """Return a sentence for each required server that is not there."""
        ...


class SessionServers(Protocol):
    """Interface of `buddy.extend.mcp.servers.McpServers`, which is loaded only where a server is defined."""

    @property
    def servers(self) -> Mapping[str, SessionServer]:
        """Return the servers by name."""
        ...

    @property
    def hidden(self) -> tuple[ServerDefinition, ...]:
        """Return the definitions that one of the same name hides."""
        ...

    @property
    def problems(self) -> tuple[str, ...]:
        """Return a sentence for each definition that cannot be used."""
        ...

    @property
    def withheld(self) -> Mapping[str, tuple[WithheldTool, ...]]:
        """Return the tools that are not offered, by server."""
        ...

    def begin(self) -> None:
        """Connect every server that may run, in the background."""
        ...

    @property
    def arrivals(self) -> ServerArrivals:
        """Return the servers that are starting."""
        ...

    def instructions_of(self, name: str) -> ServerWords:
        """Return the instructions a server gives."""
        ...

    def prompt_text(self, only: Collection[str] | None = None, agent: str = "") -> str:
        """Return what the system prompt of a subagent, "" for any other task, says of servers, of those with
        one of the tools `only`."""
        ...

    async def take_agents(self, files: Sequence[ExtensionFile]) -> None:
        """Take up the servers that these subagent files define, instead of those of before."""
        ...

    def running_for(self, agent: str) -> AbstractAsyncContextManager[tuple[str, ...]]:
        """Run the servers of a subagent's file; gives a sentence for each that is missing."""
        ...

    def notes(self) -> tuple[str, ...]:
        """Return notes for the person about servers that are not started."""
        ...

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call this after each change."""
        ...

    def tools_of(self, name: str) -> tuple[Tool, ...]:
        """Return the tools of a server that models are offered."""
        ...

    def resource_mentions(self) -> tuple[tuple[str, str], ...]:
        """Return the resources of connected servers as they stand in a prompt, with their names."""
        ...

    def prompt_commands(self) -> tuple[tuple[str, str], ...]:
        """Return the prompts of connected servers as commands, with what they take and are for."""
        ...

    async def attach(self, text: str) -> ExpandedPrompt:
        """Return the resources a text names as attachments."""
        ...

    async def fill_prompt(self, command: str, words: str) -> tuple[UserPart, ...] | None:
        """Return the content of the prompt a command names; None for no such prompt. Raises `ToolError`."""
        ...

    def login_page(self, name: str) -> LoginPage | None:
        """Return the page a login to a server waits for, None where there is none."""
        ...

    async def log_in(self, name: str, show: Callable[[LoginPage], Awaitable[None]]) -> str:
        """Log in to a server and connect with it; return the place of the tokens. Raises
        `LoginFailedError`."""
        ...

    async def log_out(self, name: str) -> tuple[str, ...]:
        """Forget the logins to a server and connect without; return their addresses. Raises
        `LoginFailedError`."""
        ...

    async def offer(self, name: str) -> ServerOffer:
        """Return what an approval of a server would cover now, to be shown."""
        ...

    async def trust(self, name: str, code: str) -> str:
        """Approve a server as the last offer of this code showed it; return "" or why that is not remembered.
        Raises `OfferChangedError` (of `buddy.extend.mcp.servers`) where it is not that any more."""
        ...

    async def distrust(self, name: str) -> str:
        """End a server and never start it; return "" or why that is not remembered."""
        ...


class ServerServices(msgspec.Struct, frozen=True):
    """The parts of a session that its servers use. `folder` holds long results; `tell` says a sentence to the
    person; `channels` open connections to servers of the program that embeds buddy, by name."""

    launch: LaunchContext
    settings: Settings
    options: Options
    models: Models
    tools: ToolRegistry
    children: ChildProcesses
    sandbox: SandboxHandle
    questions: Questions
    folder: str
    tell: Callable[[str], None]
    channels: Mapping[str, ChannelFactory] = {}


def sources_of(launch: LaunchContext, settings: Settings, options: Options) -> Sources:
    """Return the places where servers are looked for."""
    return Sources(
        launch.boundary.root,
        launch.where.config,
        settings.mcp_servers,
        plugins=PluginStore(launch.where.data).all(),
        given=options.mcp_config,
        strict=options.strict_mcp_config,
    )


async def open_servers(
    stack: AsyncExitStack, session: ServerServices, *, is_needed: bool = False
) -> SessionServers | None:
    """Find the servers of a session, None where none is defined and none `is_needed`. They are not connected
    before `begin`; all have ended when the stack is left."""
    launch = session.launch
    root = launch.boundary.root
    sources = sources_of(launch, session.settings, session.options)
    if not sources.is_any() and not session.channels and not is_needed:
        return None
    from buddy.app.mcp_logins import saved_logins  # these where a server is defined
    from buddy.extend.mcp.approvals import ServerApprovals
    from buddy.extend.mcp.launching import LaunchParts
    from buddy.extend.mcp.library import McpLibrary
    from buddy.extend.mcp.results import ResultMaker
    from buddy.extend.mcp.server import ServerParts
    from buddy.extend.mcp.servers import McpParts, McpServers
    from buddy.workspace.processes.child import Child
    from buddy.workspace.sandbox.tether import Tether

    tether = Tether(os.path.join(launch.where.state, "sandbox"))

    def tie(child: Child) -> None:
        tether.tie(child.tree.tag.number)
        tether.tie_group(child.pid)

    stack.push_async_callback(asyncio.to_thread, tether.close)
    parts = McpParts(
        sources=sources,
        registry=session.tools,
        off=frozenset(session.settings.tools.disabled),
        launch=LaunchParts(
            children=session.children,
            sandbox=session.sandbox,
            sandbox_level=session.settings.sandbox.level,
            boundary=launch.boundary,
            trusted=launch.trusted,
            own_folder=os.path.join(launch.where.cache, "mcp"),
            environment=launch.environment,
            tie=tie,
        ),
        server=ServerParts(
            library=McpLibrary(),
            questions=session.questions,
            results=ResultMaker(
                session.folder,
                lambda text: redact(text, session.models.keys()),
                lambda: os.urandom(6).hex(),
            ),
            roots=lambda: (root, *launch.boundary.extra),
            now=time.monotonic,
            sleep=asyncio.sleep,
        ),
        logins=saved_logins(launch),
        approvals=ServerApprovals(launch.where.state, root),
        environment=launch.environment,
        forbidden=frozenset(session.models.key_names),
        trust_all=session.options.trust,
        tell=session.tell,
        channels=session.channels,
    )
    servers = await stack.enter_async_context(McpServers(parts))
    await servers.find()
    return servers


def late_tools(servers: Callable[[], SessionServers | None]) -> LateTools:
    """Return the servers that are starting, for `search_tools`; `servers` has none before they are opened."""

    def names() -> tuple[str, ...]:
        opened = servers()
        return opened.arrivals.names() if opened is not None else ()

    async def wait_for(chosen: Collection[str]) -> None:
        opened = servers()
        if opened is not None:
            await opened.arrivals.wait_for(chosen)

    return LateTools(names, wait_for)
