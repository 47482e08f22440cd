"""Where intents go: to the desk, or, until it is open, into a queue. Imported before the first frame, so it
knows nothing of the rooms below."""

from __future__ import annotations

from typing import Protocol

from buddy.repl.intents import Intent
from buddy.repl.view_state import DeskFacts


class Carrier(Protocol):
    """A desk that carries out intents."""

    def act(self, intent: Intent) -> None:
        """Carry out an intent."""
        ...

    def facts(self) -> DeskFacts:
        """What the screen shows but does not come as events."""
        ...


class Controller:
    """Hands intents to the desk. Before it is open, and between two of them, they wait in order."""

    def __init__(self, early: DeskFacts) -> None:
        self._early = early
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
        if self._desk is None:
            self._waiting.append(intent)
        else:
            self._desk.act(intent)

    def facts(self) -> DeskFacts:
        """What the screen shows but does not come as events."""
        return self._early if self._desk is None else self._desk.facts()
