"""One MCP server: its connection and its tools, kept up while buddy runs. Nothing here costs more than the
calls of this server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import ModuleType
from typing import Any, Literal, TypeVar

import msgspec

from buddy.agent.tool import ToolContext, ToolError, ToolResult
from buddy.extend.mcp.channel import ChannelClosed
from buddy.extend.mcp.definitions import DefinitionError, ServerDefinition
from buddy.extend.mcp.elicitation import CANCEL, DECLINE, ask_person
from buddy.extend.mcp.library import LibraryError, McpLibrary
from buddy.extend.mcp.records import (
    Block,
    CallOutcome,
    FormAnswer,
    FormRequest,
    Handlers,
    LoginNeededError,
    McpError,
    PromptInfo,
    PromptMessage,
    ResourceInfo,
    ServerFacts,
    TextBlock,
    ToolInfo,
    first_error,
)
from buddy.extend.mcp.results import ResultMaker
from buddy.extend.mcp.stdio import StderrTail
from buddy.safety.sanitise import clean, one_line, visible
from buddy.tools.ask_user import Questions

State = Literal["disabled", "untrusted", "waiting", "connecting", "ready", "lost", "login", "failed"]
"""`waiting`: not begun; `lost`: it was connected and will be again; `failed`: only /mcp reconnect tries
again."""
CONNECT_S = 60.0
"""`npx` and `uvx` fetch a server before they start it."""
REQUEST_S = 30.0
BACKOFF_S = (1.0, 2.0, 5.0, 15.0, 60.0)
REFRESH_GAP_S = 1.0
"""The least time between two looks at lists that a server says have changed."""
STABLE_S = 30.0
"""A connection that lasted so long counts as good: the next loss is the first one again."""
PROGRESS_EVERY_S = 0.1
MAX_ASKED = 3
"""Questions that a server may put during one call."""
_log = logging.getLogger(__name__)
T = TypeVar("T")

Open = Callable[[ModuleType, Callable[[ChannelClosed], None]], AbstractAsyncContextManager[Any]]
"""Opens the library's transport to a server, given the client module and what hears of a lost connection. May
raise `DefinitionError`, `ChannelClosed`, `LoginNeededError`."""


class ServerParts(msgspec.Struct, frozen=True):
    """The parts that every server needs. `now` and `sleep`: seconds; `roots`: folders a server may know
    of."""

    library: McpLibrary
    questions: Questions
    results: ResultMaker
    roots: Callable[[], tuple[str, ...]]
    now: Callable[[], float]
    sleep: Callable[[float], Coroutine[Any, Any, None]]


class _RunningCall:
    """A call under way. `limit` ends it when the server gives no sign of life."""

    def __init__(self, ctx: ToolContext, limit: asyncio.Timeout, seconds: float) -> None:
        self.ctx = ctx
        self.asked = 0
        self._limit = limit
        self._seconds = seconds

    def pause(self) -> None:
        """Wait for a person, however long that takes."""
        self._limit.reschedule(None)

    def note_life(self) -> None:
        """Begin the limit anew."""
        if not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)


class McpServer:
    """A server of the session. `opened` makes a transport; `changed` is called after each change of what
    there is
    to know of it."""

    def __init__(
        self,
        definition: ServerDefinition,
        parts: ServerParts,
        opened: Open,
        changed: Callable[[McpServer], None],
        *,
        state: State = "waiting",
        stderr: StderrTail | None = None,
    ) -> None:
        self.definition = definition
        self.state: State = state
        self.reason = ""
        self.stderr = stderr or StderrTail()
        self.facts: ServerFacts | None = None
        self.tools: tuple[ToolInfo, ...] = ()
        self.resources: tuple[ResourceInfo, ...] = ()
        self.prompts: tuple[PromptInfo, ...] = ()
        self._parts = parts
        self._open = opened
        self._changed = changed
        self._session: Any = None
        self._running: asyncio.Task[None] | None = None
        self._is_final = False
        self._needs_login = False
        self._is_stopping = False
        self._gone = asyncio.Event()
        self._again = asyncio.Event()
        self._is_stale = False
        self._stir = asyncio.Event()
        self._calls: list[_RunningCall] = []

    @property
    def name(self) -> str:
        """The server's name."""
        return self.definition.name

    @property
    def state_words(self) -> str:
        """Return the state as a person reads it."""
        return STATE_WORDS[self.state]

    @property
    def advice(self) -> str:
        """Return a sentence about its state: the reason, and what to do."""
        name = visible(self.name)
        why = f" ({one_line(self.reason, 300)})" if self.reason else ""
        match self.state:
            case "disabled":
                return f"MCP server {name} is disabled in its definition; take `disabled` out there to use it"
            case "untrusted":
                return f"MCP server {name} waits for your approval: /mcp trust {name} shows it and starts it"
            case "waiting" if self.definition.agent:
                return f"MCP server {name} starts with the subagent {visible(self.definition.agent)}"
            case "waiting" | "connecting":
                return f"MCP server {name} is still connecting{why}"
            case "ready":
                return f"MCP server {name} is ready"
            case "lost":
                return f"MCP server {name} lost its connection{why} and tries again by itself"
            case "login":
                return f"MCP server {name} needs a login{why}"
            case "failed":
                return f"MCP server {name} failed{why}; /mcp {name} shows more, /mcp reconnect {name} retries"

    def begin(self) -> None:
        """Connect and stay connected, unless that is under way."""
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._run(), name=f"mcp {self.name}")

    def reconnect(self) -> None:
        """Connect anew: now, whatever was waited for."""
        self._again.set()
        self._gone.set()
        self._stir.set()
        self.begin()

    async def stop(self, state: State, reason: str = "") -> None:
        """End the connection and stay so."""
        if self._running is not None:
            # What the transport raises while it is cancelled may take the place of the cancellation.
            self._is_stopping = True
            self._running.cancel()
            await asyncio.wait({self._running})
            self._running, self._is_stopping = None, False
        self._set(state, reason)

    # -- the connection ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        failures = 0
        while True:
            self._gone, self._again, self._stir = asyncio.Event(), asyncio.Event(), asyncio.Event()
            begun, self._is_final, self._needs_login = self._parts.now(), False, False
            self._set("connecting", self.reason if failures else "")
            retry, reason = await self._connected()
            if self._is_stopping:
                return
            reason = self._with_last_words(reason)
            if self._parts.now() - begun > STABLE_S:
                failures = 0
            failures += 1
            if self._again.is_set():
                failures = 0
            elif not retry or failures > len(BACKOFF_S):
                self._set("login" if self._needs_login else "failed", reason)
                await self._again.wait()
                failures = 0
            else:
                self._set("lost", reason)
                await self._wait_for(self._again, BACKOFF_S[failures - 1])

    async def _connected(self) -> tuple[bool, str]:
        """Connect and stay so until the connection is lost; tell whether to try again, and why it was
        lost."""
        try:
            client = await self._parts.library.client()
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT_S):
                    handlers = Handlers(self._note_stale, self._ask, self._parts.roots)
                    transport = self._open(client, self._note_lost)
                    session = await stack.enter_async_context(client.connect(transport, handlers))
                    self.facts = session.facts()
                    await self._refresh(session)
                self._session = session
                self._set("ready")
                watching = asyncio.create_task(self._watch(session))
                try:
                    await self._until_lost(session)
                finally:
                    self._session = None
                    watching.cancel()
                    await asyncio.wait({watching})
            return not self._is_final, self.reason or "the connection was lost"
        # The border of a server: whatever its messages make the protocol library raise, alone or in a group,
        # ends its connection and nothing else.
        except Exception as error:  # noqa: BLE001 - see above
            return self._judge(first_error(error))

    def _judge(self, error: BaseException) -> tuple[bool, str]:
        """Return whether to connect again after an error, and the error in words for a person."""
        match error:
            case LoginNeededError():
                self._needs_login = True
                return False, str(error)
            case DefinitionError() | LibraryError():
                return False, str(error)
            case TimeoutError():
                return True, f"it did not answer within {CONNECT_S:g} s"
            case ChannelClosed() | McpError():
                is_final = isinstance(error, ChannelClosed) and error.is_final
                return not (self._is_final or is_final), one_line(self.reason or str(error), 300)
            case _:
                _log.warning("MCP server %s", self.name, exc_info=error)
                return not self._is_final, one_line(self.reason or f"the connection failed: {error}", 300)

    async def _until_lost(self, session: Any) -> None:
        """Keep the list of tools up to date until the connection is gone."""
        while not self._gone.is_set():
            self._stir.clear()
            if self._is_stale:
                self._is_stale = False
                await self._refresh(session)
                self._changed(self)
                await self._wait_for(self._gone, REFRESH_GAP_S)
                continue
            await self._stir.wait()

    async def _refresh(self, session: Any) -> None:
        facts = self.facts
        if facts is None:
            return
        async with asyncio.timeout(REQUEST_S):
            if facts.has_tools:
                self.tools = await session.list_tools()
            if facts.has_resources:
                self.resources = await _list_or_none(session.list_resources(), self.name)
            if facts.has_prompts:
                self.prompts = await _list_or_none(session.list_prompts(), self.name)

    async def _watch(self, session: Any) -> None:
        """Hear of changes where the protocol wants a request for it. Without it the list stays as it
        is."""
        try:
            await session.watch(self._note_stale)
        except Exception as error:  # noqa: BLE001 - as in `_connected`: it costs nothing but the news
            _log.info("MCP server %s tells no changes: %s", self.name, error)

    async def _wait_for(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until the event is set or the time is over."""
        happened = asyncio.ensure_future(event.wait())
        pause = asyncio.ensure_future(self._parts.sleep(seconds))
        try:
            await asyncio.wait({happened, pause}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            happened.cancel()
            pause.cancel()

    def _with_last_words(self, reason: str) -> str:
        """Return a reason with the last line of stderr: where a server did not start, that line says why."""
        lines = clean(self._parts.results.redact(self.stderr.text())).splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"{reason}; its last words: {one_line(last, 200)}" if last else reason

    def _set(self, state: State, reason: str = "") -> None:
        self.state, self.reason = state, clean(reason)
        self._changed(self)

    def _note_lost(self, error: Exception) -> None:
        self.reason = self.reason or clean(str(error))
        self._is_final = isinstance(error, ChannelClosed) and error.is_final
        self._needs_login = isinstance(error, LoginNeededError)
        self._is_final = self._is_final or self._needs_login
        self._gone.set()
        self._stir.set()

    def _note_stale(self) -> None:
        self._is_stale = True
        self._stir.set()

    # -- requests ------------------------------------------------------------------------------------------

    async def call(self, info: ToolInfo, values: dict[str, Any], ctx: ToolContext) -> ToolResult:
        """Call a tool. Cancelling this tells the server. Raises `ToolError`."""
        now = next((one for one in self.tools if one.name == info.name), None)
        if self._session is not None and now is None:
            raise ToolError(f"the MCP server {self.name} no longer offers {info.name}")
        if now is not None and now.digest() != info.digest():
            raise ToolError(
                f"the MCP server {self.name} changed what it says of {info.name}; it is not called "
                f"before the "
                f"person accepts that (/mcp trust {self.name})"
            )
        shown_at = -PROGRESS_EVERY_S

        def progress(amount: float, total: float | None, words: str) -> None:
            nonlocal shown_at
            running.note_life()
            at = self._parts.now()
            if at - shown_at >= PROGRESS_EVERY_S or (total is not None and amount >= total):
                shown_at = at
                ctx.progress(_progress_line(amount, total, words))

        seconds = self.definition.timeout_s
        try:
            async with asyncio.timeout(seconds) as limit:
                running = _RunningCall(ctx, limit, seconds)
                self._calls.append(running)
                try:
                    outcome = await self._request(lambda session: session.call(info.name, values, progress))
                finally:
                    self._calls.remove(running)
        except TimeoutError as error:
            raise ToolError(
                f"the MCP server {self.name} gave no sign of life for {seconds:g} s; the call was cancelled"
            ) from error
        return await self._parts.results.to_result(self.name, outcome)

    async def read(self, uri: str) -> ToolResult:
        """Read a resource, as bounded and clean as the result of a call. Raises `ToolError`."""
        outcome = await self._within(lambda session: session.read(uri))
        return await self._parts.results.to_result(self.name, outcome)

    async def get_prompt(self, name: str, values: dict[str, str]) -> ToolResult:
        """Return the text of a prompt, as bounded and clean as the result of a call. Raises `ToolError`."""
        messages: tuple[PromptMessage, ...] = await self._within(
            lambda session: session.get_prompt(name, values)
        )
        blocks: list[Block] = []
        for message in messages:
            if any(one.role == "assistant" for one in messages):
                blocks.append(TextBlock(f"{message.role}:"))
            blocks.append(message.block)
        return await self._parts.results.to_result(self.name, CallOutcome(tuple(blocks)))

    async def _within(self, ask: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        try:
            async with asyncio.timeout(REQUEST_S):
                return await self._request(ask)
        except TimeoutError as error:
            raise ToolError(f"the MCP server {self.name} did not answer within {REQUEST_S:g} s") from error

    async def _request(self, ask: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        session = self._session
        if session is None:
            raise ToolError(f"it was not called: {self.advice}")
        try:
            return await ask(session)
        except McpError as error:
            if error.is_lost:
                self._note_lost(error)
            why = f": {self.reason}" if error.is_lost and self.reason else f": {clean(str(error))}"
            raise ToolError(f"the MCP server {self.name} failed{why[:2_000]}") from error
        except LoginNeededError as error:
            self._note_lost(error)
            raise ToolError(f"the MCP server {self.name}: {error}") from error

    async def _ask(self, request: FormRequest) -> FormAnswer:
        """Put a question of the server to the person, for the call that was begun last. Without a call nobody
        asked it anything."""
        if not self._calls:
            return DECLINE
        running = self._calls[-1]
        running.asked += 1
        if running.asked > MAX_ASKED:
            return DECLINE
        running.pause()
        try:
            return await ask_person(
                self.name, request, self._parts.questions, running.ctx.task_id, running.ctx.progress
            )
        except ValueError as error:  # a form that makes no question
            _log.info("MCP server %s asks for what cannot be asked: %s", self.name, error)
            return CANCEL
        finally:
            running.note_life()


STATE_WORDS: dict[State, str] = {
    "disabled": "disabled in its definition",
    "untrusted": "waits for your approval",
    "waiting": "not started yet",
    "connecting": "connecting",
    "ready": "ready",
    "lost": "connection lost, tries again",
    "login": "needs a login",
    "failed": "failed",
}


async def _list_or_none(listing: Coroutine[Any, Any, tuple[T, ...]], name: str) -> tuple[T, ...]:
    """Return a list of the server, empty where it cannot give one: its tools work all the same."""
    try:
        return await listing
    except McpError as error:
        if error.is_lost:
            raise
        _log.info("MCP server %s lists less than it declares: %s", name, error)
        return ()


def _progress_line(amount: float, total: float | None, words: str) -> str:
    count = f"{amount:g}/{total:g}" if total is not None else f"{amount:g}"
    return f"{count} {one_line(words, 200)}".rstrip() + "\n"
