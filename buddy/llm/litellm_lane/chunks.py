"""litellm's chunks → pieces of a reply, with the facts of the providers' own events that litellm drops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from buddy.agent.json_codec import count, dollars, items, mapping, string
from buddy.agent.messages import Opaque, Usage
from buddy.agent.provider import (
    CallPiece,
    Finished,
    ModelDelta,
    OpaquePiece,
    ProviderError,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from buddy.llm.direct.openai_decoder import REASONS, ThinkTags

GEMINI_FILTERED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY"}
)
GEMINI_FAILED = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"})


class Tap:
    """Watches one stream."""

    def __init__(self) -> None:
        self.is_gemini = False
        self._reason = ""
        self._missed: list[ModelDelta] = []
        self._slots: dict[Any, int] = {}

    def watch(self, events: Any) -> None:
        """Begin with the parser of a stream, if it is one that takes decoded events."""
        parse = getattr(events, "chunk_parser", None)
        if parse is None:
            return

        def watch_event(*args: Any, **kwargs: Any) -> Any:
            self.look(kwargs.get("chunk", args[0] if args else None))
            return parse(*args, **kwargs)

        events.chunk_parser = watch_event

    def look(self, event: Any) -> None:
        """One raw event."""
        data = mapping(event)
        kind = data.get("type")
        if isinstance(kind, str):
            self._look_at_responses(str(getattr(kind, "value", kind)), data)
        elif "candidates" in data or "promptFeedback" in data or "usageMetadata" in data:
            self._look_at_gemini(data)

    def drain(self) -> list[ModelDelta]:
        """Return the pieces litellm dropped since the last time."""
        missed, self._missed = self._missed, []
        return missed

    def gemini_finish(self) -> Finished | None:
        """Return how Gemini ended the reply, None when it did not. Raises `ProviderError` when it gave up."""
        if self._reason in GEMINI_FAILED:
            raise ProviderError("server", f"the model produced a call it could not finish ({self._reason})")
        if self._reason in GEMINI_FILTERED:
            return Finished("filter")
        if not self._reason:
            return None
        return Finished("length" if self._reason == "MAX_TOKENS" else "stop")

    def _look_at_gemini(self, data: Mapping[str, Any]) -> None:
        self.is_gemini = True
        blocked = string(mapping(data.get("promptFeedback")).get("blockReason"))
        candidate = mapping(next(iter(items(data.get("candidates"))), None))
        self._reason = string(candidate.get("finishReason")) or ("SAFETY" if blocked else self._reason)

    def _look_at_responses(self, kind: str, event: Mapping[str, Any]) -> None:
        if kind == "response.reasoning_text.delta":
            self._missed.append(ThinkingPiece(string(event.get("delta"))))
        elif kind == "response.refusal.delta":
            self._missed.append(TextPiece(string(event.get("delta"))))
        elif kind in ("response.output_item.added", "response.output_item.done"):
            item = mapping(event.get("item"))
            if item.get("type") != "function_call":
                return
            # litellm numbers calls in the order they appear, and may rename them.
            slot = self._slots.setdefault(event.get("output_index"), len(self._slots))
            arguments = string(item.get("arguments"))
            if kind == "response.output_item.done" and arguments:
                self._missed.append(CallPiece(slot, "", "", arguments, complete=True))


ECHOED_ON_CALLS = ("provider_specific_fields", "extra_content")
ECHOED_ON_MESSAGES = ("reasoning_items", "reasoning_details", "images")
REASONING_FIELDS = ("reasoning_content", "reasoning")

Kind = Literal["text", "thinking", "call", ""]


class UsageChunks(list[Any]):
    """A list that keeps only those chunks of litellm's stream that state a usage."""

    def append(self, chunk: Any) -> None:
        """Keep the chunk if it states a usage."""
        if getattr(chunk, "usage", None) is not None:
            super().append(chunk)


class ChunkReader:
    """Feed it the chunks of one stream; ask for `ending` when it is over. `keeps_cost`: a stated cost is the
    provider's own; for the responses protocol litellm computes one from its price table."""

    def __init__(self, *, keeps_cost: bool = True) -> None:
        self._keeps_cost = keeps_cost
        self._tags = ThinkTags()
        self._kind: Kind = ""
        self._block = 0
        self._opaque: Opaque = {}
        self._has_blocks = False
        self.has_begun = False

    def read(self, chunk: Any, tap: Tap) -> list[ModelDelta]:
        """Return the pieces of one chunk, after those that litellm dropped before it."""
        self.has_begun = True
        out = self._drain_tap(tap)
        choices = getattr(chunk, "choices", None)
        delta = choices[0].delta if choices else None
        if delta is None:
            return out
        self._thinking(delta, out)
        content = getattr(delta, "content", None)
        if content:
            self._text(string(content), out)
        for call in getattr(delta, "tool_calls", None) or ():
            self._switch("call")
            out.append(_call(call))
        self._keep(delta)
        return out

    def ending(self, stream: Any, tap: Tap) -> list[ModelDelta]:
        """Return the pieces known only at the end: opaque fields, usage, and the finish when there was one.
        Raises `ProviderError` when the model gave up the reply."""
        out = self._drain_tap(tap)
        out.extend(_in_block(piece, self._block) for piece in self._tags.end())
        if self._opaque:
            out.append(OpaquePiece(self._opaque))
        usage = usage_of(getattr(stream, "chunks", None) or (), keeps_reasoning=not self._has_blocks)
        if usage is not None:
            kept = usage if self._keeps_cost else msgspec.structs.replace(usage, cost_usd=None)
            out.append(UsagePiece(kept))
        finished = _finish_of(stream, tap)
        return [*out, finished] if finished else out

    def _drain_tap(self, tap: Tap) -> list[ModelDelta]:
        out: list[ModelDelta] = []
        for piece in tap.drain():
            if isinstance(piece, ThinkingPiece | TextPiece):
                self._switch("text" if isinstance(piece, TextPiece) else "thinking")
                out.append(_in_block(piece, self._block))
            else:
                out.append(piece)
        return out

    def _switch(self, kind: Kind) -> None:
        if self._kind and kind != self._kind:
            self._block += 1
        self._kind = kind

    def _text(self, text: str, out: list[ModelDelta]) -> None:
        self._switch("text")
        if self._tags.is_plain:
            out.append(TextPiece(text, self._block))
        else:
            out.extend(_in_block(piece, self._block) for piece in self._tags.feed(text))

    def _thinking(self, delta: Any, out: list[ModelDelta]) -> None:
        blocks = getattr(delta, "thinking_blocks", None)
        if blocks:
            self._has_blocks = True
            for block in blocks:
                self._thinking_block(mapping(block), out)
            return
        for field in REASONING_FIELDS:
            text = getattr(delta, field, None)
            if isinstance(text, str) and text:
                self._switch("thinking")
                out.append(ThinkingPiece(text, self._block))
                return

    def _thinking_block(self, block: Mapping[str, Any], out: list[ModelDelta]) -> None:
        """Take a piece of a signed block; its signature completes it, and what follows is another block."""
        self._switch("thinking")
        if block.get("type") == "redacted_thinking":
            out.append(ThinkingPiece("", self._block, opaque=dict(block)))
            self._block += 1
            return
        signature = string(block.get("signature"))
        text = string(block.get("thinking"))
        if text or signature:
            out.append(ThinkingPiece(text, self._block, signature))
        if signature:
            self._block += 1

    def _keep(self, delta: Any) -> None:
        """Keep fields of the whole message that must be sent back unchanged."""
        for field in ECHOED_ON_MESSAGES:
            value = getattr(delta, field, None)
            if value:
                self._opaque[field] = [*items(self._opaque.get(field)), *map(_plain, items(value))]
        fields = mapping(getattr(delta, "provider_specific_fields", None))
        if not fields:
            return
        kept = self._opaque.setdefault("provider_specific_fields", {})
        for key, value in fields.items():
            if key != "thinking_blocks" and value is not None:
                kept[key] = [*items(kept.get(key)), *items(value)] if isinstance(value, list) else value
        if not kept:
            del self._opaque["provider_specific_fields"]


def _in_block(piece: TextPiece | ThinkingPiece, block: int) -> TextPiece | ThinkingPiece:
    return TextPiece(piece.text, block) if isinstance(piece, TextPiece) else ThinkingPiece(piece.text, block)


def usage_of(chunks: Iterable[Any], *, keeps_reasoning: bool) -> Usage | None:
    """Return the provider's counts: of each kind the last that isn't zero (Anthropic states input first,
    output last). None when it stated none. `keeps_reasoning`: litellm guesses this count for Anthropic."""
    found: dict[str, int] = {}
    cost: float | None = None
    for chunk in chunks:
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            stated = dollars(getattr(usage, "cost", None))
            cost = cost if stated is None else stated
            found.update({key: value for key, value in _counts(usage).items() if value})
    if "input" not in found:
        return None
    return Usage(
        input_tokens=found["input"],
        output_tokens=found.get("output", 0),
        cache_read_tokens=found.get("cache_read", 0),
        cache_write_tokens=found.get("cache_write", 0),
        reasoning_tokens=found.get("reasoning", 0) if keeps_reasoning else 0,
        estimated=False,
        cost_usd=cost,
    )


def _counts(usage: Any) -> dict[str, int]:
    prompt = getattr(usage, "prompt_tokens_details", None)
    output = getattr(usage, "completion_tokens_details", None)
    return {
        "input": count(getattr(usage, "prompt_tokens", 0)),
        "output": count(getattr(usage, "completion_tokens", 0)),
        "cache_read": count(getattr(prompt, "cached_tokens", 0)),
        "cache_write": count(getattr(prompt, "cache_creation_tokens", 0)),
        "reasoning": count(getattr(output, "reasoning_tokens", 0)),
    }


def _finish_of(stream: Any, tap: Tap) -> Finished | None:
    if tap.is_gemini:
        return tap.gemini_finish()
    reason = getattr(stream, "received_finish_reason", None)
    return Finished(REASONS.get(string(reason), "stop")) if reason else None


def _call(call: Any) -> CallPiece:
    function = getattr(call, "function", None)
    index = getattr(call, "index", None)
    opaque = {
        field: _plain(value) for field in ECHOED_ON_CALLS if (value := getattr(call, field, None)) is not None
    }
    return CallPiece(
        index=index if isinstance(index, int) else None,
        id=string(getattr(call, "id", None)),
        name=string(getattr(function, "name", None)),
        arguments=string(getattr(function, "arguments", None)),
        opaque={field: value for field, value in opaque.items() if value},
    )


def _plain(value: Any) -> Any:
    """JSON data from litellm's records."""
    dump = getattr(value, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else value
