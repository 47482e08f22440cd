"""Shared code of the two direct formats: encoding each message once, and selecting the parts of a reply that
may be sent back.

Pure apart from the cache. A message is frozen, so its bytes are kept under its id; a turn encodes what is new
and joins the rest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

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
from buddy.agent.pattern import pattern
from buddy.llm.loose_json import dumps, loads

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
        """The message as JSON."""
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
    """The history without what no server takes: calls of cut replies, results without their call, replies
    with nothing in them. Cut replies keep their text."""
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
    """A call's arguments as every server takes them: unchanged when they are a JSON object, else the text
    inside one (strict servers refuse a history that holds anything else)."""
    try:
        is_object = isinstance(loads(text.encode("utf-8", "surrogatepass")), dict)
    except ValueError:
        is_object = False
    return text if is_object else dumps({"malformed_arguments": text}).decode()


def wire_id(call_id: str) -> str:
    """A call's id as every server takes it: unchanged when it is made of letters, digits, `_` and `-`."""
    if WIRE_ID().fullmatch(call_id):
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def alnum9(call_id: str) -> str:
    """Nine letters and digits, the same for the same id."""
    if ALNUM9().fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]
