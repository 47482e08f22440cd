"""Encoded messages and beginnings of conversations: a request repeats what it already sent byte for byte."""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Sequence

from buddy.agent.json_codec import dumps, loads
from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import (
    AssistantMessage,
    Call,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    calls_of,
)

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
        """Return the bytes of what settled, and the messages that follow it. The bytes are the cache itself:
        read them before the next request is made, and don't keep them."""
        found = max(
            (beginning for beginning in self._beginnings if beginning.begins(history, key)),
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
        found = self._grow(found or _Beginning(key), history[start:end])
        return found.encoded, history[end:]

    def _grow(self, found: _Beginning, more: Sequence[Message]) -> _Beginning:
        if more:
            encoded = self._encode(more, not found.messages, found.key)
            if found.encoded and encoded:
                found.encoded += b","
            found.encoded += encoded
            found.messages += more
        others = [beginning for beginning in self._beginnings if beginning is not found]
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


NO_OUTPUT = "(no output)"
NOTHING_SAID = "(empty)"
"""What stands where a format refuses empty text."""

WIRE_ID = pattern(r"[A-Za-z0-9_-]{1,64}")
ALNUM9 = pattern(r"[A-Za-z0-9]{9}")


class EncodedMessages:
    """Bytes of messages, each encoded once. Forgets what no recent history holds."""

    def __init__(self, encode: Callable[[Message], bytes]) -> None:
        self._encode = encode
        self._known: dict[str, tuple[Message, bytes]] = {}

    def bytes_of(self, message: Message) -> bytes:
        """Return the message as JSON."""
        known = self._known.get(message.id)
        if known is not None and known[0] is message:
            return known[1]
        encoded = self._encode(message)
        self._known[message.id] = (message, encoded)
        return encoded

    def forget_others(self, history: Sequence[Message]) -> None:
        """Drop what this history does not hold, once that is most of what is kept. Histories of other tasks
        are encoded again at their next turn."""
        if len(self._known) > 2 * len(history) + 1_000:
            kept = {message.id for message in history}
            self._known = {key: value for key, value in self._known.items() if key in kept}


def sendable(history: Sequence[Message]) -> list[Message]:
    """Return the history without what no server takes: calls of cut replies, results without their call,
    replies with nothing in them. Cut replies keep their text."""
    known: set[str] = set()
    out: list[Message] = []
    for message in history:
        match message:
            case UserMessage():
                out.append(message)
            case AssistantMessage():
                if message.finish != "cut":
                    known.update(call.id for call in calls_of(message))
                if says_something(message):
                    out.append(message)
            case ToolMessage():
                if message.call_id in known:
                    known.discard(message.call_id)
                    out.append(message)
    return out


def says_something(message: AssistantMessage) -> bool:
    """Tell whether any part of a reply can be sent back."""
    for part in message.parts:
        match part:
            case Text():
                if part.text.strip():
                    return True
            case Call() | ServerItem():
                if message.finish != "cut":
                    return True
            case Thinking():
                pass
    return False


def is_at_home(message: AssistantMessage, lane: str, model: str) -> bool:
    """Tell whether a reply's opaque fields and signatures are valid for this model: same wire format, same
    family."""
    return message.lane == lane and family(message.model) == family(model)


def family(model: str) -> str:
    """Route and family name: "anthropic/claude-opus-5" → "anthropic/claude", "gpt-5.2" → "gpt"."""
    route, slash, name = model.lower().rpartition("/")
    found = re.match(r"[a-z]+", name)
    return route + slash + (found[0] if found else name)


def wire_arguments(text: str) -> str:
    """Return a call's arguments as every server takes them: unchanged when they are a JSON object, else the
    text inside one (strict servers refuse a history that holds anything else)."""
    try:
        is_object = isinstance(loads(text.encode("utf-8", "surrogatepass")), dict)
    except ValueError:
        is_object = False
    return text if is_object else dumps({"malformed_arguments": text}).decode()


def wire_id(call_id: str) -> str:
    """Return a call's id as every server takes it: unchanged when it is made of letters, digits, `_` and
    `-`."""
    if WIRE_ID().fullmatch(call_id):
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def alnum9(call_id: str) -> str:
    """Nine letters and digits, the same for the same id."""
    if ALNUM9().fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]
