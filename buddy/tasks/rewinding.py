"""Rewinding a conversation's files to before an earlier prompt."""

from __future__ import annotations

from collections.abc import Sequence

from buddy.agent.messages import AssistantMessage, calls_of
from buddy.tasks.task import Task
from buddy.workspace.undo.log import UndoEntry


def changes_since(task: Task, position: int, entries: Sequence[UndoEntry]) -> tuple[UndoEntry, ...]:
    """Return the task's changes that are not undone, from the first call after this message on."""
    calls = {
        call.id
        for one in task.history[position:]
        if isinstance(one, AssistantMessage)
        for call in calls_of(one)
    }
    first = next((index for index, entry in enumerate(entries) if entry.call_id in calls), len(entries))
    return tuple(entries[first:])


def changed_paths(entries: Sequence[UndoEntry]) -> list[str]:
    """Return the paths of changes, each once, sorted."""
    return sorted({path for entry in entries for path in entry.paths})
