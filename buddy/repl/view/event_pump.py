"""Events folded as they come, a few milliseconds at a time: no key waits for a long piece of an answer, nor
for many short ones.
"""

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
"""A key waits so long, and for one slice."""
SLICE_CHARS = 4096
"""Of a longer piece; 1 to 5 ms."""


class Folding:
    """Buffer of events that arrived and are not folded yet. `facts` returns the session's current facts, so
    that a turn that begins and ends between two frames still gets its name. `show` receives the blocks to
    print."""

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
        self._come: deque[TaskEvent] = deque()

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> None:
        """Fold all events, and give way to keys between two steps."""
        async for batch in events:
            for event in batch:
                self._come.extend(slices(event))
            while self._come:
                self.step(STEP_S)
                if self._come:
                    await asyncio.sleep(0)

    def step(self, seconds: float = float("inf")) -> None:
        """Fold what has come, for so long at least."""
        until = self._clock() + seconds
        blocks: list[Block] = []
        while self._come:
            event = self._come.popleft()
            if isinstance(event.event, TurnStarted | TurnFinished):
                blocks += focus(self._state, self._facts())
            blocks += fold(self._state, event)
            if self._clock() >= until:
                break
        self._show(blocks)


def slices(event: TaskEvent) -> Iterator[TaskEvent]:
    """The event, or a piece of an answer that is too long as several of them."""
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
