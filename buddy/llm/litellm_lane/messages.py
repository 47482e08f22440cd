"""Our history as litellm's messages: chat completions with litellm's extra fields, so that signatures,
encrypted reasoning and unknown fields return to the provider that made them. Pure.

litellm keeps three things in its own places: Anthropic's signed thinking in `thinking_blocks`, the responses
API's reasoning in `reasoning_items`, Gemini's thought signatures in `provider_specific_fields` of the message
and of each call. Whatever it gave us is sent back from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from buddy.agent.messages import (
    AssistantMessage,
    Call,
    Image,
    Message,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    UserPart,
    thinking_of,
)
from buddy.agent.provider import ModelRequest, ToolDefinition
from buddy.llm.direct.openai import PICTURES_FOLLOW, picture_part

LANE = "litellm"
EPHEMERAL = {"cache_control": {"type": "ephemeral"}}

Wire = dict[str, Any]


def messages(request: ModelRequest, *, cache: bool) -> list[Wire]:
    """Return the messages of a request. `cache`: mark what Anthropic models should cache."""
    out: list[Wire] = []
    if request.system:
        out.append({"role": "system", "content": _system(request.system, cache=cache)})
    out += _conversation(request.history)
    if cache:
        _mark_last(out)
    return out


def tools(definitions: Sequence[ToolDefinition]) -> list[Wire]:
    """Tool definitions in the chat format."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in definitions
    ]


def _system(text: str, *, cache: bool) -> str | list[Wire]:
    return [{"type": "text", "text": text, **EPHEMERAL}] if cache else text


def _conversation(history: Sequence[Message]) -> list[Wire]:
    out: list[Wire] = []
    pictures: list[Image] = []
    for message in history:
        if not isinstance(message, ToolMessage) and pictures:
            out.append(_pictures(pictures))
            pictures = []
        match message:
            case UserMessage():
                out.append({"role": "user", "content": _user_content(message.parts)})
            case AssistantMessage():
                out += _assistant(message)
            case ToolMessage():
                out.append(_tool(message))
                pictures += message.images
    return [*out, _pictures(pictures)] if pictures else out


def _user_content(parts: Sequence[UserPart]) -> str | list[Wire]:
    texts = [part.text for part in parts if not isinstance(part, Image)]
    if len(texts) == len(parts):
        return "".join(texts)
    return [
        picture_part(part) if isinstance(part, Image) else {"type": "text", "text": part.text}
        for part in parts
    ]


def _pictures(images: Sequence[Image]) -> Wire:
    """Return pictures of tool results as a user message: few providers accept them inside a result."""
    return {
        "role": "user",
        "content": [{"type": "text", "text": PICTURES_FOLLOW}, *map(picture_part, images)],
    }


def _tool(message: ToolMessage) -> Wire:
    return {"role": "tool", "tool_call_id": message.call_id, "name": message.name, "content": message.text}


def _assistant(message: AssistantMessage) -> list[Wire]:
    """Return a reply; nothing when it has neither text nor calls (providers refuse an empty message)."""
    own = message.lane == LANE
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    calls = [_call(part, own=own) for part in message.parts if isinstance(part, Call)]
    if message.finish == "cut":
        calls = []
    if not text and not calls:
        return []
    wire: Wire = {"role": "assistant", "content": text or None}
    if calls:
        wire["tool_calls"] = calls
    if own and message.finish != "cut":
        blocks = [block for part in message.parts if isinstance(part, Thinking) for block in _thinking(part)]
        if blocks:
            wire["thinking_blocks"] = blocks
        elif calls and not message.opaque and (reasoning := thinking_of(message)):
            # DeepSeek, Moonshot and others refuse a tool round whose reasoning is missing.
            wire["reasoning_content"] = reasoning
        wire.update(message.opaque)
    return [wire]


def _thinking(part: Thinking) -> list[Wire]:
    """Return Anthropic's signed and redacted blocks; unsigned reasoning is never sent back."""
    if part.opaque.get("type") == "redacted_thinking":
        return [dict(part.opaque)]
    if part.signature:
        return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]
    return []


def _call(call: Call, *, own: bool) -> Wire:
    wire: Wire = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    return {**wire, **call.opaque} if own else wire


def _mark_last(out: list[Wire]) -> None:
    """Mark the end of the history as cacheable: the next request repeats everything up to here."""
    last = out[-1] if out else {}
    if last.get("role") in {"user", "tool"} and isinstance(last["content"], str):
        last["content"] = [{"type": "text", "text": last["content"], **EPHEMERAL}]
