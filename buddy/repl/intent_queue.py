"""Routing of intents to the session, or into a queue until it is open. Imported before the first frame, so it
imports nothing of the lower rooms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from buddy.repl.intents import Cancel, Intent, Prompt, Queue
from buddy.repl.view.state import DeskFacts


class Carrier(Protocol):
    """A desk that carries out intents."""

    def act(self, intent: Intent) -> None:
        """Carry out an intent."""
        ...

    def facts(self) -> DeskFacts:
        """Return the facts the screen shows that do not arrive as events."""
        ...


class Controller:
    """Hands intents to the desk. Before it is open, and between two of them, they wait in order; text that
    waits is what can be cancelled then, and `put` takes it back into the line."""

    def __init__(self, early: DeskFacts, put: Callable[[str], None]) -> None:
        self._early = early
        self._put = put
        self._desk: Carrier | None = None
        self._waiting: list[Intent] = []

    @property
    def desk(self) -> Carrier | None:
        """The desk that is open, None when there is none."""
        return self._desk

    def open(self, desk: Carrier) -> None:
        """The desk is ready: what was sent meanwhile is carried out."""
        self._desk = desk
        waiting, self._waiting = self._waiting, []
        for intent in waiting:
            desk.act(intent)

    def close(self) -> None:
        """The desk is going away."""
        self._desk = None

    def act(self, intent: Intent) -> None:
        """Carry out an intent, now or when there is a desk."""
        if self._desk is not None:
            self._desk.act(intent)
        elif isinstance(intent, Cancel):
            self.take_back()
        else:
            self._waiting.append(intent)

    def take_back(self) -> None:
        """Text that waits returns to the line."""
        if texts := self.unsent():
            self._put("\n\n".join(texts))

    def unsent(self) -> tuple[str, ...]:
        """The text that waits, which from now on it does not."""
        texts = tuple(one.text for one in self._waiting if isinstance(one, Prompt | Queue))
        self._waiting = [one for one in self._waiting if not isinstance(one, Prompt | Queue)]
        return texts

    def facts(self) -> DeskFacts:
        """Return the facts the screen shows that do not arrive as events."""
        if self._desk is not None:
            return self._desk.facts()
        return replace(self._early, coming=any(isinstance(one, Prompt | Queue) for one in self._waiting))
