"""The replies of a fake model as records: replies made of parts, and the faults that may befall them on the
wire.

    reply("Hello")                                            one text, in deltas of 8 characters
    reply(think("hm", signature="sig"), "ok", call("read_file", path="a.py"))
    reply("partial answer", fault=Reset(after=3), times=1)    the first request breaks, later ones get it
    whole

Nothing here knows a wire format: `wires.py` turns a reply into the frames of each provider's protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Fragmentation = Literal["frames", "whole", "byte", "random"]
"""How the body is cut into HTTP chunks: one per frame, a single one, one per byte, seeded random pieces."""


@dataclass(frozen=True)
class Text:
    """Answer text."""

    text: str


@dataclass(frozen=True)
class Think:
    """Reasoning. `signature`: Anthropic's signature, the encrypted content of a responses reasoning item, or
    Gemini's thought signature on the part. `redacted`: Anthropic's redacted block (its data), text
    ignored."""

    text: str
    signature: str = ""
    redacted: str = ""


@dataclass(frozen=True)
class ToolCall:
    """A tool call. `arguments` is sent as it stands, so it may be broken JSON; `signature` is Gemini's
    thought signature."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str = ""
    signature: str = ""


Part = Text | Think | ToolCall


@dataclass(frozen=True)
class Tokens:
    """Usage as the provider states it: `input` includes the cached tokens, `output` the reasoning ones.
    `cost`: what it bills, None where it does not say."""

    input: int = 10
    output: int = 5
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: float | None = None


# --- faults -----------------------------------------------------------------------------------------------
# `after` counts content frames (text, thinking, argument deltas) already sent.


@dataclass(frozen=True)
class HttpError:
    """An HTTP error instead of a reply. `body` may be JSON data, text, or None for a plausible error
    object."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None


@dataclass(frozen=True)
class Reset:
    """The connection is reset (RST)."""

    after: int = 0


@dataclass(frozen=True)
class Cut:
    """The connection is closed in the middle of the chunked body: no closing chunk."""

    after: int = 0


@dataclass(frozen=True)
class CleanEnd:
    """The body ends properly, but the reply has no finish: what follows the content is left out."""

    after: int = 10**9


@dataclass(frozen=True)
class Stall:
    """Nothing more comes, the connection stays open until the client leaves or `seconds` are over."""

    after: int = 0
    seconds: float = 3600


@dataclass(frozen=True)
class Pings:
    """Keep-alive comments instead of content, every `every_s`, `count` of them, then the reply goes on."""

    after: int = 0
    every_s: float = 0.05
    count: int = 10**9


@dataclass(frozen=True)
class BadUtf8:
    """A frame with bytes that are not UTF-8 is slipped in."""

    after: int = 0


@dataclass(frozen=True)
class Garbage:
    """An event that is no JSON (or whatever `data` says) is slipped in."""

    after: int = 0
    data: str = '{"broken": '


@dataclass(frozen=True)
class ErrorEvent:
    """An error object inside the stream of a 200 answer; the stream ends there."""

    after: int = 0
    message: str = "The server had an error while processing your request"
    type: str = "server_error"


@dataclass(frozen=True)
class Html:
    """A captive portal: status 200 and a web page."""

    status: int = 200
    body: str = "<!doctype html><html><head><title>Sign in</title></head><body><h1>Welcome</h1></body></html>"


@dataclass(frozen=True)
class HugeLine:
    """A comment line of this many bytes is slipped in."""

    after: int = 0
    size: int = 2_000_000


@dataclass(frozen=True)
class Empty:
    """Status 200 and no body at all."""


Fault = (
    HttpError
    | Reset
    | Cut
    | CleanEnd
    | Stall
    | Pings
    | BadUtf8
    | Garbage
    | ErrorEvent
    | Html
    | HugeLine
    | Empty
)


@dataclass(frozen=True)
class Reply:
    """One answer. `chars`: characters per delta. `finish`: the provider's raw word, "" for the usual one.
    `usage` None: not stated. `times`: how often the fault strikes before the reply goes through (0: always);
    `repeated_ids`, `call_index`: oddities of some servers (every call at this index; None: as it should
    be)."""

    parts: tuple[Part, ...]
    chars: int = 8
    usage: Tokens | None = Tokens()
    finish: str = ""
    delay_s: float = 0
    first_s: float = 0
    fault: Fault | None = None
    times: int = 0
    fragmentation: Fragmentation = "frames"
    seed: int = 0
    call_index: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def think(text: str, *, signature: str = "", redacted: str = "") -> Think:
    """Reasoning, for `reply(...)`."""
    return Think(text, signature, redacted)


def call(
    name: str,
    /,
    arguments: Mapping[str, Any] | str | None = None,
    *,
    call_id: str = "",
    signature: str = "",
    **fields: Any,
) -> ToolCall:
    """A tool call, for `reply(...)`: arguments as keywords, as a mapping, or as raw (possibly broken)
    JSON."""
    return ToolCall(name, fields if arguments is None else arguments, call_id, signature)


def reply(*parts: Part | str, **options: Any) -> Reply:
    """A reply of these parts; strings are text. Options are the fields of `Reply`."""
    return Reply(tuple(Text(part) if isinstance(part, str) else part for part in parts), **options)


def failure(status: int, message: object = None, **headers: str) -> Reply:
    """An HTTP error answer; header names with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply((), fault=HttpError(status, named, message))


Chooser = Callable[[Any], Reply]
"""From the request (`asked.Asked`) to the reply."""

Replies = Sequence[Reply] | Chooser
Script = Replies | Mapping[str, Replies]
"""A list consumed in order; a function of the request; or several of these by name, picked by the last
`[[script:name]]` among the user's messages, one reply per assistant message after it."""
