"""Adapter for the recorded provider streams and error answers: what the direct lanes make of real bytes.

    cd tests/bench && PYTHONPATH=../.. python ../../../shared/recorded/run_streams.py --adapter
    recorded_streams

Streams of other APIs (responses, Gemini) go through another lane and are not parsed here: `parse` raises for
them. `tests/integration/llm/test_recorded_streams.py` runs the chat and messages rows the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from buddy.agent.messages import calls_of, text_of, thinking_of
from buddy.agent.provider import Finished, ProviderError
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.llm.direct.anthropic_decoder import AnthropicDecoder
from buddy.llm.direct.openai_decoder import ChatDecoder
from buddy.llm.direct.response_reader import Pieces, ReplyReader
from buddy.llm.errors import classify as classify_error

FINISH = {
    "stop": "stop",
    "calls": "tool_calls",
    "length": "length",
    "filter": "content_filter",
    "unstated": None,
}


def parse(provider: str, api: str, chunks: Iterable[bytes]) -> dict[str, Any]:
    """One stream, as the runner wants it reported."""
    decoders = {"chat": (ChatDecoder, "chat"), "messages": (AnthropicDecoder, "anthropic")}
    if api not in decoders:
        raise ValueError(f"{api} streams go through another lane")
    make, lane = decoders[api]
    decoder, errors, finish = make(provider), [], None
    reader = ReplyReader(decoder, provider)
    assembler = ReplyAssembler("reply", "model", lane)

    for pieces in replies(reader, chunks):
        for piece in pieces:
            if isinstance(piece, ProviderError):
                errors.append({"kind": piece.kind, "message": piece.message})
                break
            if isinstance(piece, Finished):
                finish = FINISH[piece.reason]
            assembler.feed(piece)
        if errors:
            break
    try:
        message = assembler.finish()
        finished = True
    except ProviderError:
        message = assembler.partial()
        finished = False
    usage = message.usage
    # The runner compares the provider's own count of the completion, from which xAI leaves reasoning out.
    output = usage.output_tokens - (usage.reasoning_tokens if provider == "xai" else 0)
    return {
        "text": text_of(message),
        "reasoning": thinking_of(message),
        "tool_calls": [{"name": c.name, "arguments": c.arguments} for c in calls_of(message) if finished],
        "finish_reason": finish if finished else None,
        "usage": None if usage.estimated else {"input": usage.input_tokens, "output": output},
        "errors": errors,
    }


def replies(reader: ReplyReader, chunks: Iterable[bytes]) -> Iterator[Pieces]:
    """Return what the reader produces for each chunk and for the end."""
    for chunk in chunks:
        yield reader.feed(chunk)
    yield reader.end()


def classify(
    provider: str, api: str, status: int | None, headers: Mapping[str, str] | None, body: object
) -> Any:
    """One error answer, as the runner wants it reported."""
    error = classify_error(status, headers or {}, body, provider)
    return {"class": error.kind, "retryable": error.retryable, "retry_after_s": error.retry_after_s}
