"""Limits on the messages of a server: what is too big, too much or meant to make the client work is kept away
from the protocol library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from buddy.extend.mcp.channel import ChannelClosed
from buddy.extend.mcp.listings import clean_lists

MAX_MESSAGE_BYTES = 16_000_000
MAX_UNASKED_BYTES = 32_000_000
"""So much may come in a minute beside the answers to requests, lines that are no message included."""
MAX_UNASKED_MESSAGES = 1_000
"""Notifications and requests a minute that are looked at; further ones are dropped."""
WINDOW_S = 60.0
LOST_CODE, INTERNAL_ERROR = -32000, -32603
"""Servers use the first one for errors of every kind; to the library it is a lost connection."""
MAX_PAGES = 50


class MessageGuard:
    """Judges the messages of one connection. `now`: seconds of a monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._window_began = now()
        self._bytes = 0
        self._messages = 0
        self._asked: set[str | int] = set()
        self.dropped = 0

    def note_sent(self, message: dict[str, Any]) -> None:
        """Note a request: its answer may come, once."""
        if "method" in message and isinstance(message.get("id"), str | int):
            self._asked.add(message["id"])

    def check_size(self, count: int) -> None:
        """Refuse a message that grows beyond any use. Raises `ChannelClosed`."""
        if count > MAX_MESSAGE_BYTES:
            raise ChannelClosed(
                f"it sent a message of more than {MAX_MESSAGE_BYTES // 1_000_000} MB; the "
                f"connection was ended",
                is_final=True,
            )

    def note_noise(self, size: int) -> None:
        """Count bytes that are no message. Raises `ChannelClosed` for a flood."""
        self._spend(size)

    def admit(self, message: object, size: int) -> dict[str, Any] | None:
        """Return the message as the client may see it; None for one that is dropped. Raises `ChannelClosed`
        for
        a flood."""
        if not isinstance(message, dict):
            self._spend(size)
            return None
        given = cast("dict[str, Any]", message)
        if "method" not in given:
            return self._answer(given, size)
        self._spend(size)
        self._messages += 1
        if self._messages > MAX_UNASKED_MESSAGES:
            self.dropped += 1
            return None
        return given

    def _answer(self, message: dict[str, Any], size: int) -> dict[str, Any] | None:
        """Let an answer pass once; one to nothing that was asked, or a second one, is dropped."""
        number = message.get("id")
        if not isinstance(number, str | int) or number not in self._asked:
            self.dropped += 1
            self._spend(size)
            return None
        self._asked.discard(number)
        error = message.get("error")
        if isinstance(error, dict) and cast("dict[str, Any]", error).get("code") == LOST_CODE:
            cast("dict[str, Any]", error)["code"] = INTERNAL_ERROR
        result = message.get("result")
        if isinstance(result, dict):
            clean_lists(cast("dict[str, Any]", result))
        return message

    def _spend(self, size: int) -> None:
        now = self._now()
        if now - self._window_began > WINDOW_S:
            self._window_began, self._bytes, self._messages = now, 0, 0
        self._bytes += size
        if self._bytes > MAX_UNASKED_BYTES:
            raise ChannelClosed(
                f"it sent {self._bytes // 1_000_000} MB that nobody asked for; the connection was ended",
                is_final=True,
            )
