"""Messages of a conversation, from people, models and tools. Frozen and serialisable.

A history is a sequence of `Message`. Nothing here knows a provider's wire format; fields a provider wants
back untouched (signatures, encrypted reasoning, unknown keys) travel in `opaque` and are never looked into.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Opaque = dict[str, Any]
"""A JSON object of a provider that is sent back unchanged; `{}` when there is none."""

Origin = Literal["prompt", "steer", "follow_up", "note", "instructions", "summary"]
Finish = Literal["stop", "calls", "length", "filter", "cut"]
"""Why a reply ended. `cut`: the stream broke or was interrupted; its calls are never run."""

ResultStatus = Literal["ok", "error", "denied", "cancelled", "skipped"]


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    """Plain text (Markdown when a model wrote it)."""

    text: str
    opaque: Opaque = {}


class Image(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    """A picture, base64 encoded."""

    media_type: str
    data: str


class Attachment(msgspec.Struct, frozen=True, tag="attachment", tag_field="type"):
    """A note or a file that travels with a prompt: the model reads `text`, the person sees `title`."""

    title: str
    text: str


class Thinking(msgspec.Struct, frozen=True, tag="thinking", tag_field="type"):
    """Reasoning of the model, with the signature its provider wants back ("" when there is none)."""

    text: str
    signature: str
    opaque: Opaque = {}


class Call(msgspec.Struct, frozen=True, tag="call", tag_field="type"):
    """A tool call. `arguments` is the JSON text exactly as the model wrote it ("{}" when it wrote
    nothing)."""

    id: str
    name: str
    arguments: str
    opaque: Opaque = {}


class ServerItem(msgspec.Struct, frozen=True, tag="server", tag_field="type"):
    """A step the provider ran on its side (a web search, say): kept and sent back, never run here."""

    data: Opaque


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one reply. `input_tokens` counts everything sent, cached parts included; `output_tokens`
    everything generated, reasoning included. `estimated`: the provider did not say. `cost_usd`: what the
    provider bills for it, None where it does not say."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    estimated: bool
    cost_usd: float | None = None


NO_USAGE = Usage(0, 0, 0, 0, 0, estimated=True)

UserPart = Text | Attachment | Image
AssistantPart = Text | Thinking | Call | ServerItem


class UserMessage(msgspec.Struct, frozen=True, tag="user", tag_field="role"):
    """A message of the person, or of buddy on the person's behalf (`origin` tells which)."""

    id: str
    parts: tuple[UserPart, ...]
    origin: Origin


class AssistantMessage(msgspec.Struct, frozen=True, tag="assistant", tag_field="role"):
    """One reply of a model. `lane` names the wire format its opaque fields belong to ("chat", "anthropic"
    …)."""

    id: str
    parts: tuple[AssistantPart, ...]
    model: str
    lane: str
    finish: Finish
    usage: Usage
    opaque: Opaque = {}


class ToolMessage(msgspec.Struct, frozen=True, tag="tool", tag_field="role"):
    """The result of a call."""

    id: str
    call_id: str
    name: str
    text: str
    status: ResultStatus
    images: tuple[Image, ...] = ()


Message = UserMessage | AssistantMessage | ToolMessage

CANCELLED_TEXT = "operation cancelled by user"
SKIPPED_TEXT = "skipped: the user sent new instructions"
INTERRUPTED_TEXT = "interrupted; it may have run"
NOT_RUN_TEXT = "not run"


def text_of(message: Message) -> str:
    """Return the text of a message with its attachments, without thinking, calls and pictures."""
    match message:
        case ToolMessage():
            return message.text
        case UserMessage() | AssistantMessage():
            return "".join(part.text for part in message.parts if isinstance(part, Text | Attachment))


def typed_text(message: UserMessage) -> str:
    """Return the text a person typed, without attachments."""
    return "".join(part.text for part in message.parts if isinstance(part, Text))


def thinking_of(message: AssistantMessage) -> str:
    """Return the readable reasoning of a reply."""
    return "".join(part.text for part in message.parts if isinstance(part, Thinking))


def calls_of(message: Message) -> tuple[Call, ...]:
    """Return the tool calls of a message, in the model's order; empty for anything but a reply."""
    if not isinstance(message, AssistantMessage):
        return ()
    return tuple(part for part in message.parts if isinstance(part, Call))


def unanswered_calls(history: Iterable[Message]) -> tuple[Call, ...]:
    """Return the calls of the last reply that have no result yet, in order; none of a cut reply."""
    waiting: dict[str, Call] = {}
    for message in history:
        match message:
            case AssistantMessage():
                waiting = {} if message.finish == "cut" else {call.id: call for call in calls_of(message)}
            case ToolMessage():
                waiting.pop(message.call_id, None)
            case UserMessage():
                pass
    return tuple(waiting.values())
