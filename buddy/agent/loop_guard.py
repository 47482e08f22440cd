"""Notices a model that goes round in circles: the same call with the same answer, again and again.

Polling is fine: a call whose answer changes is progress. Limits by cases REL-029, 039 and 040.
"""

from __future__ import annotations

from typing import Literal

from buddy.agent.messages import Call
from buddy.agent.pattern import pattern

NOTICE_AT = 3
STOP_AT = 5
MAX_PERIOD = 3
MAX_MALFORMED = 3
"""Replies in a row with arguments no tool could take, before the person is asked."""

NOTICE_TEXT = (
    "\n\n[buddy: this exact call gave this exact result {count} times in a row. Nothing will change by "
    "repeating it. Try something else, or say what you are missing.]"
)

_DURATION = pattern(r"(\[exit code \d+), [\d.]+ s\]")
"""How long a command took is no news: with it, a failing command run again and again looks new each time."""

Seen = tuple[str, str, int]


class LoopGuard:
    """The exchanges of one turn, as far back as a repetition can reach."""

    def __init__(self) -> None:
        self._seen: list[Seen] = []
        self._malformed = 0
        self._is_counted = False

    def begin_reply(self) -> None:
        """The calls of another reply follow."""
        self._is_counted = False

    def observe(self, call: Call, result: str) -> tuple[Literal["ok", "notice", "stop"], int]:
        """Take note of a call and its result. `notice`: say so to the model; `stop`: end the turn. With the
        count of repetitions."""
        self._seen.append((call.name, call.arguments, hash(_DURATION().sub(r"\1]", result))))
        del self._seen[: -MAX_PERIOD * STOP_AT]
        repeated = max(self._repetitions(period) for period in range(1, MAX_PERIOD + 1))
        if repeated >= STOP_AT or self._alternates():
            return "stop", repeated
        return ("notice" if repeated >= NOTICE_AT else "ok"), repeated

    def malformed(self) -> bool:
        """A call had arguments no tool could take, or named no tool; True when the person should be asked.
        Several in one reply count once: the model reads why before it can do better."""
        self._malformed += not self._is_counted
        self._is_counted = True
        return self._malformed > MAX_MALFORMED

    def well_formed(self) -> None:
        """A call had arguments its tool could take."""
        self._malformed = 0

    def _repetitions(self, period: int) -> int:
        if len(self._seen) < period:
            return 1
        last = self._seen[-period:]
        count = 1
        while self._seen[-period * (count + 1) : -period * count] == last:
            count += 1
        return count

    def _alternates(self) -> bool:
        """A-B-A-B-A-B-A-B (or A-B-C three times): a cycle of calls counts as going in circles sooner than one
        call, because nobody polls two things with constant answers."""
        return any(self._repetitions(period) * period >= 8 for period in range(2, MAX_PERIOD + 1))
