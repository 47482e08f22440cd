"""The event pump: folds events a few milliseconds at a time, so that no key waits for a long answer or for
many short pieces."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator

from msgspec.structs import replace

from buddy.agent.events import TaskEvent, TextDelta, ThinkingDelta, ToolCallDelta, TurnFinished, TurnStarted
from buddy.repl.view.blocks import Block
from buddy.repl.view.state import SessionFacts, ViewState
from buddy.repl.view.view import focus, fold

STEP_S = 0.004
"""The longest a key waits for folding, apart from one slice."""
SLICE_CHARS = 4096
"""Longer pieces are sliced; folding one slice takes 1 to 5 ms."""


class EventPump:
    """The buffer of events that are not folded yet. `facts` returns the session's current facts, so that a
    turn that starts and ends between two frames still gets its name; `show` prints blocks."""

    def __init__(
        self,
        state: ViewState,
        facts: Callable[[], SessionFacts],
        show: Callable[[list[Block]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._facts = facts
        self._show = show
        self._clock = clock
        self._waiting: deque[TaskEvent] = deque()

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> None:
        """Fold all events, and let keys run between two steps."""
        async for batch in events:
            for event in batch:
                self._waiting.extend(slices(event))
            while self._waiting:
                self.step(STEP_S)
                if self._waiting:
                    await asyncio.sleep(0)

    def step(self, seconds: float = float("inf")) -> None:
        """Fold waiting events for at least this long."""
        until = self._clock() + seconds
        blocks: list[Block] = []
        while self._waiting:
            event = self._waiting.popleft()
            if isinstance(event.event, TurnStarted | TurnFinished):
                blocks += focus(self._state, self._facts())
            blocks += fold(self._state, event)
            if self._clock() >= until:
                break
        self._show(blocks)


def slices(event: TaskEvent) -> Iterator[TaskEvent]:
    """Yield the event, or several for a piece of an answer that is too long."""
    match event.event:
        case TextDelta(text=text) | ThinkingDelta(text=text) if len(text) > SLICE_CHARS:
            for part in _parts(text):
                yield replace(event, event=replace(event.event, text=part))
        case ToolCallDelta(arguments=arguments) if len(arguments) > SLICE_CHARS:
            for part in _parts(arguments):
                yield replace(event, event=replace(event.event, arguments=part))
        case _:
            yield event


def _parts(text: str) -> list[str]:
    return [text[at : at + SLICE_CHARS] for at in range(0, len(text), SLICE_CHARS)]
