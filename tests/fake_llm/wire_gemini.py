"""Gemini `streamGenerateContent?alt=sse`: a reply as partial candidates, or as one object."""

from __future__ import annotations

from typing import Any

from tests.fake_llm.asked import decode
from tests.fake_llm.frames import Frame, Subject, arguments_text, dumps, pieces
from tests.fake_llm.script import Part, Reply, Text, Think, Tokens, ToolCall


def frames(reply: Reply, subject: Subject) -> list[Frame]:
    """The stream. The finish reason and the usage stand in the last candidate."""
    out = [
        _event("content", _body(subject, [wire], None))
        for part in reply.parts
        for wire in _parts(part, reply.chars)
    ]
    last = _body(subject, [{"text": ""}], _finish(reply))
    if reply.usage:
        last["usageMetadata"] = _usage(reply.usage)
    return [*out, _event("tail", last)]


def whole(reply: Reply, subject: Subject) -> dict[str, Any]:
    """The answer of `generateContent`."""
    parts = [wire for part in reply.parts for wire in _parts(part, 10**9)]
    body = _body(subject, parts, _finish(reply))
    return {**body, "usageMetadata": _usage(reply.usage)} if reply.usage else body


def error_frame(message: str, kind: str) -> Frame:
    """An error object inside a 200 answer."""
    return _event("content", {"error": {"code": 500, "message": message, "status": kind.upper()}})


def _parts(part: Part, chars: int) -> list[dict[str, Any]]:
    match part:
        case Text():
            return [{"text": piece} for piece in pieces(part.text, chars)]
        case Think():
            thoughts: list[dict[str, Any]] = [
                {"text": piece, "thought": True} for piece in pieces(part.text, chars)
            ]
            if part.signature:
                thoughts.append({"text": "", "thoughtSignature": part.signature})
            return thoughts
        case ToolCall():
            arguments = decode(arguments_text(part).encode())
            if not isinstance(arguments, dict):
                return []
            wire: dict[str, Any] = {"functionCall": {"name": part.name, "args": arguments}}
            if part.id:
                wire["functionCall"]["id"] = part.id
            return [{**wire, "thoughtSignature": part.signature} if part.signature else wire]


def _finish(reply: Reply) -> str:
    broken = any(
        isinstance(part, ToolCall) and not isinstance(decode(arguments_text(part).encode()), dict)
        for part in reply.parts
    )
    return reply.finish or ("MALFORMED_FUNCTION_CALL" if broken else "STOP")


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "promptTokenCount": tokens.input,
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "thoughtsTokenCount": tokens.reasoning,
        "cachedContentTokenCount": tokens.cache_read,
        "totalTokenCount": tokens.input + tokens.output,
    }


def _body(subject: Subject, parts: list[dict[str, Any]], finish: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": subject.model, "responseId": f"resp-{subject.number}"}


def _event(kind: Any, data: dict[str, Any]) -> Frame:
    return Frame(kind, f"data: {dumps(data)}\n\n".encode())
