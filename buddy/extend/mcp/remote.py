"""Connections to servers with an address, as the protocol library wants them. Imported with the library."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any

import anyio
import httpx2
import mcp_types as types
import msgspec
from mcp.client import Transport
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from buddy.extend.mcp.channel import ChannelClosed
from buddy.extend.mcp.definitions import ServerDefinition
from buddy.extend.mcp.guard import MAX_MESSAGE_BYTES, MessageGuard
from buddy.extend.mcp.http_requests import HttpRequests
from buddy.extend.mcp.http_transport import SessionTransport
from buddy.extend.mcp.logins import Logins, LoginsError
from buddy.extend.mcp.stored_login import StoredLogin


class _GuardedReceiver:
    """The reading side of a connection, without what is too much or was not asked for."""

    def __init__(
        self,
        inner: Any,
        guard: MessageGuard,
        transport: SessionTransport,
        lost: Callable[[Exception], None],
    ) -> None:
        self._inner = inner
        self._guard = guard
        self._transport = transport
        self._lost = lost

    def __aiter__(self) -> _GuardedReceiver:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                item: SessionMessage | Exception = await self._inner.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._lost(ChannelClosed("it ended the connection"))
                raise anyio.EndOfStream from None
            if isinstance(item, SessionMessage) and self._admits(item):
                return item

    def _admits(self, item: SessionMessage) -> bool:
        message = item.message
        plain: dict[str, Any] = {}
        match message:
            case types.JSONRPCResponse():
                plain = {"id": message.id, "result": message.result}
            case types.JSONRPCError():
                number = message.id
                broken = self._transport.broken.pop(number, "") if number is not None else ""
                if broken:
                    message.error.message = broken
                plain = {"id": number, "error": {"code": message.error.code}}
            case types.JSONRPCRequest():
                plain = {"id": message.id, "method": message.method, "params": message.params}
            case types.JSONRPCNotification():
                plain = {"method": message.method, "params": message.params}
        size = len(msgspec.json.encode(plain))
        try:
            self._guard.check_size(size)
            if self._guard.admit(plain, size) is None:
                return False
        except ChannelClosed as error:
            self._lost(error)
            raise anyio.EndOfStream from error
        if isinstance(message, types.JSONRPCError):
            message.error.code = plain["error"]["code"]
        return True

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> _GuardedReceiver:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)


class _GuardedSender:
    """The writing side, which remembers what was asked."""

    def __init__(self, inner: Any, guard: MessageGuard) -> None:
        self._inner = inner
        self._guard = guard

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCRequest):
            self._guard.note_sent({"id": message.id, "method": message.method})
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> _GuardedSender:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)


@asynccontextmanager
async def remote_transport(
    definition: ServerDefinition,
    logins: Logins,
    environment: Mapping[str, str],
    lost: Callable[[Exception], None],
) -> AsyncGenerator[tuple[_GuardedReceiver, _GuardedSender]]:
    """Connect to the address of an expanded definition. `environment` holds the proxy settings.

    Raises `ChannelClosed`, `LoginNeededError`."""
    kind = "sse" if definition.kind == "sse" else "http"
    has_credentials = any(name.lower() == "authorization" for name in definition.headers)
    try:
        login = (
            None if has_credentials else await asyncio.to_thread(logins.find, definition.name, definition.url)
        )
    except LoginsError as error:
        raise ChannelClosed(str(error), is_final=True) from error
    is_over = False

    def hear(error: Exception) -> None:
        if not is_over:
            lost(error)

    transport = SessionTransport(
        definition.name,
        kind,
        HttpRequests(environment),
        hear,
        has_credentials=has_credentials,
        login=StoredLogin(logins, definition.name, login, time.time) if login is not None else None,
    )
    guard = MessageGuard(time.monotonic)

    def make_client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        # Its own settings from the environment (proxies, .netrc) would be a second opinion.
        return httpx2.AsyncClient(
            transport=transport, headers=headers, timeout=timeout, auth=auth, trust_env=False
        )

    async with AsyncExitStack() as stack:
        if kind == "sse":
            opened: Transport = sse_client(
                definition.url, headers=dict(definition.headers), httpx_client_factory=make_client
            )
        else:
            client = await stack.enter_async_context(make_client(dict(definition.headers)))
            opened = streamable_http_client(
                definition.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
            )
        receiver, sender = await stack.enter_async_context(opened)
        try:
            yield _GuardedReceiver(receiver, guard, transport, hear), _GuardedSender(sender, guard)
        finally:
            is_over = True
