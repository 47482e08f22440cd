"""Text on its way: sent, and not yet part of a turn. Until then it can be taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Sent:
    """One text. `number`: the task it goes to, 0 while that is whichever is in front."""

    def __init__(self, text: str, number: int, since: float) -> None:
        self.text = text
        self.number = number
        self.since = since
        self.taken_back = asyncio.Event()


class OnTheWay:
    """Every text of a session that is on its way, in the order it was sent. Whoever hands one to a task calls
    `arrived` and hands it over without waiting for anything in between: it is taken back or it becomes a
    turn, never both and never neither."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._texts: list[Sent] = []

    def sent(self, text: str, number: int) -> Sent:
        """A text that goes to a task; "" is none, and never on its way."""
        one = Sent(text, number, self._clock())
        if text:
            self._texts.append(one)
        return one

    def arrived(self, one: Sent) -> None:
        """It can't be taken back any more."""
        if one in self._texts:
            self._texts.remove(one)

    def since(self, number: int) -> float:
        """When the last text for this task was sent, if one is on its way."""
        return max((one.since for one in self._to(number)), default=float("-inf"))

    def is_any(self, number: int) -> bool:
        """Tell whether a prompt for this task is on its way."""
        return bool(self._to(number))

    def take_back(self, number: int) -> tuple[str, ...]:
        """Withdraw the prompts on their way to this task, and return their texts."""
        taken = self._to(number)
        for one in taken:
            one.taken_back.set()
            self._texts.remove(one)
        return tuple(one.text for one in taken)

    def _to(self, number: int) -> list[Sent]:
        return [one for one in self._texts if one.number in (0, number)]
