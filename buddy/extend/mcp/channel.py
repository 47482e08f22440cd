"""A channel to an MCP server: whole JSON-RPC messages in both directions, whatever carries them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class ChannelClosed(Exception):
    """The other side is gone; the message says why, for a person. `is_final`: it would only do the same
    again."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class Channel(Protocol):
    """One connection to a server. `send` never waits for the server to read."""

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises `ChannelClosed`."""
        ...

    async def receive(self) -> dict[str, Any]:
        """Return the next message. Raises `ChannelClosed`."""
        ...

    async def aclose(self) -> None:
        """End the connection and the server behind it."""
        ...


ChannelFactory = Callable[[], Awaitable[Channel]]
"""Opens a connection to one server, again after it broke. Raises `ChannelClosed`."""
