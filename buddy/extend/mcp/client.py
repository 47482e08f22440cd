"""The protocol library behind functions of our own. Nothing else imports it, and only `library` imports this
module, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
import pydantic
from mcp import Client, MCPError
from mcp.client import ClientRequestContext, Transport
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from buddy import __version__
from buddy.extend.mcp.channel import Channel, ChannelClosed
from buddy.extend.mcp.definitions import DefinitionError
from buddy.extend.mcp.guard import MAX_PAGES
from buddy.extend.mcp.listings import MAX_TOOLS
from buddy.extend.mcp.records import (
    Block,
    CallOutcome,
    DataBlock,
    FormRequest,
    Handlers,
    LoginNeededError,
    McpError,
    Progress,
    PromptArgument,
    PromptInfo,
    PromptMessage,
    ResourceInfo,
    ServerFacts,
    TextBlock,
    ToolInfo,
    first_error,
)
from buddy.extend.mcp.remote import remote_transport as remote_transport

T = TypeVar("T")
LOST_CODES = (types.CONNECTION_CLOSED,)
_LIST_CHANGES = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceListChangedNotification,
)


class _Messages:
    """The reading side of a channel, as the library wants it."""

    def __init__(self, channel: Channel, lost: Callable[[ChannelClosed], None]) -> None:
        self._channel = channel
        self._lost = lost

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                message = await self._channel.receive()
            except ChannelClosed as error:
                self._lost(error)
                raise anyio.EndOfStream from error
            with contextlib.suppress(ValueError):  # no message of the protocol: as if it had not come
                return SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False))

    async def aclose(self) -> None:
        """Do nothing: whoever opened the channel closes it."""

    async def __aenter__(self) -> _Messages:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


class _Sender:
    """The writing side. It never waits: a server that does not read holds up nobody."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def send(self, item: SessionMessage, /) -> None:
        try:
            self._channel.send(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True))
        except ChannelClosed as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Do nothing: whoever opened the channel closes it."""

    async def __aenter__(self) -> _Sender:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


@asynccontextmanager
async def channel_transport(
    opened: AbstractAsyncContextManager[Channel], lost: Callable[[ChannelClosed], None]
) -> AsyncGenerator[tuple[_Messages, _Sender]]:
    """Carry the protocol over a channel."""
    async with opened as channel:
        yield _Messages(channel, lost), _Sender(channel)


class McpSession:
    """A connection whose handshake is done."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def facts(self) -> ServerFacts:
        """Return how the server introduces itself."""
        client = self._client
        info, can = client.server_info, client.server_capabilities
        return ServerFacts(
            title=(info.title or info.name) if info else "",
            version=info.version if info else "",
            protocol=client.protocol_version,
            instructions=client.instructions or "",
            has_tools=can.tools is not None,
            has_resources=can.resources is not None,
            has_prompts=can.prompts is not None,
        )

    async def list_tools(self) -> tuple[ToolInfo, ...]:
        """Return the server's tools; of a name that comes twice the first. Raises `McpError`."""
        tools: dict[str, ToolInfo] = {}

        async def page(cursor: str | None) -> str | None:
            found = await self._client.list_tools(cursor=cursor)
            for one in found.tools[: MAX_TOOLS - len(tools)]:
                hints = one.annotations
                tools.setdefault(
                    one.name,
                    ToolInfo(
                        name=one.name,
                        title=one.title or (hints.title if hints else "") or "",
                        description=one.description or "",
                        schema=one.input_schema,
                        read_only_hint=hints.read_only_hint if hints else None,
                        destructive_hint=hints.destructive_hint if hints else None,
                    ),
                )
            return found.next_cursor

        await _pages(page)
        return tuple(tools.values())

    async def call(self, name: str, arguments: dict[str, Any], tell_progress: Progress) -> CallOutcome:
        """Call a tool. Cancelling this tells the server. Raises `McpError`."""

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            tell_progress(progress, total, message or "")

        result = await _asked(self._client.call_tool(name, arguments, progress_callback=heard))
        blocks = _blocks(result.content)
        if not blocks and result.structured_content is not None:
            blocks = (TextBlock(_as_json(result.structured_content)),)
        return CallOutcome(blocks, result.is_error)

    async def list_resources(self) -> tuple[ResourceInfo, ...]:
        """Return the server's resources; of an address that comes twice the first. Raises `McpError`."""
        resources: dict[str, ResourceInfo] = {}

        async def page(cursor: str | None) -> str | None:
            found = await self._client.list_resources(cursor=cursor)
            for one in found.resources[: MAX_TOOLS - len(resources)]:
                info = ResourceInfo(one.uri, one.title or one.name, one.description or "")
                resources.setdefault(one.uri, info)
            return found.next_cursor

        await _pages(page)
        return tuple(resources.values())

    async def list_prompts(self) -> tuple[PromptInfo, ...]:
        """Return the server's prompts; of a name that comes twice the first. Raises `McpError`."""
        prompts: dict[str, PromptInfo] = {}

        async def page(cursor: str | None) -> str | None:
            found = await self._client.list_prompts(cursor=cursor)
            for one in found.prompts[: MAX_TOOLS - len(prompts)]:
                arguments = tuple(
                    PromptArgument(each.name, each.description or "", bool(each.required))
                    for each in one.arguments or ()
                )
                prompts.setdefault(
                    one.name, PromptInfo(one.name, one.description or one.title or "", arguments)
                )
            return found.next_cursor

        await _pages(page)
        return tuple(prompts.values())

    async def read(self, uri: str) -> CallOutcome:
        """Read a resource. Raises `McpError`."""
        result = await _asked(self._client.read_resource(uri))
        return CallOutcome(tuple(map(_content, result.contents)))

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> tuple[PromptMessage, ...]:
        """Return the messages of a prompt. Raises `McpError`."""
        result = await _asked(self._client.get_prompt(name, arguments or None))
        return tuple(PromptMessage(one.role, _block(one.content)) for one in result.messages)

    async def watch(self, changed: Callable[[], None]) -> None:
        """Hear of changed tools, prompts and resources where the protocol has a request for it (from 2026
        on); else return."""
        if self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        can = self._client.server_capabilities
        listening = self._client.listen(
            tools_list_changed=bool(can.tools and can.tools.list_changed),
            prompts_list_changed=bool(can.prompts and can.prompts.list_changed),
            resources_list_changed=bool(can.resources and can.resources.list_changed),
        )
        async with listening as events:
            async for _event in events:
                changed()


@asynccontextmanager
async def connect(transport: Transport, handlers: Handlers) -> AsyncGenerator[McpSession]:
    """Do the handshake and stay connected. Enter and leave it in one task. Raises `McpError`."""

    async def hear(message: types.ServerNotification | Exception) -> None:
        if isinstance(message, _LIST_CHANGES):
            handlers.changed()

    async def elicit(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        if isinstance(params, types.ElicitRequestURLParams):
            request = FormRequest(params.message, {}, params.url)
        else:
            request = FormRequest(params.message, params.requested_schema)
        answer = await handlers.ask(request)
        return types.ElicitResult(
            action=answer.action, content=answer.content if answer.action == "accept" else None
        )

    async def roots(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(
            roots=[
                types.Root(uri=pydantic.FileUrl(Path(path).as_uri()), name=Path(path).name)
                for path in handlers.roots()
            ]
        )

    client = Client(
        transport,
        client_info=types.Implementation(name="buddy", title="buddy", version=__version__),
        elicitation_callback=elicit,
        list_roots_callback=roots,
        message_handler=hear,
        cache=None,
    )
    entered = False
    try:
        async with client:
            entered = True
            yield McpSession(client)
    except Exception as error:
        if entered:
            raise
        raise _explained(error) from error


async def _pages(page: Callable[[str | None], Awaitable[str | None]]) -> None:
    """Read a list page by page; one that does not end is cut."""
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        following = await _asked(page(cursor))
        if following is None or following == cursor:
            return
        cursor = following


async def _asked(answer: Awaitable[T]) -> T:
    try:
        return await answer
    except asyncio.CancelledError:
        raise
    except Exception as error:
        raise _explained(error) from error


def _explained(error: BaseException) -> Exception:
    """Return what went wrong in words of our own."""
    error = first_error(error)
    if isinstance(error, LoginNeededError | McpError | ChannelClosed | DefinitionError):
        return error
    if isinstance(error, MCPError):
        return McpError(error.message, is_lost=error.code in LOST_CODES)
    if isinstance(error, pydantic.ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return McpError(f"its answer is not what the protocol says ({place}: {first['msg']})")
    if isinstance(error, httpx2.SSEError):
        return McpError(f"its event stream is of no use: {error}", is_lost=True)
    return McpError(f"the connection failed: {error or 'no reason was told'}", is_lost=True)


def _blocks(content: Sequence[Any]) -> tuple[Block, ...]:
    return tuple(_block(one) for one in content)


def _block(one: Any) -> Block:
    match one:
        case types.TextContent():
            return TextBlock(one.text)
        case types.ImageContent() | types.AudioContent():
            return DataBlock(one.mime_type, one.data)
        case types.ResourceLink():
            about = f": {one.description}" if one.description else ""
            return TextBlock(f"[resource {one.uri} ({one.name}){about}]")
        case types.EmbeddedResource():
            return _content(one.resource)
        case _:
            return TextBlock("[content of a kind that buddy does not know, left out]")


def _content(one: types.TextResourceContents | types.BlobResourceContents) -> Block:
    if isinstance(one, types.TextResourceContents):
        return TextBlock(one.text)
    return DataBlock(one.mime_type or "application/octet-stream", one.blob, one.uri)


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
