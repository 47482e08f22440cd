"""MCP servers that live in the program that drives buddy: their messages travel in control requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from buddy.extend.mcp.channel import ChannelClosed
from buddy.extend.mcp.guard import MessageGuard
from buddy.headless.control import ControlChannel, ProgramGoneError, RequestRefusedError
from buddy.headless.running_tasks import RunningTasks

METHOD_NOT_FOUND = -32601


class ProgramChannel:
    """One connection to a server of the program."""

    def __init__(self, name: str, control: ControlChannel, forget: Callable[[ProgramChannel], None]) -> None:
        self._name = name
        self._control = control
        self._forget = forget
        self._guard = MessageGuard(time.monotonic)
        self._messages: asyncio.Queue[dict[str, Any] | ChannelClosed] = asyncio.Queue()
        self._asking = RunningTasks()
        self._problem: ChannelClosed | None = None

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises `ChannelClosed`."""
        if self._problem is not None:
            raise self._problem
        self._guard.note_sent(message)
        self._asking.start(self._ask(message))

    async def _ask(self, message: dict[str, Any]) -> None:
        request = {"subtype": "mcp_message", "server_name": self._name, "message": message}
        try:
            answer = await self._control.ask(request)
        except ProgramGoneError as error:
            self._break(ChannelClosed(str(error), is_final=True))
            return
        except RequestRefusedError as error:
            answer = {"mcp_response": {"error": {"code": METHOD_NOT_FOUND, "message": str(error)}}}
        if "id" not in message or "method" not in message:
            return  # a notification is only acknowledged
        response = answer.get("mcp_response")
        if not isinstance(response, dict):
            response = {"error": {"code": METHOD_NOT_FOUND, "message": "the program sent no mcp_response"}}
        self.take({"jsonrpc": "2.0", **response, "id": message["id"]})

    def take(self, message: dict[str, Any]) -> None:
        """Take a message of the server."""
        try:
            size = len(msgspec.json.encode(message))
            self._guard.check_size(size)
            admitted = self._guard.admit(message, size)
        except (ValueError, OverflowError, RecursionError) as error:
            self._break(ChannelClosed(f"the server sent a message that is no JSON: {error}"))
            return
        except ChannelClosed as error:
            self._break(error)
            return
        if admitted is not None:
            self._messages.put_nowait(admitted)

    async def receive(self) -> dict[str, Any]:
        """Return the next message. Raises `ChannelClosed`."""
        if self._problem is not None and self._messages.empty():
            raise self._problem
        message = await self._messages.get()
        if isinstance(message, ChannelClosed):
            raise message
        return message

    async def aclose(self) -> None:
        """End the connection; open requests are withdrawn."""
        self._forget(self)
        self._break(ChannelClosed("the connection was closed"))
        await self._asking.end()

    def _break(self, problem: ChannelClosed) -> None:
        if self._problem is None:
            self._problem = problem
            self._messages.put_nowait(problem)


class ProgramServers:
    """The servers a program names, each with its connection while there is one."""

    def __init__(self, control: ControlChannel) -> None:
        self._control = control
        self._channels: dict[str, ProgramChannel] = {}

    async def connect(self, name: str) -> ProgramChannel:
        """Open a connection to a server."""
        channel = ProgramChannel(name, self._control, self._remove)
        self._channels[name] = channel
        return channel

    def _remove(self, channel: ProgramChannel) -> None:
        for name, known in list(self._channels.items()):
            if known is channel:
                del self._channels[name]

    def take(self, name: str, message: dict[str, Any]) -> bool:
        """Take a message that a server sends by itself; False where there is no such server."""
        channel = self._channels.get(name)
        if channel is not None:
            channel.take(message)
        return channel is not None
