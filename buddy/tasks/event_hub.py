"""Events from tasks to front ends: writing never blocks, and there can be any number of readers.

Consecutive deltas of one block are merged while they wait; nothing is dropped. When too much waits, `ready`
is cleared and the provider streams pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

import msgspec

from buddy.agent import events as ev

Field = Literal["text", "arguments"]

HIGH_WATER_CHARS = 512_000
"""Waiting text of the slowest reader at which streams pause."""


class _Entry:
    """A waiting event; `more` holds later text for its `field`."""

    __slots__ = ("appended", "at", "event", "field", "key", "task_id")

    def __init__(
        self,
        task_id: int,
        at: float,
        event: ev.AgentUiEvent,
        field: Field | None,
        key: tuple[object, ...] | None,
    ) -> None:
        self.task_id = task_id
        self.at = at
        self.event = event
        self.field = field
        self.key = key
        self.appended: list[str] = []

    def merge(self) -> ev.AgentUiEvent:
        if self.field is None or not self.appended:
            return self.event
        text = "".join((getattr(self.event, self.field), *self.appended))
        return msgspec.structs.replace(self.event, **{self.field: text})


class EventReader:
    """One front end's queue of events. Read it with `batch()`; close it at the end."""

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
        event: ev.AgentUiEvent,
        field: Field | None,
        key: tuple[object, ...] | None,
    ) -> None:
        """Add an event; called by the hub."""
        piece: str = getattr(event, field) if field is not None else ""
        last = self._last.get(task_id)
        if key is not None and last is not None and last.key == key:
            last.appended.append(piece)
        else:
            entry = self._last[task_id] = _Entry(task_id, at, event, field, key)
            self._entries.append(entry)
        self.waiting_chars += len(piece)
        self._wake.set()

    def drain(self) -> list[ev.TaskEvent]:
        """Return all waiting events without waiting."""
        entries, self._entries = self._entries, []
        self._last.clear()
        self._wake.clear()
        self.waiting_chars = 0
        self._hub.resume_streams()
        return [self._number(entry) for entry in entries]

    def _number(self, entry: _Entry) -> ev.TaskEvent:
        seq = self._seq.get(entry.task_id, 0) + 1
        self._seq[entry.task_id] = seq
        return ev.TaskEvent(entry.task_id, seq, entry.at, entry.merge())

    async def batch(self) -> list[ev.TaskEvent]:
        """Wait for events and return all of them; empty only after `close()`."""
        while not self._entries and not self._closed:
            await self._wake.wait()
            self._wake.clear()
        return self.drain()

    def close(self) -> None:
        """Receive no more events; a waiting `batch()` returns the rest."""
        self._closed = True
        self._hub.remove(self)
        self._wake.set()


class EventHub:
    """Distributes the events of all tasks to every reader."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._readers: list[EventReader] = []
        self.ready = asyncio.Event()
        self.ready.set()

    def reader(self) -> EventReader:
        """Add a reader for events from now on."""
        reader = EventReader(self)
        self._readers.append(reader)
        return reader

    def remove(self, reader: EventReader) -> None:
        """Remove a closed reader."""
        if reader in self._readers:
            self._readers.remove(reader)
        self.resume_streams()

    def emit(self, task_id: int, event: ev.AgentUiEvent) -> None:
        """Pass an event to every reader; never blocks."""
        field, key = _merge_key(event)
        at = self._now()
        for reader in self._readers:
            reader.put(task_id, at, event, field, key)
            if reader.waiting_chars > HIGH_WATER_CHARS:
                # This only pauses the provider streams: other events still arrive, and none is dropped.
                self.ready.clear()

    def resume_streams(self) -> None:
        """Let streams continue once no reader is too far behind."""
        if not self.ready.is_set() and all(
            reader.waiting_chars <= HIGH_WATER_CHARS for reader in self._readers
        ):
            self.ready.set()


def _merge_key(event: ev.AgentUiEvent) -> tuple[Field | None, tuple[object, ...] | None]:
    """Return the field whose text can grow while the event waits, and the key of the block it belongs to."""
    match event:
        case ev.TextDelta() | ev.ThinkingDelta():
            return "text", (type(event), event.reply_id, event.block)
        case ev.ToolCallDelta():
            return "arguments", (ev.ToolCallDelta, event.call_id, event.name)
        case ev.ToolProgress():
            return "text", (ev.ToolProgress, event.call_id)
        case (
            ev.TurnStarted()
            | ev.SteeringAccepted()
            | ev.ReplyStarted()
            | ev.ReplyFinished()
            | ev.ToolStarted()
            | ev.ToolFinished()
            | ev.ApprovalRequested()
            | ev.ApprovalResolved()
            | ev.TokenUsage()
            | ev.RetryScheduled()
            | ev.LibraryLoading()
            | ev.ContextCompacted()
            | ev.Notice()
            | ev.TurnFinished()
        ):
            return None, None
