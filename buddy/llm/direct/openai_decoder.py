"""Chat completion chunks → pieces of a reply. Pure; tolerant of everything servers were seen to send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from buddy.agent.json_codec import as_list, count, dollars, dumps, items, loads, mapping, string
from buddy.agent.messages import Usage
from buddy.agent.provider import (
    CallPiece,
    Finished,
    FinishReason,
    ModelDelta,
    OpaquePiece,
    ProviderError,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from buddy.llm.direct.response_reader import Pieces, SseEvent
from buddy.llm.errors import classify_event


def usage_of(chunk: Mapping[str, Any]) -> Usage | None:
    """Return the counts a chunk carries: in its place, under a vendor's key (`x_groq`), or inside the
    choice."""
    for holder in (chunk, *(mapping(value) for key, value in chunk.items() if key.startswith("x_"))):
        found = mapping(holder.get("usage"))
        if found:
            return _usage(found)
    choices = items(chunk.get("choices"))
    found = mapping(mapping(choices[0] if choices else None).get("usage"))
    return _usage(found) if found else None


def _usage(counts: Mapping[str, Any]) -> Usage:
    prompt = mapping(counts.get("prompt_tokens_details")) or mapping(counts.get("input_tokens_details"))
    output = mapping(counts.get("completion_tokens_details")) or mapping(counts.get("output_tokens_details"))
    input_tokens = count(counts.get("prompt_tokens", counts.get("input_tokens")))
    output_tokens = count(counts.get("completion_tokens", counts.get("output_tokens")))
    reasoning = count(output.get("reasoning_tokens") or counts.get("reasoning_tokens"))
    # xAI counts reasoning beside the completion; the total tells.
    if reasoning and count(counts.get("total_tokens")) == input_tokens + output_tokens + reasoning:
        output_tokens += reasoning
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=_first(
            prompt.get("cached_tokens"), counts.get("prompt_cache_hit_tokens"), counts.get("cached_tokens")
        ),
        cache_write_tokens=_first(
            prompt.get("cache_write_tokens"), counts.get("cache_creation_input_tokens")
        ),
        reasoning_tokens=reasoning,
        estimated=False,
        cost_usd=_cost(counts),
    )


def _cost(counts: Mapping[str, Any]) -> float | None:
    """Return the billed cost, as LiteLLM and OpenRouter state it. With a provider key of the user's own,
    OpenRouter states its fee and, separately, the provider's bill."""
    cost = dollars(counts.get("cost"))
    if cost is None or counts.get("is_byok") is not True:
        return cost
    return cost + (dollars(mapping(counts.get("cost_details")).get("upstream_inference_cost")) or 0)


def _first(*values: Any) -> int:
    return next((count(value) for value in values if count(value)), 0)


GROWING = frozenset({"text", "summary", "data"})


class ReasoningDetails:
    """Fragments in, whole details out."""

    def __init__(self) -> None:
        self._details: list[tuple[dict[str, Any], dict[str, list[str]]]] = []

    def add(self, fragments: Any) -> None:
        """Take the list one chunk carries."""
        for item in items(fragments):
            fragment = mapping(item)
            if fragment:
                self._add(fragment)

    def whole(self) -> list[dict[str, Any]]:
        """Return every detail so far, as the provider wants it back."""
        return [
            {**fields, **{key: "".join(pieces) for key, pieces in growing.items()}}
            for fields, growing in self._details
        ]

    def _add(self, fragment: Mapping[str, Any]) -> None:
        if not (self._details and _same(self._details[-1][0], fragment)):
            self._details.append(({}, {}))
        fields, growing = self._details[-1]
        for key, value in fragment.items():
            if key in GROWING and isinstance(value, str):
                growing.setdefault(key, []).append(value)
                fields.setdefault(key, "")
            elif value is not None or key not in fields:
                fields[key] = value


def _same(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    if first.get("type") != second.get("type") or first.get("index") != second.get("index"):
        return False
    ids = {string(first.get("id")), string(second.get("id"))} - {""}
    return len(ids) < 2


OPENING = ("<think>", "<thinking>", "<thought>", "<reasoning>")


class ThinkTags:
    """Feed it the answer text of a stream; `end` gives what was held back because it could become a tag."""

    __slots__ = ("_closing", "_held", "_state")

    def __init__(self) -> None:
        self._state = "start"
        self._held = ""
        self._closing = ""

    @property
    def is_plain(self) -> bool:
        """Tell whether the rest of the text passes through unchanged."""
        return self._state == "plain"

    def feed(self, text: str) -> Sequence[TextPiece | ThinkingPiece]:
        """Return the pieces this text makes, possibly none yet."""
        pieces: list[TextPiece | ThinkingPiece] = []
        text = self._held + text
        self._held = ""
        if self._state == "start":
            text = self._at_start(text)
        if self._state == "inside":
            text = self._inside(text, pieces)
        if self._state == "after":
            text = text.lstrip()
            if text:
                self._state = "plain"
        if text and self._state == "plain":
            pieces.append(TextPiece(text))
        return pieces

    def end(self) -> Sequence[TextPiece | ThinkingPiece]:
        """Return the text that is still held back."""
        held, self._held = self._held, ""
        if not held:
            return ()
        return (ThinkingPiece(held),) if self._state == "inside" else (TextPiece(held),)

    def _at_start(self, text: str) -> str:
        """Decide, or hold the text back while it may still be the beginning of a tag."""
        head = text.lstrip()
        for tag in OPENING:
            if head.startswith(tag):
                self._state = "inside"
                self._closing = "</" + tag[1:]
                return head[len(tag) :]
        if not head or any(tag.startswith(head) for tag in OPENING):
            self._held = text
            return ""
        self._state = "plain"
        return text

    def _inside(self, text: str, pieces: list[TextPiece | ThinkingPiece]) -> str:
        """Take reasoning up to the closing tag and return the rest of the text."""
        end = text.find(self._closing)
        if end >= 0:
            self._state = "after"
            thought, rest = text[:end], text[end + len(self._closing) :]
        else:
            kept = _tail_that_may_be(self._closing, text)
            thought, self._held, rest = text[: len(text) - kept], text[len(text) - kept :], ""
        if thought:
            pieces.append(ThinkingPiece(thought))
        return rest


def _tail_that_may_be(tag: str, text: str) -> int:
    """Return the number of last characters that may be the beginning of the tag."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-size:]):
            return size
    return 0


REASONS: Mapping[str, FinishReason] = {
    "tool_calls": "calls",
    "function_call": "calls",
    "tool_use": "calls",
    "length": "length",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "filter",
    "safety": "filter",
    "SAFETY": "filter",
    "RECITATION": "filter",
    "PROHIBITED_CONTENT": "filter",
    "refusal": "filter",
    "sensitive": "filter",
}
"""Words for the end of a reply; any other word means it simply stopped."""

FAILED_REASONS = frozenset(
    {"error", "abort", "network_error", "insufficient_system_resource", "MALFORMED_FUNCTION_CALL"}
)
"""Finish reasons that mean the server gave up."""

REASONING_WORDS = ("reasoning", "thinking", "thought")
SECRET_WORDS = ("signature", "opaque", "encrypted")
ECHOED = frozenset({"extra_content", "provider_specific_fields"})
"""Fields of a call or a message that their provider wants back untouched."""


class ChatDecoder:
    """One reply's worth of chunks. `provider` names the server in error sentences."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._tags = ThinkTags()
        self._reason: FinishReason | None = None
        self._opaque: dict[str, Any] = {}
        self._details = ReasoningDetails()
        self._block = 0
        self._has_blocks = False
        self.is_done = False

    def feed(self, event: SseEvent) -> Pieces:
        """Return the pieces of one event. An error stands as the last item, to be raised."""
        data = event.data
        if not data.startswith(b"{"):
            return self._finish("unstated") if data.strip() == b"[DONE]" else ()
        try:
            chunk = loads(data)
        except ValueError:
            return (ProviderError("cut", f"{self._provider} sent an event that is no JSON"),)
        return self.feed_chunk(mapping(chunk), event.name)

    def feed_chunk(self, chunk: Mapping[str, Any], event_name: str = "") -> Pieces:
        """Return the pieces of one decoded chunk (or of a whole answer that was not streamed)."""
        out: list[ModelDelta | ProviderError] = []
        choices = items(chunk.get("choices"))
        if choices:
            self._choice(mapping(choices[0]), out)
        if self._reason is not None or chunk.get("usage"):
            usage = usage_of(chunk)
            if usage is not None:
                out.append(UsagePiece(usage))
        elif not choices:
            self._without_choices(chunk, out)
        is_error = event_name == "error" or chunk.get("object") == "error"
        if is_error or "error" in chunk or "base_resp" in chunk:
            error = classify_event(chunk, self._provider)
            if error is not None:
                out.append(error)
        return out

    def whole(self, answer: Mapping[str, Any]) -> Pieces:
        """Return the pieces of an answer that was not streamed."""
        if not items(answer.get("choices")):
            error = classify_event(answer, self._provider)
            return (error or ProviderError("server", f"{self._provider} answered without any choices"),)
        return [*self.feed_chunk(answer), *self._finish("unstated")]

    def end(self) -> Pieces:
        """The body ended properly."""
        if self.is_done or self._reason is None:
            return self._tags.end()
        return self._finish("unstated")

    def _finish(self, otherwise: Literal["unstated"]) -> Pieces:
        self.is_done = True
        out: list[ModelDelta] = [*self._tags.end()]
        details = self._details.whole()
        if details:
            self._opaque["reasoning_details"] = details
        if self._opaque:
            out.append(OpaquePiece(self._opaque))
        out.append(Finished(self._reason or otherwise))
        return out

    def _without_choices(self, chunk: Mapping[str, Any], out: list[ModelDelta | ProviderError]) -> None:
        usage = usage_of(chunk)
        if usage is not None:
            out.append(UsagePiece(usage))

    def _choice(self, choice: Mapping[str, Any], out: list[ModelDelta | ProviderError]) -> None:
        if choice.get("index"):
            return  # a second candidate: never asked for
        delta = choice.get("delta")
        self._delta(_reasoning_first(choice.get("message")) if delta is None else mapping(delta), out)
        reason = string(choice.get("finish_reason"))
        if not reason:
            return
        if reason in FAILED_REASONS:
            error = classify_event(choice, self._provider)
            out.append(error or ProviderError("server", f"{self._provider} gave up the reply ({reason})"))
        elif self._reason is None:
            self._reason = REASONS.get(reason, "stop")

    def _delta(self, delta: Mapping[str, Any], out: list[ModelDelta | ProviderError]) -> None:
        blocks = items(delta.get("thinking_blocks"))
        for block in blocks:
            self._thinking_block(mapping(block), out)
        reasoned = bool(blocks)
        for key, value in delta.items():
            if not value or key in ("role", "thinking_blocks"):
                continue
            if key == "content":
                self._content(value, out)
            elif key == "tool_calls":
                self._calls(value, out)
            elif key == "refusal":
                self._text(string(value), out)
            elif key == "function_call":
                out.append(_call({"index": 0, "function": value}))
            elif key == "reasoning_details":
                self._details.add(value)
            elif key == "provider_specific_fields" and self._has_blocks:
                continue  # LiteLLM repeats the blocks there
            elif key in ECHOED or any(word in key for word in SECRET_WORDS):
                self._opaque[key] = value
            elif not reasoned and any(word in key for word in REASONING_WORDS):
                text = _reasoning_text(value)
                if text:
                    reasoned = True
                    out.append(ThinkingPiece(text))

    def _thinking_block(self, block: Mapping[str, Any], out: list[ModelDelta | ProviderError]) -> None:
        """Take a piece of a signed Anthropic block from a LiteLLM proxy; the signature completes it."""
        self._has_blocks = True
        if block.get("type") == "redacted_thinking":
            self._block += 1
            out.append(ThinkingPiece("", self._block, opaque=dict(block)))
            self._block += 1
            return
        text, signature = string(block.get("thinking")), string(block.get("signature"))
        if text or signature:
            out.append(ThinkingPiece(text, self._block, signature))
        if signature:
            self._block += 1

    def _content(self, value: Any, out: list[ModelDelta | ProviderError]) -> None:
        if isinstance(value, str):
            self._text(value, out)
            return
        for item in items(value):
            if isinstance(item, str):
                self._text(item, out)
                continue
            part = mapping(item)
            kind = string(part.get("type"))
            if any(word in kind for word in REASONING_WORDS):
                text = _reasoning_text(part.get(kind, part.get("text", part.get("summary"))))
                if text:
                    out.append(ThinkingPiece(text))
            else:
                self._text(string(part.get("text")), out)

    def _text(self, text: str, out: list[ModelDelta | ProviderError]) -> None:
        if not text:
            return
        if self._tags.is_plain:
            out.append(TextPiece(text))
        else:
            out.extend(self._tags.feed(text))

    def _calls(self, value: Any, out: list[ModelDelta | ProviderError]) -> None:
        out.extend(_call(mapping(call)) for call in as_list(value))


def _reasoning_first(message: Any) -> Mapping[str, Any]:
    """Return a whole message in the order in which it was thought."""
    fields = mapping(message).items()
    return dict(sorted(fields, key=lambda field: not any(word in field[0] for word in REASONING_WORDS)))


def _call(call: Mapping[str, Any]) -> CallPiece:
    """Return one element of `tool_calls`; name and arguments may stand beside the `function` they belong
    in."""
    function = mapping(call.get("function")) or call
    arguments = function.get("arguments")
    is_object = isinstance(arguments, dict)
    index = call.get("index")
    opaque = {key: value for holder in (call, function) for key, value in holder.items() if key in ECHOED}
    call_id = call.get("id")
    return CallPiece(
        index=index if isinstance(index, int) else None,
        id="" if call_id is None else str(call_id),
        name=string(function.get("name")),
        arguments=dumps(arguments).decode() if is_object else string(arguments),
        opaque=opaque,
        complete=is_object,
    )


def _reasoning_text(value: Any) -> str:
    """Return reasoning text, given as a string or as objects and lists around one."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_reasoning_text(item) for item in items(value))
    part = mapping(value)
    return _reasoning_text(part.get("text") or part.get("content") or "")
