"""Differences between servers and models, as rows of data. A quirk is a row here and a golden request; no
code checks for a vendor's name.

Every row whose host and model match applies, later rows over earlier ones. A host pattern matches the end of
the host name ("" matches all, "local" this machine and private addresses); a model pattern is a regular
expression searched in the model's name.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeVar

import msgspec


class ChatQuirks(msgspec.Struct, frozen=True):
    """Requirements of an OpenAI-compatible server. The defaults are OpenAI's own protocol as most servers
    understand it.

    - `max_tokens_field`: what the limit is called.
    - `stream_options`: whether usage may be asked for.
    - `tool_ids`: "any", or "alnum9" where an id has to be nine letters and digits.
    - `empty_content`: what stands for the text of a reply that only calls tools.
    - `system_as`: the role of the system prompt; "user" puts it into the first message.
    - `merge`: neighbouring messages of one role become one (templates that insist on alternation).
    - `bridge`: a word of the assistant between a tool result and a user message.
    - `parallel_calls`: False asks for one call at a time.
    - `effort`: which field carries the effort level.
    - `reasoning_back`: the field in which the model wants its reasoning returned, "" where it does not.
    - `cache_marks`: whether prompt-cache marks are understood (Anthropic models behind a router).
    - `extra`: fields added to every request.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_options: bool = True
    tool_ids: Literal["any", "alnum9"] = "any"
    empty_content: str | None = None
    system_as: Literal["system", "user"] = "system"
    merge: bool = False
    bridge: bool = False
    parallel_calls: bool = True
    effort: Literal["reasoning_effort", "reasoning", "thinking", "none"] = "reasoning_effort"
    reasoning_back: Literal["", "reasoning_content", "reasoning"] = ""
    cache_marks: bool = False
    extra: dict[str, Any] = {}


class AnthropicQuirks(msgspec.Struct, frozen=True):
    """Requirements of an Anthropic-compatible server.

    - `effort`: "budget" (thinking tokens), "adaptive" (the model decides, effort beside it), or "none".
    - `cache_marks`: whether cache marks are understood.
    - `auth`: the header that carries the key.
    - `headers`: further headers.
    """

    effort: Literal["budget", "adaptive", "none"] = "budget"
    cache_marks: bool = True
    auth: Literal["x-api-key", "authorization"] = "x-api-key"
    headers: dict[str, str] = {}


class PictureQuirks(msgspec.Struct, frozen=True):
    """Requirements of an OpenAI-compatible image API. The defaults are what most servers understand.

    - `response_format`: whether pictures have to be asked for as base64 ("b64_json"); else addresses come.
    - `output_format`: whether the kind of picture (png, jpeg, webp) can be chosen.
    """

    response_format: bool = True
    output_format: bool = False


Quirks = TypeVar("Quirks", ChatQuirks, AnthropicQuirks, PictureQuirks)


class Row(msgspec.Struct, frozen=True):
    """One quirk: the host and model it applies to, the changed fields, and the reason."""

    host: str
    model: str
    fields: dict[str, Any]
    why: str


CHAT: tuple[Row, ...] = (
    Row(
        "local",
        "",
        {"empty_content": "", "merge": True},
        "chat templates of local models insist on strings and on alternating roles",
    ),
    Row(
        "api.openai.com",
        "",
        {"max_tokens_field": "max_completion_tokens"},
        "max_tokens is refused by reasoning models and deprecated for the others",
    ),
    Row("openai.azure.com", "", {"max_tokens_field": "max_completion_tokens"}, "as OpenAI"),
    Row(
        "api.mistral.ai",
        "",
        {
            "stream_options": False,
            "tool_ids": "alnum9",
            "empty_content": "",
            "bridge": True,
            "effort": "none",
        },
        "422 for fields it does not know and for other ids; usage always comes; no user after a tool result",
    ),
    Row(
        "api.deepseek.com",
        "",
        {"empty_content": "", "effort": "none"},
        "content has to be a string; thinking is chosen by the model's name",
    ),
    Row(
        "",
        r"deepseek-(?:reasoner|v3\.[2-9]|v[4-9])|kimi-k2.*thinking|kimi-k[3-9]|glm-(?:4\.[6-9]|[5-9])|mimo-v2",
        {"reasoning_back": "reasoning_content"},
        "refused, or worse at tools, when the reasoning of a tool call is missing",
    ),
    Row("api.z.ai", "", {"effort": "thinking"}, "thinking is switched on, not graded"),
    Row("bigmodel.cn", "", {"effort": "thinking"}, "as api.z.ai"),
    Row("moonshot.ai", "", {"effort": "none"}, "thinking is chosen by the model's name"),
    Row("moonshot.cn", "", {"effort": "none"}, "as moonshot.ai"),
    Row("openrouter.ai", "", {"effort": "reasoning", "reasoning_back": ""}, "one field for every vendor"),
    Row("openrouter.ai", r"^anthropic/", {"cache_marks": True}, "Anthropic caches only what is marked"),
    Row("api.perplexity.ai", "", {"merge": True}, "roles have to alternate"),
    Row("api.cerebras.ai", r"llama", {"parallel_calls": False}, "several calls at once fail there"),
    Row(
        "",
        r"(?:^|/)(?:o1-mini|o1-preview|gemma-?2)\b",
        {"system_as": "user"},
        "their templates know no system role",
    ),
)

ANTHROPIC: tuple[Row, ...] = (
    Row(
        "",
        r"claude-(?:opus|sonnet|haiku)-(?:4-[6-9]|[5-9])|claude-(?:fable|mythos)",
        {"effort": "adaptive"},
        "a thinking budget is deprecated there; the effort stands in output_config",
    ),
    Row(
        "",
        r"claude-(?:opus|sonnet|haiku)-4(?:-[0-5]\b|-2025|$)",
        {"headers": {"anthropic-beta": "interleaved-thinking-2025-05-14"}},
        "thinking between tool calls has to be asked for",
    ),
    Row("moonshot.ai", "", {"effort": "none", "auth": "authorization"}, "compatible, without budgets"),
    Row("api.z.ai", "", {"effort": "none"}, "compatible, without budgets"),
    Row("api.deepseek.com", "", {"effort": "none"}, "compatible, without budgets"),
)

PICTURES: tuple[Row, ...] = (
    Row(
        "",
        r"gpt-image|chatgpt-image",
        {"response_format": False, "output_format": True},
        "it always sends base64 and refuses to be asked for it",
    ),
)


def picture_quirks(host: str, model: str) -> PictureQuirks:
    """Return the quirks of this server's image API for this model."""
    return _apply(PictureQuirks(), PICTURES, host, model)


def chat_quirks(host: str, model: str) -> ChatQuirks:
    """Return the quirks of this server for this model."""
    return _apply(ChatQuirks(), CHAT, host, model)


def anthropic_quirks(host: str, model: str) -> AnthropicQuirks:
    """Return the quirks of a model in the Anthropic format."""
    return _apply(AnthropicQuirks(), ANTHROPIC, host, model)


def is_local(host: str) -> bool:
    """Tell whether a host name is this machine or a private address."""
    if host in ("localhost", "::1", "host.docker.internal") or host.endswith(
        (".local", ".localhost", ".lan")
    ):
        return True
    return re.fullmatch(r"(?:127|10|192\.168|172\.(?:1[6-9]|2\d|3[01]))[.\d]+", host) is not None


def _apply(quirks: Quirks, rows: tuple[Row, ...], host: str, model: str) -> Quirks:
    for row in rows:
        if _host_matches(row.host, host) and re.search(row.model, model, re.IGNORECASE):
            quirks = msgspec.structs.replace(quirks, **row.fields)
    return quirks


def _host_matches(pattern: str, host: str) -> bool:
    if pattern == "local":
        return is_local(host)
    return not pattern or host == pattern or host.endswith("." + pattern)
