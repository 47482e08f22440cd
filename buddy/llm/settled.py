"""The beginnings of conversations, encoded: a request repeats everything before the newest exchanges, byte
for byte.

What settled is kept as bytes and only grows, so a turn encodes and looks at what is new alone. A conversation
is recognised by its messages themselves (by identity, compared in C); after a compaction, a reset or an undo
it is another one and settles anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from buddy.agent.messages import AssistantMessage, Message, ToolMessage, UserMessage, calls_of

KEPT = 8
"""Conversations remembered for one model: more tasks than people run at once."""

OPEN_EXCHANGES = 2
"""Exchanges at the end that are encoded anew: cache marks move over them."""


class _Beginning:
    """The first messages of a conversation and their bytes. `key` is what else they depend on."""

    __slots__ = ("encoded", "key", "messages")

    def __init__(self, key: str) -> None:
        self.key = key
        self.messages: list[Message] = []
        self.encoded = bytearray()

    def begins(self, history: Sequence[Message], key: str) -> bool:
        count = len(self.messages)
        return (
            count < len(history)
            and self.key == key
            and self.messages[-1] is history[count - 1]
            and all(map(operator.is_, self.messages, history))
        )


class SettledHistories:
    """`encode` turns messages into their bytes, joined by commas; with `first`, they open the conversation.
    `is_sent` says whether a reply has anything that goes back."""

    def __init__(
        self,
        encode: Callable[[Sequence[Message], bool, str], bytes],
        is_sent: Callable[[AssistantMessage], bool],
    ) -> None:
        self._encode = encode
        self._is_sent = is_sent
        self._beginnings: list[_Beginning] = []

    def split(self, history: Sequence[Message], key: str = "") -> tuple[bytes | bytearray, Sequence[Message]]:
        """The bytes of what settled, and the messages that follow it. The bytes are the cache itself: read
        them before the next request is made, and don't keep them."""
        found = max(
            (one for one in self._beginnings if one.begins(history, key)),
            key=lambda one: len(one.messages),
            default=None,
        )
        start = len(found.messages) if found is not None else 0
        cuts = self._cuts(history[start:], is_first=start == 0)
        if found is not None and (len(cuts) <= OPEN_EXCHANGES or cuts[0] != 0):
            found, start = None, 0  # what settled has become the end: it was cut back
            cuts = self._cuts(history, is_first=True)
        if len(cuts) <= OPEN_EXCHANGES:
            return b"", history
        end = start + cuts[-OPEN_EXCHANGES - 1]
        found = self._grown(found or _Beginning(key), history[start:end])
        return found.encoded, history[end:]

    def _grown(self, found: _Beginning, more: Sequence[Message]) -> _Beginning:
        if more:
            encoded = self._encode(more, not found.messages, found.key)
            if found.encoded and encoded:
                found.encoded += b","
            found.encoded += encoded
            found.messages += more
        others = [one for one in self._beginnings if one is not found]
        self._beginnings = [found, *others[: KEPT - 1]]
        return found

    def _cuts(self, messages: Sequence[Message], *, is_first: bool) -> list[int]:
        """Return the places where the messages before and after are encoded independently: before a reply
        that follows a user message or a result, while no call waits for its result."""
        found: list[int] = []
        waiting: set[str] = set()
        may_cut = not is_first
        for at, message in enumerate(messages):
            match message:
                case UserMessage():
                    may_cut = True
                case ToolMessage():
                    if message.call_id in waiting:
                        waiting.discard(message.call_id)
                        may_cut = True
                case AssistantMessage():
                    if not self._is_sent(message):
                        continue
                    if may_cut and not waiting:
                        found.append(at)
                    may_cut = False
                    if message.finish != "cut":
                        waiting.update(call.id for call in calls_of(message))
        return found
