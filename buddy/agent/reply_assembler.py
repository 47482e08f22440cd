"""Assembly of a reply: a provider's deltas become events while they arrive, and one message at the end.

Pure and independent of fragmentation: the same bytes make the same message however they were split. Every
part of the message is opened by its first content and never dropped, so the block number of an event is the
index of its part in `message.parts`. Text (and thinking) is only ever added to the newest text (thinking)
part, so that deltas concatenate to what the message says, even when a provider interleaves its blocks.

Inline `<think>` tags are split in the lanes (`ThinkTags` in `llm/direct/openai_decoder.py`): a delta with
"…</think>answer" is two pieces, and only a lane can yield two.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from buddy.agent.events import TextDelta, ThinkingDelta, ToolCallDelta
from buddy.agent.formatting import format_count
from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    AssistantPart,
    Call,
    Finish,
    ServerItem,
    Text,
    Thinking,
    Usage,
)
from buddy.agent.provider import (
    Alive,
    CallPiece,
    Finished,
    ModelDelta,
    OpaquePiece,
    ProviderError,
    ServerPiece,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)

MAX_CHARACTERS = 4_000_000
"""The limit for text, for reasoning and for arguments in one reply; no model writes as much."""
MAX_PARTS = 10_000
MAX_CALLS = 500
NO_ARGUMENTS = frozenset({"", "null", '""'})
"""Spellings of "no arguments" that servers send; each becomes "{}"."""


class _OpenText:
    """A text part that still grows. `block` is the provider's number, `at` the index of the part."""

    __slots__ = ("at", "block", "pieces")

    def __init__(self, block: int, at: int) -> None:
        self.block = block
        self.at = at
        self.pieces: list[str] = []

    def as_part(self) -> Text:
        return Text("".join(self.pieces))


class _OpenThinking:
    """A thinking part that still grows until its signature comes."""

    __slots__ = ("at", "block", "opaque", "pieces", "signature")

    def __init__(self, block: int, at: int) -> None:
        self.block = block
        self.at = at
        self.pieces: list[str] = []
        self.signature = ""
        self.opaque: dict[str, Any] = {}

    def as_part(self) -> Thinking:
        return Thinking("".join(self.pieces), self.signature, self.opaque)


class _OpenCall:
    """A call whose arguments still arrive. `given_id` is the provider's id, "" while it gave none."""

    __slots__ = ("given_id", "id", "name", "opaque", "pieces", "sealed")

    def __init__(self, call_id: str, given_id: str) -> None:
        self.id = call_id
        self.given_id = given_id
        self.name = ""
        self.pieces: list[str] = []
        self.opaque: dict[str, Any] = {}
        self.sealed = False

    def arguments(self) -> str:
        text = "".join(self.pieces)
        return "{}" if text.strip() in NO_ARGUMENTS else text

    def is_whole(self) -> bool:
        """Tell whether arguments were given and parse. Only looked at closely when the last piece ends an
        object: some servers repeat the name in every piece, and parsing each time would be quadratic."""
        last = next((piece for piece in reversed(self.pieces) if piece.strip()), "")
        return last.rstrip().endswith("}") and is_json("".join(self.pieces))

    def as_part(self) -> Call:
        return Call(self.id, self.name, self.arguments(), self.opaque)


class ReplyAssembler:
    """Feed it every delta of one stream; call `finish()` at its end, or `partial()` when it broke off.

    `new_id` makes ids for calls that came without one (or with one that was taken); by default they derive
    from the reply's id. `taken` are the ids of other replies' calls, and takes those of this one: some
    servers count from 0 in every reply. `reply_id` is public.
    """

    def __init__(
        self,
        reply_id: str,
        model: str,
        lane: str,
        new_id: Callable[[], str] | None = None,
        taken: set[str] | None = None,
    ) -> None:
        self.reply_id = reply_id
        self._taken = taken if taken is not None else set[str]()
        self._model = model
        self._lane = lane
        self._new_id = new_id
        self._parts: list[_OpenText | _OpenThinking | _OpenCall | ServerItem] = []
        self._text: _OpenText | None = None
        self._thinking: _OpenThinking | None = None
        self._thinking_blocks: dict[int, _OpenThinking] = {}
        self._slots: dict[int, _OpenCall] = {}
        self._calls: list[_OpenCall] = []
        self._usage = NO_USAGE
        self._opaque: dict[str, Any] = {}
        self._reason: str | None = None
        self._characters = {"text": 0, "reasoning": 0, "arguments": 0}

    def feed(self, delta: ModelDelta) -> TextDelta | ThinkingDelta | ToolCallDelta | None:
        """Add one delta; return the event to emit, None when there is nothing to show."""
        match delta:
            case TextPiece():
                return self._take_text(delta)
            case ThinkingPiece():
                return self._take_thinking(delta)
            case CallPiece():
                return self._take_call(delta)
            case Alive():
                return None
            case UsagePiece():
                self._take_usage(delta.usage)
                return None
            case ServerPiece():
                self._add_part(ServerItem(delta.data))
                return None
            case OpaquePiece():
                self._opaque.update(delta.data)
                return None
            case Finished():
                if self._reason in (None, "unstated"):
                    self._reason = delta.reason
                return None

    def partial(self) -> AssistantMessage:
        """Return the received part of the reply, marked as cut. Its calls are for display only and never
        run."""
        return self._message("cut")

    def finish(self) -> AssistantMessage:
        """Return the whole reply. Raises `ProviderError` of kind `cut` when the stream ended too early."""
        if self._reason is None:
            raise ProviderError("cut", f"the connection dropped in the middle ({self._describe_progress()})")
        if self._reason == "unstated" and not all(is_json(call.arguments()) for call in self._calls):
            raise ProviderError(
                "cut", f"the connection dropped inside a tool call ({self._describe_progress()})"
            )
        return self._message(self._finish(self._reason))

    def _take_text(self, piece: TextPiece) -> TextDelta | None:
        text = piece.text
        if not text:
            return None
        part = self._text
        if part is None or part.block != piece.block:
            part = self._text = _OpenText(piece.block, len(self._parts))
            self._add_part(part)
        self._count("text", text)
        part.pieces.append(text)
        return TextDelta(self.reply_id, part.at, text)

    def _take_thinking(self, piece: ThinkingPiece) -> ThinkingDelta | None:
        if not (piece.text or piece.signature or piece.opaque):
            return None
        part = self._thinking_part(piece)
        shown = piece.text
        if piece.signature or piece.opaque:
            part.signature = piece.signature or part.signature
            part.opaque.update(piece.opaque)
            shown = _new_text("".join(part.pieces), piece.text) if piece.text else ""
        if not shown:
            return None
        self._count("reasoning", shown)
        part.pieces.append(shown)
        return ThinkingDelta(self.reply_id, part.at, shown)

    def _thinking_part(self, piece: ThinkingPiece) -> _OpenThinking:
        """Return the part a piece belongs to: its block's, unless that one is complete or no longer the
        newest."""
        part = self._thinking_blocks.get(piece.block)
        if part is not None and not (piece.text and (part is not self._thinking or part.signature)):
            return part
        if part is not None and piece.signature and "".join(part.pieces) == piece.text:
            return part
        part = self._thinking = _OpenThinking(piece.block, len(self._parts))
        self._thinking_blocks[piece.block] = part
        self._add_part(part)
        return part

    def _take_call(self, piece: CallPiece) -> ToolCallDelta | None:
        call = self._call_of(piece)
        if call is None:
            call = self._open_call(piece)
            is_new = True
        else:
            is_new = False
            call.given_id = call.given_id or piece.id
        if piece.index is not None:
            self._slots[piece.index] = call
        if piece.name and piece.name != call.name:
            self._count("arguments", piece.name)
            call.name += piece.name
        call.opaque.update(piece.opaque)
        self._count("arguments", piece.arguments)
        shown = piece.arguments
        if piece.complete:
            shown = _new_text("".join(call.pieces), piece.arguments)
            call.pieces = [piece.arguments]
            call.sealed = True
        elif shown:
            call.pieces.append(shown)
        if not (shown or is_new):
            return None
        return ToolCallDelta(self.reply_id, call.id, call.name, shown)

    def _call_of(self, piece: CallPiece) -> _OpenCall | None:
        """Return the open call a piece continues, None when it begins a new one."""
        if piece.index is None:
            return self._call_without_index(piece)
        call = self._slots.get(piece.index)
        if call is None:
            return None
        if piece.id and call.given_id:
            return call if piece.id == call.given_id else None
        if piece.id:
            return None if call.sealed or call.is_whole() else call
        return None if _begins_anew(piece, call) else call

    def _call_without_index(self, piece: CallPiece) -> _OpenCall | None:
        if piece.id:
            return next((call for call in reversed(self._calls) if call.given_id == piece.id), None)
        last = self._calls[-1] if self._calls else None
        if last is None or (piece.complete and piece.name):
            return None
        return None if _begins_anew(piece, last) else last

    def _open_call(self, piece: CallPiece) -> _OpenCall:
        if len(self._calls) == MAX_CALLS:
            raise too_large(f"{MAX_CALLS} tool calls")
        call = _OpenCall(self._free_id(piece.id), piece.id)
        self._calls.append(call)
        self._add_part(call)
        return call

    def _free_id(self, wanted: str) -> str:
        number = len(self._calls)
        while not wanted or wanted in self._taken:
            number += 1
            wanted = self._new_id() if self._new_id else f"{self.reply_id}-{number}"
        self._taken.add(wanted)
        return wanted

    def _add_part(self, part: _OpenText | _OpenThinking | _OpenCall | ServerItem) -> None:
        if len(self._parts) == MAX_PARTS:
            raise too_large(f"{MAX_PARTS:,} parts")
        self._parts.append(part)

    def _count(self, kind: Literal["text", "reasoning", "arguments"], more: str) -> None:
        self._characters[kind] += len(more)
        if self._characters[kind] > MAX_CHARACTERS:
            raise too_large(f"{MAX_CHARACTERS // 1_000_000} million characters of {kind}")

    def _take_usage(self, usage: Usage) -> None:
        if usage.input_tokens or usage.output_tokens:
            self._usage = usage

    def _finish(self, reason: str) -> Finish:
        """`stop` with calls means calls (Gemini, Responses and some gateways say so); the reverse too."""
        if reason == "length":
            return "length"
        if reason == "filter":
            return "filter"
        return "calls" if self._calls else "stop"

    def _message(self, finish: Finish) -> AssistantMessage:
        parts: list[AssistantPart] = [
            part if isinstance(part, ServerItem) else part.as_part() for part in self._parts
        ]
        return AssistantMessage(
            id=self.reply_id,
            parts=tuple(parts),
            model=self._model,
            lane=self._lane,
            finish=finish,
            usage=self._usage,
            opaque=self._opaque,
        )

    def _describe_progress(self) -> str:
        characters = sum(len(p) for part in self._parts if isinstance(part, _OpenText) for p in part.pieces)
        calls = format_count(len(self._calls), "tool call")
        return f"{format_count(characters, 'character')} and {calls} had arrived"


def too_large(limit: str) -> ProviderError:
    """an error for an impossible reply; a retry would bring the same."""
    return ProviderError("server", f"the reply was stopped at {limit}", retryable=False)


def is_json(text: str) -> bool:
    """Tell whether a text is one whole JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _begins_anew(piece: CallPiece, call: _OpenCall) -> bool:
    """Tell whether a piece without an id begins another call than the open one of its slot.

    Some servers put every call at index 0 and give no ids; others repeat the name in every piece, a few
    send the name in pieces. So: a name on a call that is whole begins another, and so does a different name
    once arguments have begun.
    """
    if not piece.name:
        return False
    if call.sealed or call.is_whole():
        return bool(piece.arguments.strip()) or piece.name != call.name
    if not call.name or piece.name == call.name:
        return False
    return any(call.pieces) or is_json(piece.arguments)


def _new_text(known: str, text: str) -> str:
    """Return the new text of a piece that completes its block: "" when it repeats the block."""
    return text.removeprefix(known) if known else text
