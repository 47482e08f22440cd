"""OpenAI chat completions: a reply as `chat.completion.chunk` events, or as one object."""

from __future__ import annotations

from typing import Any

from tests.fake_llm.frames import (
    Frame,
    Subject,
    arguments_text,
    call_id,
    calls_in,
    dumps,
    pieces,
    text_in,
    thinking_in,
)
from tests.fake_llm.script import Reply, Text, Think, Tokens, ToolCall


def frames(reply: Reply, subject: Subject) -> list[Frame]:
    """The stream."""
    out = [_chunk("head", subject, {"role": "assistant", "content": ""})]
    position = 0
    for part in reply.parts:
        match part:
            case Text():
                out += [
                    _chunk("content", subject, {"content": piece}) for piece in pieces(part.text, reply.chars)
                ]
            case Think():
                out += [
                    _chunk("content", subject, {"reasoning_content": piece})
                    for piece in pieces(part.text, reply.chars)
                ]
            case ToolCall():
                out += _call(part, reply, subject, position)
                position += 1
    out.append(_chunk("tail", subject, {}, finish=_finish(reply)))
    if reply.usage and subject.wants_usage:
        out.append(_event("tail", {**_envelope(subject), "choices": [], "usage": usage(reply.usage)}))
    return [*out, Frame("tail", b"data: [DONE]\n\n")]


def whole(reply: Reply, subject: Subject) -> dict[str, Any]:
    """The answer to a request that does not stream."""
    message: dict[str, Any] = {"role": "assistant", "content": text_in(reply) or None}
    if thinking_in(reply):
        message["reasoning_content"] = thinking_in(reply)
    if calls_in(reply):
        message["tool_calls"] = [
            {
                "id": call_id(call, subject, position),
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_text(call)},
            }
            for position, call in enumerate(calls_in(reply))
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    body = {**_envelope(subject), "object": "chat.completion", "choices": [choice]}
    return {**body, "usage": usage(reply.usage)} if reply.usage else body


def error_frame(message: str, kind: str) -> Frame:
    """An error inside a 200 answer."""
    return _event("content", {"error": {"message": message, "type": kind, "code": None, "param": None}})


def usage(tokens: Tokens) -> dict[str, Any]:
    """Token counts in OpenAI's words."""
    bill = {} if tokens.cost is None else {"cost": tokens.cost}
    return {
        **bill,
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def _call(part: ToolCall, reply: Reply, subject: Subject, position: int) -> list[Frame]:
    index = position if reply.call_index is None else reply.call_index
    function = {"name": part.name, "arguments": ""}
    start: dict[str, Any] = {
        "index": index,
        "id": call_id(part, subject, position),
        "type": "function",
        "function": function,
    }
    if part.signature:
        start["extra_content"] = {"google": {"thought_signature": part.signature}}
    rest = [
        {"index": index, "function": {"arguments": piece}}
        for piece in pieces(arguments_text(part), reply.chars)
    ]
    return [_chunk("content", subject, {"tool_calls": [call]}) for call in [start, *rest]]


def _finish(reply: Reply) -> str:
    return reply.finish or ("tool_calls" if calls_in(reply) else "stop")


def _envelope(subject: Subject) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{subject.number}",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": subject.model,
    }


def _chunk(kind: Any, subject: Subject, delta: dict[str, Any], finish: str | None = None) -> Frame:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event(kind, {**_envelope(subject), "choices": [choice]})


def _event(kind: Any, data: dict[str, Any]) -> Frame:
    return Frame(kind, f"data: {dumps(data)}\n\n".encode())
