"""The one list of built-in slash commands."""

from __future__ import annotations

from buddy.repl.commands import (
    approvals,
    aside,
    display,
    models,
    rewind,
    session,
    setup,
    talk,
    tasks,
    trash,
    undo,
    workspace,
    worktrees,
)
from buddy.repl.commands.registry import Commands


def builtin_commands() -> Commands:
    """All of them, with the help over them."""
    registry: list[Commands] = []
    help_ = talk.help_command(lambda: registry[0])
    work = (workspace, undo, trash)
    families = (talk, tasks, worktrees, aside, approvals, session, rewind, models, *work, setup, display)
    registry.append(Commands((help_, *(one for family in families for one in family.COMMANDS))))
    return registry[0]
