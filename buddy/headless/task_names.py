"""Ids of background work as programs see them: `task-3` is a subagent, `job-2` a command."""

from __future__ import annotations

from buddy.agent.formatting import whole_number

TASK_PREFIX = "task-"
JOB_PREFIX = "job-"


def task_name(number: int) -> str:
    """Return the id of a subagent's task."""
    return f"{TASK_PREFIX}{number}"


def task_number(name: str) -> int | None:
    """Return the number in an id; None for what is no id."""
    _, dash, number = name.partition("-")
    return whole_number(number) if dash and name.startswith((TASK_PREFIX, JOB_PREFIX)) else None
