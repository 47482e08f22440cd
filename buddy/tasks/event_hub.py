"""From tasks to front ends: one way in that never blocks, any number of readers.

Neighbouring pieces of one block are merged while they wait, nothing is dropped; when too much waits, `ready`
holds the provider streams back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

import msgspec

from buddy.agent.events import (
    AgentUiEvent,
    ApprovalRequested,
    ApprovalResolved,
    ContextCompacted,
    LibraryLoading,
    Notice,
    ReplyFinished,
    ReplyStarted,
    RetryScheduled,
    SteeringAccepted,
    TaskEvent,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)

Field = Literal["text", "arguments"]

HIGH_WATER_CHARS = 512_000
"""Text that may wait for the slowest reader before streams pause."""


class _Entry:
    """An event that waits; `more` is text for its `field` that came while it did."""

    __slots__ = ("at", "event", "field", "key", "more", "task_id")

    def __init__(
        self,
        task_id: int,
        at: float,
        event: AgentUiEvent,
        field: Field | None,
        key: tuple[object, ...] | None,
    ) -> None:
        self.task_id = task_id
        self.at = at
        self.event = event
        self.field = field
        self.key = key
        self.more: list[str] = []

    def whole(self) -> AgentUiEvent:
        if self.field is None or not self.more:
            return self.event
        text = "".join((getattr(self.event, self.field), *self.more))
        return msgspec.structs.replace(self.event, **{self.field: text})


class EventReader:
    """One front end's view on all events. Read it with `batch()`; close it when done."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub
        self._entries: list[_Entry] = []
        self._last: dict[int, _Entry] = {}
        self._seq: dict[int, int] = {}
        self._wake = asyncio.Event()
        self._closed = False
        self.waiting_chars = 0

    def put(
        self,
        task_id: int,
        at: float,
        event: AgentUiEvent,
        field: Field | None,
        key: tuple[object, ...] | None,
    ) -> None:
        """Take an event in; called by the hub."""
        piece: str = getattr(event, field) if field is not None else ""
        last = self._last.get(task_id)
        if key is not None and last is not None and last.key == key:
            last.more.append(piece)
        else:
            entry = self._last[task_id] = _Entry(task_id, at, event, field, key)
            self._entries.append(entry)
        self.waiting_chars += len(piece)
        self._wake.set()

    def drain(self) -> list[TaskEvent]:
        """Everything that waits, at once; empty when nothing does."""
        entries, self._entries = self._entries, []
        self._last.clear()
        self._wake.clear()
        self.waiting_chars = 0
        self._hub.relieved()
        return [self._numbered(entry) for entry in entries]

    def _numbered(self, entry: _Entry) -> TaskEvent:
        seq = self._seq.get(entry.task_id, 0) + 1
        self._seq[entry.task_id] = seq
        return TaskEvent(entry.task_id, seq, entry.at, entry.whole())

    async def batch(self) -> list[TaskEvent]:
        """Wait for something, then everything that waits. Empty only after `close()`."""
        while not self._entries and not self._closed:
            await self._wake.wait()
            self._wake.clear()
        return self.drain()

    def close(self) -> None:
        """No more events for this reader; a waiting `batch()` returns what is left."""
        self._closed = True
        self._hub.forget(self)
        self._wake.set()


class EventHub:
    """Passes the events of all tasks on to every reader."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._readers: list[EventReader] = []
        self.ready = asyncio.Event()
        self.ready.set()

    def reader(self) -> EventReader:
        """A new reader; it sees what happens from now on."""
        reader = EventReader(self)
        self._readers.append(reader)
        return reader

    def forget(self, reader: EventReader) -> None:
        """A reader closed."""
        if reader in self._readers:
            self._readers.remove(reader)
        self.relieved()

    def emit(self, task_id: int, event: AgentUiEvent) -> None:
        """Put an event; never blocks."""
        field, key = _mergeable(event)
        at = self._now()
        for reader in self._readers:
            reader.put(task_id, at, event, field, key)
            if reader.waiting_chars > HIGH_WATER_CHARS:
                self.ready.clear()

    def relieved(self) -> None:
        """A reader caught up."""
        if not self.ready.is_set() and all(one.waiting_chars <= HIGH_WATER_CHARS for one in self._readers):
            self.ready.set()


def _mergeable(event: AgentUiEvent) -> tuple[Field | None, tuple[object, ...] | None]:
    """The field whose text can grow while the event waits, and what a piece must have in common with it."""
    match event:
        case TextDelta() | ThinkingDelta():
            return "text", (type(event), event.reply_id, event.block)
        case ToolCallDelta():
            return "arguments", (ToolCallDelta, event.call_id, event.name)
        case ToolProgress():
            return "text", (ToolProgress, event.call_id)
        case (
            TurnStarted()
            | SteeringAccepted()
            | ReplyStarted()
            | ReplyFinished()
            | ToolStarted()
            | ToolFinished()
            | ApprovalRequested()
            | ApprovalResolved()
            | TokenUsage()
            | RetryScheduled()
            | LibraryLoading()
            | ContextCompacted()
            | Notice()
            | TurnFinished()
        ):
            return None, None
