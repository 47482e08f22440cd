"""Facts from the providers' own events that litellm drops or reports wrongly.

It looks at each raw event of a stream's parser before litellm does: litellm reports a finish on every chunk
of Gemini's, needed or not, and of the responses API it forgets plain reasoning, refusals, and arguments that
come whole instead of in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from buddy.agent.provider import CallPiece, Finished, ModelDelta, ProviderError, TextPiece, ThinkingPiece
from buddy.llm.loose_json import items, mapping, string

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

        def watched(*args: Any, **kwargs: Any) -> Any:
            self.look(kwargs.get("chunk", args[0] if args else None))
            return parse(*args, **kwargs)

        events.chunk_parser = watched

    def look(self, event: Any) -> None:
        """One raw event."""
        data = mapping(event)
        kind = data.get("type")
        if isinstance(kind, str):
            self._look_at_responses(str(getattr(kind, "value", kind)), data)
        elif "candidates" in data or "promptFeedback" in data or "usageMetadata" in data:
            self._look_at_gemini(data)

    def missed(self) -> list[ModelDelta]:
        """The pieces litellm dropped since the last time."""
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
