"""Compaction of a history that no longer fits the context. Pure: a `Compaction` is a view, the history stays
whole.

The person's messages and the last turns stay word for word. Old tool results become one-line stubs that name
the call, so that the model can repeat it; or a summary written by a model replaces them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from buddy.agent.budget import message_tokens
from buddy.agent.messages import AssistantMessage, Call, Message, Text, ToolMessage, UserMessage, calls_of
from buddy.agent.schema import ArgumentsError, parse_json

STUB_MIN_CHARS = 200
"""A shorter result costs no more than its stub."""


class Compaction(msgspec.Struct, frozen=True):
    """The first `through` messages of a history are shortened. `summary` is "" when only results were
    dropped."""

    through: int
    summary: str = ""


def plan(history: Sequence[Message], target_tokens: int, *, keep_turns: int = 2) -> Compaction | None:
    """Return the smallest compaction that keeps the last turns, or fewer of them where those alone are too
    large.

    None when there is nothing left to drop. The boundary never lies between a call and its result.
    """
    starts = [at for at, message in enumerate(history) if _opens_turn(message)]
    for kept in range(keep_turns, 0, -1):
        if len(starts) >= kept:
            found = Compaction(starts[-kept])
            if _saves(found, history) and _size(apply_compaction(found, history)) <= target_tokens:
                return found
    inside = _exchange_boundaries(history)
    for at in inside:
        found = Compaction(at)
        if _saves(found, history) and _size(apply_compaction(found, history)) <= target_tokens:
            return found
    last = Compaction(inside[-1]) if inside else None
    return last if last is not None and _saves(last, history) else None


def apply_compaction(compaction: Compaction | None, history: Sequence[Message]) -> Sequence[Message]:
    """Return the history shortened by a compaction."""
    if compaction is None or compaction.through == 0:
        return history
    old, recent = history[: compaction.through], history[compaction.through :]
    kept = _replace_by_summary(old, compaction.summary) if compaction.summary else _stub_results(old)
    return [*kept, *recent]


class CompactedView:
    """A compacted view of a growing history. Each message is shortened once, so that caches keyed by the
    message stay valid."""

    def __init__(self) -> None:
        self._compaction: Compaction | None = None
        self._kept: Sequence[Message] = ()

    def apply(self, compaction: Compaction | None, history: Sequence[Message]) -> Sequence[Message]:
        """Do the same as `apply_compaction`, for a history that only grows."""
        if compaction is None or compaction.through == 0:
            return history
        if compaction is not self._compaction:
            self._compaction, self._kept = (
                compaction,
                apply_compaction(compaction, history[: compaction.through]),
            )
        return [*self._kept, *history[compaction.through :]]


def _opens_turn(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin in ("prompt", "follow_up")


def _exchange_boundaries(history: Sequence[Message]) -> list[int]:
    """Return the positions before replies; a cut there never separates a call from its result."""
    return [at for at, message in enumerate(history) if at and isinstance(message, AssistantMessage)]


def _saves(compaction: Compaction, history: Sequence[Message]) -> bool:
    old = history[: compaction.through]
    return any(isinstance(message, ToolMessage) and len(message.text) > STUB_MIN_CHARS for message in old)


def _size(history: Sequence[Message]) -> float:
    return sum(message_tokens(message) for message in history)


def _stub_results(old: Sequence[Message]) -> list[Message]:
    calls: dict[str, Call] = {}
    kept: list[Message] = []
    for message in old:
        calls.update((call.id, call) for call in calls_of(message))
        if isinstance(message, ToolMessage) and len(message.text) > STUB_MIN_CHARS:
            stub = _stub(message, calls.get(message.call_id))
            kept.append(msgspec.structs.replace(message, id=f"{message.id}~", text=stub, images=()))
        else:
            kept.append(message)
    return kept


def _stub(message: ToolMessage, call: Call | None) -> str:
    about = _subject(call) if call is not None else ""
    return (
        f"[{message.name}{about}: result of {len(message.text):,} characters dropped to save room; "
        "call it again if you need it]"
    )


def _subject(call: Call) -> str:
    try:
        data: Any = parse_json(call.arguments)
    except ArgumentsError:
        return ""
    if not isinstance(data, dict):
        return ""
    given = cast(dict[str, Any], data)
    for key in ("path", "file_path", "command", "pattern", "url", "query"):
        value = given.get(key)
        if isinstance(value, str):
            return f" {value[:160]}"
    return ""


def _replace_by_summary(old: Sequence[Message], summary: str) -> list[Message]:
    words: list[Message] = [message for message in old if isinstance(message, UserMessage)]
    note = UserMessage(f"summary-{len(old)}", (Text(summary),), "summary")
    return [*words, note]
