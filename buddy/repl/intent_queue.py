"""Routing of intents to the session, or into a queue until it is open. Imported before the first frame, so it
imports nothing of the lower rooms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from buddy.repl.intents import Cancel, Intent, Prompt, Queue
from buddy.repl.view.state import SessionFacts


class Carrier(Protocol):
    """Carries out the intents of an open session."""

    def act(self, intent: Intent) -> None:
        """Carry out an intent."""
        ...

    def facts(self) -> SessionFacts:
        """Return the facts the screen shows that do not arrive as events."""
        ...


class Controller:
    """Hands intents to the dispatcher of the open session. Before one is open, and between two, they wait in
    order; text that waits is what can be cancelled then, and `put` takes it back into the line."""

    def __init__(self, early: SessionFacts, put: Callable[[str], None]) -> None:
        self._early = early
        self._put = put
        self._dispatcher: Carrier | None = None
        self._waiting: list[Intent] = []

    @property
    def dispatcher(self) -> Carrier | None:
        """The dispatcher of the open session, None when there is none."""
        return self._dispatcher

    def open(self, dispatcher: Carrier) -> None:
        """Take the dispatcher of an open session, and hand it what was sent meanwhile."""
        self._dispatcher = dispatcher
        waiting, self._waiting = self._waiting, []
        for intent in waiting:
            dispatcher.act(intent)

    def close(self) -> None:
        """Let the dispatcher go: its session closes."""
        self._dispatcher = None

    def act(self, intent: Intent) -> None:
        """Carry out an intent, now or when a session is open."""
        if self._dispatcher is not None:
            self._dispatcher.act(intent)
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

    def facts(self) -> SessionFacts:
        """Return the facts the screen shows that do not arrive as events."""
        if self._dispatcher is not None:
            return self._dispatcher.facts()
        return replace(self._early, coming=any(isinstance(one, Prompt | Queue) for one in self._waiting))
