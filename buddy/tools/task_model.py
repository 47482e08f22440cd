"""The model of the task a tool runs in, as far as tools may know it: its name, its eyes, its budget."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import msgspec


class TaskModel(msgspec.Struct, frozen=True):
    """A service of each call. `sees` tells whether the model may be sent pictures (False where it is known
    not to take any). `expense` reserves so many dollars in the budgets until its block ends; it gives the
    reason why they may not be spent, "" where they may. `charge` counts dollars that were spent (None: an
    unknown amount)."""

    name: Callable[[], str]
    sees: Callable[[], bool]
    expense: Callable[[float], AbstractAsyncContextManager[str]]
    charge: Callable[[float | None], None]
