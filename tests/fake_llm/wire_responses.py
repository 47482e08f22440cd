"""OpenAI responses: a reply as output items with their events, or as one object."""

from __future__ import annotations

from typing import Any

from tests.fake_llm.frames import Frame, Subject, arguments_text, call_id, dumps, pieces
from tests.fake_llm.script import Part, Reply, Text, Think, Tokens, ToolCall


def frames(reply: Reply, subject: Subject) -> list[Frame]:
    """The stream: created, one item after the other, completed (or incomplete)."""
    started = _response(reply, subject, status="in_progress", output=[])
    events: list[tuple[Any, dict[str, Any]]] = [
        ("head", {"type": "response.created", "response": started}),
        ("head", {"type": "response.in_progress", "response": started}),
    ]
    for index, part in enumerate(reply.parts):
        item = _item(part, subject, index)
        opening = {**item, "status": "in_progress", **_emptied(part)}
        events.append(
            ("content", {"type": "response.output_item.added", "output_index": index, "item": opening})
        )
        events += [("content", event) for event in _deltas(part, reply, item, index)]
        events.append(("content", {"type": "response.output_item.done", "output_index": index, "item": item}))
    final = whole(reply, subject)
    events.append(("tail", {"type": f"response.{final['status']}", "response": final}))
    return [
        Frame(
            kind, f"event: {event['type']}\ndata: {dumps({**event, 'sequence_number': number})}\n\n".encode()
        )
        for number, (kind, event) in enumerate(events)
    ]


def whole(reply: Reply, subject: Subject) -> dict[str, Any]:
    """The response object with all its items."""
    output = [_item(part, subject, index) for index, part in enumerate(reply.parts)]
    return _response(reply, subject, status=_status(reply), output=output)


def error_frame(message: str, kind: str) -> Frame:
    """An error event inside a 200 answer."""
    data = {"type": "error", "code": kind, "message": message, "param": None, "sequence_number": 99}
    return Frame("content", f"event: error\ndata: {dumps(data)}\n\n".encode())


def _status(reply: Reply) -> str:
    return "incomplete" if reply.finish in {"max_output_tokens", "content_filter", "length"} else "completed"


def _response(reply: Reply, subject: Subject, *, status: str, output: list[Any]) -> dict[str, Any]:
    incomplete = (
        {"reason": reply.finish.replace("length", "max_output_tokens")} if status == "incomplete" else None
    )
    return {
        "id": f"resp_{subject.number}",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "error": None,
        "incomplete_details": incomplete,
        "instructions": None,
        "model": subject.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "tool_choice": "auto",
        "tools": [],
        "temperature": 1.0,
        "top_p": 1.0,
        "metadata": {},
        "usage": _usage(reply.usage) if reply.usage and status != "in_progress" else None,
    }


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cache_read},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }


def _item(part: Part, subject: Subject, index: int) -> dict[str, Any]:
    match part:
        case Text():
            content = {"type": "output_text", "text": part.text, "annotations": []}
            return {
                "id": f"msg_{subject.number}_{index}",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [content],
            }
        case Think():
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            item = {"id": f"rs_{subject.number}_{index}", "type": "reasoning", "summary": summary}
            return {**item, "encrypted_content": part.signature} if part.signature else item
        case ToolCall():
            return {
                "id": f"fc_{subject.number}_{index}",
                "type": "function_call",
                "status": "completed",
                "call_id": call_id(part, subject, index),
                "name": part.name,
                "arguments": arguments_text(part),
            }


def _emptied(part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return {"content": []}
        case Think():
            return {"summary": []}
        case ToolCall():
            return {"arguments": ""}


def _deltas(part: Part, reply: Reply, item: dict[str, Any], index: int) -> list[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": index}
    match part:
        case Text():
            return _text_events(part.text, reply.chars, {**place, "content_index": 0})
        case Think():
            return _summary_events(part.text, reply.chars, {**place, "summary_index": 0}) if part.text else []
        case ToolCall():
            text = arguments_text(part)
            kind = "response.function_call_arguments"
            deltas = [
                {"type": f"{kind}.delta", **place, "delta": piece} for piece in pieces(text, reply.chars)
            ]
            return [*deltas, {"type": f"{kind}.done", **place, "arguments": text}]


def _text_events(text: str, chars: int, place: dict[str, Any]) -> list[dict[str, Any]]:
    part = {"type": "output_text", "text": "", "annotations": []}
    kind = "response.output_text"
    return [
        {"type": "response.content_part.added", **place, "part": part},
        *(
            {"type": f"{kind}.delta", **place, "delta": piece, "logprobs": []}
            for piece in pieces(text, chars)
        ),
        {"type": f"{kind}.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": {**part, "text": text}},
    ]


def _summary_events(text: str, chars: int, place: dict[str, Any]) -> list[dict[str, Any]]:
    kind = "response.reasoning_summary"
    part = {"type": "summary_text", "text": ""}
    return [
        {"type": f"{kind}_part.added", **place, "part": part},
        *({"type": f"{kind}_text.delta", **place, "delta": piece} for piece in pieces(text, chars)),
        {"type": f"{kind}_text.done", **place, "text": text},
        {"type": f"{kind}_part.done", **place, "part": {**part, "text": text}},
    ]
