"""Rewriting of a journal from the session's state, after it lost lines that the snapshot still holds, or its
first line."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from buddy.safety.seal import Seal
from buddy.sessions.line_codec import encode
from buddy.sessions.records import (
    Compacted,
    FocusSet,
    QueueChanged,
    Record,
    Renamed,
    SessionHeader,
)
from buddy.sessions.replay import Checkpoint, SessionState, TaskRecord

Numbered = tuple[str, int, Record]
"""A record's kind, its task_id, and the record."""


def records_of(state: SessionState) -> Iterator[Numbered]:
    """Yield records that produce this state. A cut reply is part of the history already."""
    for task in state.tasks:
        bare = msgspec.structs.replace(task.task, copy_of=0, copied=0)  # its history follows in full
        yield "task", task.task_id, bare
    for task in state.tasks:
        mine = [checkpoint for checkpoint in state.checkpoints if checkpoint.task_id == task.task_id]
        yield from _records_of_task(task, mine)
    known = {task.task_id for task in state.tasks}
    for lost in state.checkpoints:
        if lost.task_id not in known:
            yield "checkpoint", lost.task_id, lost.taken
    if state.name or state.title:
        yield "renamed", 0, Renamed(state.name, state.title)
    if state.budget is not None:
        yield "budget", 0, state.budget
    for grant in state.grants:
        yield "grant", 0, grant
    for job, task_id in zip(state.jobs, state.job_tasks, strict=False):
        yield "job", task_id, job
    if state.focus:
        yield "focus", state.focus, FocusSet()
    if state.notes:
        task_id = state.focus or (state.tasks[0].task_id if state.tasks else 1)
        task = next((one for one in state.tasks if one.task_id == task_id), None)
        queued, steering = (task.queued, task.steering) if task is not None else ((), ())
        yield "queue", task_id, QueueChanged(queued, steering, state.notes)


def _records_of_task(task: TaskRecord, checkpoints: list[Checkpoint]) -> Iterator[Numbered]:
    number = task.task_id
    waiting = sorted(checkpoints, key=lambda one: one.at)
    history = task.history if task.partial is None else (*task.history, task.partial)
    for at, message in enumerate(history):
        while waiting and waiting[0].at <= at:
            yield "checkpoint", number, waiting.pop(0).taken
        yield "message", number, message
    for one in waiting:
        yield "checkpoint", number, one.taken
    if task.compaction is not None:
        yield "compacted", number, Compacted(task.compaction)
    if task.queued or task.steering:
        yield "queue", number, QueueChanged(task.queued, task.steering)
    for begun in task.begun:
        yield "tool_begin", number, begun
    for ended in task.ended:
        yield "tool_end", number, ended
    for asked in task.approvals:
        yield "approval", number, asked
    if task.usage is not None:
        yield "usage", number, task.usage
    if task.budget is not None:
        yield "budget", number, task.budget
    if task.receipt is not None:
        yield "receipt", number, task.receipt
    if task.task.copy_of:
        yield "task", number, task.task


def journal_of(header: SessionHeader, state: SessionState, at: float, seal: Seal) -> tuple[bytes, ...]:
    """Return the lines of a journal with this header and state."""
    lines = [encode(1, "session", 0, header.created_at, header, seal)]
    for kind, task_id, record in records_of(state):
        lines.append(encode(len(lines) + 1, kind, task_id, at, record, seal))
    return tuple(lines)
