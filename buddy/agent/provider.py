"""The provider protocol: the request, the deltas of a reply, and the errors.

A custom stream function is any object with `stream(request)`; it knows nothing of tasks, tools or screens.
`reply_assembler` turns the deltas into a reply.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol

import msgspec

from buddy.agent.messages import Message, Opaque, Usage

ErrorKind = Literal[
    "rate_limit",
    "overloaded",
    "server",
    "cut",
    "context_overflow",
    "auth",
    "quota",
    "not_found",
    "bad_request",
    "content_filter",
]
RETRYABLE: frozenset[ErrorKind] = frozenset({"rate_limit", "overloaded", "server", "cut"})
"""Kinds worth a retry, as long as nothing of the reply was shown."""


class ProviderError(Exception):
    """A request failed, or its reply broke off.

    `message` is one sentence for the person: what was expected, what came, what to do; free of keys and HTML.
    `retry_after_s` is what the provider asked for, None when it said nothing. `status` is the HTTP status, 0
    when there was none.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        status: int = 0,
        retry_after_s: float | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.status = status
        self.retry_after_s = retry_after_s
        self.retryable = kind in RETRYABLE if retryable is None else retryable


class ToolDefinition(msgspec.Struct, frozen=True):
    """The declaration of a tool that a model reads. `parameters` is a JSON schema with root `type:
    object`."""

    name: str
    description: str
    parameters: dict[str, Any]


class ModelRequest(msgspec.Struct, frozen=True):
    """One request. Sampling fields are None unless configured, and then are not sent."""

    model: str
    system: str
    history: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    effort: str | None = None


class TextPiece(msgspec.Struct, frozen=True):
    """More answer text. `block` separates text before and after other parts; 0 when a provider has no
    blocks."""

    text: str
    block: int = 0


class ThinkingPiece(msgspec.Struct, frozen=True):
    """More reasoning. A `signature` completes the block; `opaque` holds what must be sent back (redacted
    thinking, encrypted content). A piece with a signature whose text repeats the block replaces it."""

    text: str
    block: int = 0
    signature: str = ""
    opaque: Opaque = {}


class CallPiece(msgspec.Struct, frozen=True):
    """More of a tool call. `index` is the provider's slot, None when it gives none; `id` and `name` are ""
    when the piece does not carry them; `arguments` is a fragment of JSON text. `complete`: this piece holds
    the whole arguments and replaces fragments seen so far."""

    index: int | None
    id: str
    name: str
    arguments: str
    opaque: Opaque = {}
    complete: bool = False


class ServerPiece(msgspec.Struct, frozen=True):
    """A whole item the provider ran on its side."""

    data: Opaque


class UsagePiece(msgspec.Struct, frozen=True):
    """Token counts; the last non-empty one of a stream counts."""

    usage: Usage


class OpaquePiece(msgspec.Struct, frozen=True):
    """Fields of the whole message that must be sent back (a responses id, an item list)."""

    data: Opaque


class Alive(msgspec.Struct, frozen=True):
    """Bytes arrived that carry no content: keep-alive comments, pings, role headers."""


FinishReason = Literal["stop", "calls", "length", "filter"]
"""Why a provider ended a reply: it was done, it made calls, it ran out of tokens, it was filtered."""


class Finished(msgspec.Struct, frozen=True):
    """The provider ended the reply. `unstated`: it ended the stream properly (`[DONE]`) without a reason; the
    reply then counts as finished if its calls are whole."""

    reason: FinishReason | Literal["unstated"]


ModelDelta = TextPiece | ThinkingPiece | CallPiece | ServerPiece | UsagePiece | OpaquePiece | Alive | Finished


class Provider(Protocol):
    """A source of replies. `lane` names its wire format ("chat", "anthropic", "litellm", "scripted"): opaque
    fields of a message are sent back only on the lane they came from."""

    @property
    def lane(self) -> str:
        """Return the wire format's name."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Yield the reply in pieces. Raises `ProviderError`; a generator that ends without `Finished` was
        cut. Its consumer always closes it, and closing it closes the connection."""
        ...
