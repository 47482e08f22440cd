"""How long work in another thread stands back for somebody who is typing."""

from __future__ import annotations

import time
from collections.abc import Callable

AFTER_KEY_S = 0.05
IN_ALL_S = 2.0
"""Somebody may type all the time, and waits for the work as well."""


class TypingPause:
    """Call it in the thread that works: it comes back when no key was pressed for a moment, or when all its
    pauses together have lasted long enough. `typed_at` is when the last key was."""

    def __init__(
        self,
        typed_at: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._typed_at = typed_at
        self._clock = clock
        self._sleep = sleep
        self._left_s = IN_ALL_S

    def __call__(self) -> None:
        """Stand back, if somebody types."""
        now = self._clock()
        while self._left_s > 0 and (rest := self._typed_at() + AFTER_KEY_S - now) > 0:
            self._sleep(min(rest, self._left_s))
            before, now = now, self._clock()
            self._left_s -= now - before
