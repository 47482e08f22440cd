"""Tell text that came in one piece from text that was typed. Pure.

A terminal without paste brackets (GNU screen, a serial line, `tmux paste-buffer`) sends pasted lines as keys,
and each line end as Enter. Text behind a line end or a tab, closer than a person types, is a paste: all of it
becomes one draft. An Enter that comes right behind text is held until it is quiet: what follows decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from buddy.agent.lazy_regex import pattern

TOGETHER_S = 0.025
"""Keys that are closer than this come from a program or a paste, or were brought together by the line."""
QUIET_S = 0.05
"""So long an Enter that came with text is held, and a burst waits for more."""
FAR_QUIET_S = 0.15
"""The same over a network."""
AFTER_S = 0.3
"""A connection may pause within a paste: what follows it within this time belongs to it."""

Piece = tuple[Literal["keys", "paste", "enter"], str]
"""Keys as they are; a paste; Enter with the text that came in one piece with it."""

_SEQUENCE = pattern(r"\x1b+(?:\[[0-?]*[ -/]*(?:[@-~]|$)|O(?:.|$)|[^\[O]|$)", re.DOTALL)
_OPEN_SEQUENCE = pattern(r"\x1b+(?:\[[0-?]*[ -/]*|O)?$")
_FOLLOWED = pattern(r"[\t\r\n][\t\r\n]*[^\x00-\x1f\x7f]")
_TEXT = pattern(r"[^\x00-\x1f\x7f]")
_ONLY_TEXT = pattern(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")


class Bursts:
    """Takes what was read, hands on pieces. `brackets`: this terminal puts pastes in brackets, so that a
    letter and its Enter in one read were two keys."""

    def __init__(self, clock: Callable[[], float], *, brackets: bool = True) -> None:
        self._clock = clock
        self._before = "" if brackets else "\n"
        self._open = ""
        self._run = ""
        self._held = False
        self._burst: list[str] = []
        self._heard_at = self._burst_at = self._line_at = float("-inf")

    @property
    def is_waiting(self) -> bool:
        """Tell whether keys are held back until the input pauses."""
        return self._held or bool(self._burst)

    def feed(self, data: str) -> list[Piece]:
        """Take the text of one read."""
        now = self._clock()
        if now - self._heard_at >= TOGETHER_S:
            self._open = ""
            if not self._held:
                self._run = ""
        self._heard_at = now
        whole = self._open + data
        plain = _SEQUENCE().sub("", whole)
        opened = _OPEN_SEQUENCE().search(whole)
        self._open = opened[0] if opened else ""
        line_end = "\r" if self._held else ""
        goes_on = bool(self._burst) or now - self._burst_at < AFTER_S
        if _FOLLOWED().search(line_end + plain) or (goes_on and _ONLY_TEXT().fullmatch(data)):
            self._burst.append(line_end + data)
            self._held, self._burst_at = False, now
            self._run = ""
            return []
        pieces = self.release()
        if not plain.endswith("\r") or not data.endswith("\r"):
            self._run = (self._run + plain).rpartition("\r")[2]
            return [*pieces, ("keys", data)]
        came = self._run + plain[:-1]
        if not _TEXT().search(came):
            self._run = ""
            return [*pieces, ("keys", data)]
        if now - self._line_at < AFTER_S:  # a line at a time, faster than they are typed
            self._burst.append(data)
            self._burst_at = now
            return pieces
        self._run, self._held = came, True
        return [*pieces, ("keys", data[:-1])] if len(data) > 1 else pieces

    def release(self) -> list[Piece]:
        """Return what was held back: the input paused, or something else came."""
        pieces: list[Piece] = []
        if self._burst:
            pieces.append(("paste", "".join(self._burst)))
            self._burst.clear()
        if self._held:
            pieces.append(("enter", self._before + self._run))
            if len(self._run) > 1:
                self._line_at = self._clock()
            self._held, self._run = False, ""
        return pieces
