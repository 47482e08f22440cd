"""Anthropic messages: a reply as content blocks with their deltas, or as one object."""

from __future__ import annotations

import json
from typing import Any

from tests.fake_llm.frames import Frame, Subject, arguments_text, call_id, calls_in, dumps, pieces
from tests.fake_llm.script import Part, Reply, Text, Think, Tokens, ToolCall


def frames(reply: Reply, subject: Subject) -> list[Frame]:
    """The stream."""
    start = {**_message(subject, []), "usage": {**_usage(reply.usage or Tokens(0, 0)), "output_tokens": 1}}
    out = [_event("head", "message_start", message=start), _event("head", "ping")]
    for index, part in enumerate(reply.parts):
        opening, deltas = _block(part, reply, subject, index)
        out.append(_event("content", "content_block_start", index=index, content_block=opening))
        out += [_event("content", "content_block_delta", index=index, delta=delta) for delta in deltas]
        out.append(_event("content", "content_block_stop", index=index))
    output = {"output_tokens": reply.usage.output} if reply.usage else {"output_tokens": 0}
    stop = {"stop_reason": _finish(reply), "stop_sequence": None}
    return [*out, _event("tail", "message_delta", delta=stop, usage=output), _event("tail", "message_stop")]


def whole(reply: Reply, subject: Subject) -> dict[str, Any]:
    """The answer to a request that does not stream."""
    blocks = [_whole_block(part, subject, index) for index, part in enumerate(reply.parts)]
    body = {**_message(subject, blocks), "stop_reason": _finish(reply)}
    return {**body, "usage": _usage(reply.usage or Tokens(0, 0))}


def error_frame(message: str, kind: str) -> Frame:
    """An error event inside a 200 answer."""
    return _event("content", "error", error={"type": kind, "message": message})


def _message(subject: Subject, content: list[Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{subject.number}",
        "type": "message",
        "role": "assistant",
        "model": subject.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(tokens: Tokens) -> dict[str, Any]:
    """Anthropic counts cached tokens beside, not inside, the input tokens."""
    return {
        "input_tokens": tokens.input - tokens.cache_read - tokens.cache_write,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "output_tokens": tokens.output,
    }


def _block(
    part: Part, reply: Reply, subject: Subject, index: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match part:
        case Text():
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(part.text, reply.chars)]
            return {"type": "text", "text": ""}, deltas
        case Think(redacted=""):
            deltas = [
                {"type": "thinking_delta", "thinking": piece} for piece in pieces(part.text, reply.chars)
            ]
            signature = [{"type": "signature_delta", "signature": part.signature}] if part.signature else []
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas + signature
        case Think():
            return {"type": "redacted_thinking", "data": part.redacted}, []
        case ToolCall():
            opening = {
                "type": "tool_use",
                "id": call_id(part, subject, index, "toolu"),
                "name": part.name,
                "input": {},
            }
            text = arguments_text(part)
            deltas = [
                {"type": "input_json_delta", "partial_json": piece} for piece in pieces(text, reply.chars)
            ]
            return opening, deltas


def _whole_block(part: Part, subject: Subject, index: int) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Think(redacted=""):
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case Think():
            return {"type": "redacted_thinking", "data": part.redacted}
        case ToolCall():
            identity = call_id(part, subject, index, "toolu")
            return {
                "type": "tool_use",
                "id": identity,
                "name": part.name,
                "input": json.loads(arguments_text(part)),
            }


def _finish(reply: Reply) -> str:
    return reply.finish or ("tool_use" if calls_in(reply) else "end_turn")


def _event(kind: Any, name: str, **fields: Any) -> Frame:
    return Frame(kind, f"event: {name}\ndata: {dumps({'type': name, **fields})}\n\n".encode())
