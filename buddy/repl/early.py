"""Stand-ins for a session until it is open: the route of intents, and the completer. Imported before
the first frame, so it imports nothing of the lower rooms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Protocol

from msgspec.structs import replace
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from buddy.repl.intents import Cancel, Intent, Prompt, Queue
from buddy.repl.view.state import SessionFacts


class Carrier(Protocol):
    """The dispatcher of an open session."""

    def act(self, intent: Intent) -> None:
        """Carry out an intent."""
        ...

    def facts(self) -> SessionFacts:
        """Return the facts the screen shows that do not arrive as events."""
        ...


class Controller:
    """Passes intents to the dispatcher of the open session.

    Before the first session and between two, intents wait in order; waiting text can be cancelled, and `put`
    returns it to the line.
    """

    def __init__(self, early: SessionFacts, put: Callable[[str], None]) -> None:
        self._early = early
        self._put = put
        self._dispatcher: Carrier | None = None
        self._waiting: list[Intent] = []

    @property
    def dispatcher(self) -> Carrier | None:
        """Return the dispatcher of the open session, None without one."""
        return self._dispatcher

    def open(self, dispatcher: Carrier) -> None:
        """Set the dispatcher of an open session and pass it the waiting intents."""
        self._dispatcher = dispatcher
        waiting, self._waiting = self._waiting, []
        for intent in waiting:
            dispatcher.act(intent)

    def close(self) -> None:
        """Remove the dispatcher: its session closes."""
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
        """Return waiting text to the line."""
        if texts := self.take_unsent():
            self._put("\n\n".join(texts))

    def take_unsent(self) -> tuple[str, ...]:
        """Remove and return the waiting text."""
        texts = tuple(intent.text for intent in self._waiting if isinstance(intent, Prompt | Queue))
        self._waiting = [intent for intent in self._waiting if not isinstance(intent, Prompt | Queue)]
        return texts

    def facts(self) -> SessionFacts:
        """Return the facts the screen shows that do not arrive as events."""
        if self._dispatcher is not None:
            return self._dispatcher.facts()
        return replace(
            self._early, coming=any(isinstance(intent, Prompt | Queue) for intent in self._waiting)
        )


def is_current(document: Document) -> bool:
    """Tell whether the line is unchanged and the pending completion menu was not closed."""
    buffer = get_app().current_buffer
    return buffer.document == document and buffer.complete_state is not None


class LateCompleter(Completer):
    """Offers what its source offers, once there is one, if the line is still the same then."""

    def __init__(self) -> None:
        self._source: Completer | None = None
        self._is_there = asyncio.Event()

    @property
    def source(self) -> Completer | None:
        """The completer, None until one is set."""
        return self._source

    @source.setter
    def source(self, source: Completer | None) -> None:
        self._source = source
        if source is None:
            self._is_there.clear()
        else:
            self._is_there.set()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: `get_completions_async` offers everything."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield the completions of the source; wait for the source when it is not set yet."""
        if is_current(document):
            await self._is_there.wait()
        if self.source is not None:
            async for offer in self.source.get_completions_async(document, complete_event):
                yield offer
