"""The pieces a reply consists of on the wire, before faults and fragmentation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from tests.fake_llm.script import Reply, Text, Think, ToolCall


@dataclass(frozen=True)
class Frame:
    """One event. `head` and `tail` frame the content: faults count and cut at `content` frames, and a clean
    end without finish leaves the tail away."""

    kind: Literal["head", "content", "tail"]
    data: bytes


@dataclass(frozen=True)
class Subject:
    """The parts of the request that a frame builder uses."""

    number: int
    model: str
    wants_usage: bool = True


def dumps(data: Any) -> str:
    """Compact JSON, with real characters rather than escapes (so that fragments split UTF-8)."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def pieces(text: str, chars: int) -> list[str]:
    """Deltas of `chars` characters."""
    return [text[start : start + chars] for start in range(0, len(text), chars)]


def arguments_text(call: ToolCall) -> str:
    """The arguments as the model writes them."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments))


def call_id(call: ToolCall, subject: Subject, position: int, prefix: str = "call") -> str:
    """The id of a call: the scripted one, or one that is unique and the same on every run."""
    return call.id or f"{prefix}_{subject.number}_{position}"


def calls_in(reply: Reply) -> list[ToolCall]:
    """The calls of a reply."""
    return [part for part in reply.parts if isinstance(part, ToolCall)]


def text_in(reply: Reply) -> str:
    """The answer text of a reply."""
    return "".join(part.text for part in reply.parts if isinstance(part, Text))


def thinking_in(reply: Reply) -> str:
    """The reasoning of a reply."""
    return "".join(part.text for part in reply.parts if isinstance(part, Think))
