"""Saving of a streaming reply at least once a second: only its growth is written.

The final `message` record supersedes the pieces. If the process dies before it, they become a reply with
finish "cut".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    AssistantPart,
    Call,
    ServerItem,
    Text,
    Thinking,
)
from buddy.sessions.records import PartGrowth, PartialGrown, redact_reply

INTERVAL_S = 0.7
"""Together with the loop's pause, `LINGER_S` and the sync this stays below one second."""
LINGER_S = 0.1
"""Growth waits this long for that of other tasks: fifty tasks make ten writes a second, not seventy."""

Clean = Callable[[AssistantMessage], AssistantMessage]
"""Redacts a reply."""


class PartialWriter:
    """Receives each state of a reply and appends its growth at most once in `interval_s`. The reply is
    redacted only then, because that takes time proportional to its length. One per task, on the event
    loop."""

    def __init__(
        self,
        append: Callable[[PartialGrown], object],
        *,
        clean: Clean = redact_reply,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._append = append
        self._clean = clean
        self._interval_s = interval_s
        self._written: AssistantMessage | None = None
        self._latest: AssistantMessage | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_at = float("-inf")

    def update(self, reply: AssistantMessage) -> None:
        """Accept the current reply; write it at once, or when the interval since the last line is over."""
        self._latest = reply
        if self._timer is None:
            loop = asyncio.get_running_loop()
            delay_s = self._last_at + self._interval_s - loop.time()
            self._timer = loop.call_later(max(0.0, delay_s), self._write)

    def stop(self) -> None:
        """Write nothing more of this reply, because it was recorded or given up."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._written = self._latest = None

    def flush(self) -> None:
        """Write the growth since the last line now."""
        if self._timer is not None:
            self._timer.cancel()
            self._write()

    def _write(self) -> None:
        self._timer = None
        if self._latest is None:
            return
        reply = self._clean(self._latest)
        known = self._written if self._written is not None and self._written.id == reply.id else None
        growth = growth_between(known.parts if known is not None else (), reply.parts)
        if growth:
            self._append(PartialGrown(reply.id, reply.model, reply.lane, growth))
            self._written = reply
            self._last_at = asyncio.get_running_loop().time()


def growth_between(old: tuple[AssistantPart, ...], new: tuple[AssistantPart, ...]) -> tuple[PartGrowth, ...]:
    """Return the growth from `old` to `new`. Parts are never removed."""
    found: list[PartGrowth] = []
    for at, part in enumerate(new):
        before = old[at] if at < len(old) else None
        if before is part or before == part:
            continue
        body = _body(part)
        keep = len(_body(before)) if before is not None and _extends(part, before) else 0
        found.append(PartGrowth(at, keep, _with_body(part, body[keep:])))
    return tuple(found)


def apply_growth(
    parts: tuple[AssistantPart, ...], growth: tuple[PartGrowth, ...]
) -> tuple[AssistantPart, ...]:
    """Apply growth to parts; the inverse of `growth_between`. Growth that does not fit (lines between were
    lost) is taken as it is."""
    found = list(parts)
    for piece in growth:
        if 0 <= piece.at < len(found):
            kept = _body(found[piece.at])[: max(0, piece.keep)]
            found[piece.at] = _with_body(piece.part, kept + _body(piece.part))
        else:
            found.append(piece.part)
    return tuple(found)


def cut_reply(last: PartialGrown, parts: tuple[AssistantPart, ...]) -> AssistantMessage:
    """Return the known part of an unfinished reply."""
    return AssistantMessage(last.reply_id, parts, last.model, last.lane, "cut", NO_USAGE)


def _extends(part: AssistantPart, before: AssistantPart) -> bool:
    return type(part) is type(before) and _body(part).startswith(_body(before))


def _body(part: AssistantPart) -> str:
    match part:
        case Text() | Thinking():
            return part.text
        case Call():
            return part.arguments
        case ServerItem():
            return ""


def _with_body(part: AssistantPart, body: str) -> AssistantPart:
    match part:
        case Text() | Thinking():
            return msgspec.structs.replace(part, text=body)
        case Call():
            return msgspec.structs.replace(part, arguments=body)
        case ServerItem():
            return part
