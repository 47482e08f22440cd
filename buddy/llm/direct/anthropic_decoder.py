"""Anthropic message events → pieces of a reply. Pure; tolerant of compatible servers.

Blocks get numbers of our own, one per `content_block_start`: some servers use index 0 for everything, and two
thinking blocks with two signatures must not become one. Items the provider runs itself (searches, MCP calls,
their results, fallbacks) are collected whole and passed on untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from buddy.agent.json_codec import count, dumps, items, loads, mapping, string
from buddy.agent.messages import Usage
from buddy.agent.provider import (
    CallPiece,
    Finished,
    FinishReason,
    ModelDelta,
    ProviderError,
    ServerPiece,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from buddy.llm.direct.response_reader import Pieces, SseEvent
from buddy.llm.errors import classify, classify_event

REASONS: Mapping[str, FinishReason] = {
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filter",
    "content_filter": "filter",
}
"""Stop reasons; any other word means the reply simply stopped."""


class _Block:
    """A content block that is open."""

    __slots__ = ("is_fed", "kind", "number", "pieces", "start")

    def __init__(self, number: int, start: Mapping[str, Any]) -> None:
        self.number = number
        self.kind = string(start.get("type"))
        self.start = start
        self.pieces: list[str] = []
        self.is_fed = False


class AnthropicDecoder:
    """One reply's worth of events. `provider` names the server in error sentences."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._blocks: dict[int, _Block] = {}
        self._next = 0
        self._counts: dict[str, Any] = {}
        self._reason: FinishReason | None = None
        self.is_done = False

    def feed(self, event: SseEvent) -> Pieces:
        """Return the pieces of one event. An error stands as the last item, to be raised."""
        if not event.data.startswith(b"{"):
            return ()
        try:
            data = mapping(loads(event.data))
        except ValueError:
            return (ProviderError("cut", f"{self._provider} sent an event that is no JSON"),)
        match data.get("type"):
            case "content_block_delta":
                return self._delta(data)
            case "content_block_start":
                return self._start(_index(data), mapping(data.get("content_block")))
            case "content_block_stop":
                return self._stop(_index(data))
            case "message_delta":
                return self._message_delta(data)
            case "message_start":
                return self._usage(mapping(mapping(data.get("message")).get("usage")))
            case "message_stop":
                return self._finish()
            case "error":
                return (classify(0, {}, dict(data), self._provider),)
            case _:
                error = (
                    classify_event(data, self._provider) if event.name == "error" or "error" in data else None
                )
                return (error,) if error else ()

    def whole(self, answer: Mapping[str, Any]) -> Pieces:
        """Return the pieces of an answer that was not streamed."""
        if "content" not in answer:
            error = classify_event(answer, self._provider)
            return (error or ProviderError("server", f"{self._provider} answered without any content"),)
        out: list[ModelDelta | ProviderError] = []
        for index, block in enumerate(items(answer.get("content"))):
            out.extend(self._start(index, mapping(block)))
            out.extend(self._stop(index))
        out.extend(self._usage(mapping(answer.get("usage"))))
        self._note_reason(answer)
        out.extend(self._finish())
        return out

    def end(self) -> Pieces:
        """The body ended properly."""
        return () if self.is_done or self._reason is None else self._finish()

    def _finish(self) -> Pieces:
        self.is_done = True
        out = [piece for index in list(self._blocks) for piece in self._stop(index)]
        return [*out, Finished(self._reason or "unstated")]

    def _message_delta(self, data: Mapping[str, Any]) -> Pieces:
        self._note_reason(mapping(data.get("delta")))
        return self._usage(mapping(data.get("usage")))

    def _note_reason(self, holder: Mapping[str, Any]) -> None:
        reason = holder.get("stop_reason")
        if reason:
            self._reason = REASONS.get(str(reason), "stop")

    def _usage(self, counts: Mapping[str, Any]) -> Pieces:
        """Combine the counts of start and end into the reply's."""
        self._counts.update({key: value for key, value in counts.items() if value is not None})
        if not counts:
            return ()
        known = self._counts
        read, written = (
            count(known.get("cache_read_input_tokens")),
            count(known.get("cache_creation_input_tokens")),
        )
        details = mapping(known.get("output_tokens_details"))
        usage = Usage(
            input_tokens=count(known.get("input_tokens")) + read + written,
            output_tokens=count(known.get("output_tokens")),
            cache_read_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=count(details.get("thinking_tokens") or details.get("reasoning_tokens")),
            estimated=False,
        )
        return (UsagePiece(usage),)

    def _start(self, index: int, start: Mapping[str, Any]) -> Pieces:
        out = list(self._stop(index))
        block = self._blocks[index] = _Block(self._next, start)
        self._next += 1
        match block.kind:
            case "text":
                text = string(start.get("text"))
                return [*out, TextPiece(text, block.number)] if text else out
            case "thinking":
                text = string(start.get("thinking"))
                return [*out, ThinkingPiece(text, block.number)] if text else out
            case "redacted_thinking":
                return [*out, ThinkingPiece("", block.number, opaque=dict(start))]
            case "tool_use":
                call_id, name = string(start.get("id")), string(start.get("name"))
                return [*out, CallPiece(block.number, call_id, name, "")]
            case _:
                return out

    def _delta(self, data: Mapping[str, Any]) -> Pieces:
        index = _index(data)
        delta = mapping(data.get("delta"))
        kind = delta.get("type")
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Block(self._next, {"type": _kind_of(kind)})
            self._next += 1
        match kind:
            case "text_delta":
                return (TextPiece(string(delta.get("text")), block.number),)
            case "thinking_delta":
                return (ThinkingPiece(string(delta.get("thinking")), block.number),)
            case "input_json_delta":
                return self._json(block, _fragment(delta.get("partial_json")))
            case "signature_delta":
                block.pieces.append(string(delta.get("signature")))
                return ()
            case _:
                return ()

    def _json(self, block: _Block, fragment: str) -> Pieces:
        if not fragment:
            return ()
        block.is_fed = True
        if block.kind == "tool_use":
            return (CallPiece(block.number, "", "", fragment),)
        block.pieces.append(fragment)
        return ()

    def _stop(self, index: int) -> Pieces:
        block = self._blocks.pop(index, None)
        if block is None:
            return ()
        match block.kind:
            case "text" | "redacted_thinking":
                return ()
            case "thinking":
                signature = "".join(block.pieces) or string(block.start.get("signature"))
                return (ThinkingPiece("", block.number, signature),) if signature else ()
            case "tool_use":
                return () if block.is_fed else _whole_input(block)
            case _:
                return (ServerPiece(_server_item(block)),) if block.kind else ()


def _whole_input(block: _Block) -> Pieces:
    """Take the input from the start event: some servers put all of it there and send no deltas."""
    given = block.start.get("input")
    return (CallPiece(block.number, "", "", dumps(given).decode(), complete=True),) if given else ()


def _server_item(block: _Block) -> dict[str, Any]:
    """Return an item the provider ran, with its input filled in."""
    item = dict(block.start)
    if block.is_fed:
        try:
            item["input"] = loads("".join(block.pieces).encode("utf-8", "surrogatepass"))
        except ValueError:
            pass
    return item


def _index(data: Mapping[str, Any]) -> int:
    index = data.get("index")
    return index if isinstance(index, int) else 0


def _fragment(given: Any) -> str:
    """Return arguments as JSON text; some servers send them as objects."""
    return dumps(given).decode() if isinstance(given, dict) else string(given)


def _kind_of(delta: Any) -> str:
    """Return the block a delta without a start belongs to."""
    match delta:
        case "thinking_delta" | "signature_delta":
            return "thinking"
        case "input_json_delta":
            return "tool_use"
        case _:
            return "text"
