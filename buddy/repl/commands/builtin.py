"""The one list of built-in slash commands."""

from __future__ import annotations

from buddy.repl.commands import approvals, models, rewind, session, setup, tasks, trash, workspace, worktrees
from buddy.repl.commands import btw as aside
from buddy.repl.commands import changes as undo
from buddy.repl.commands import help as talk
from buddy.repl.commands import screen as display
from buddy.repl.commands.registry import Commands


def builtin_commands() -> Commands:
    """All of them, with the help over them."""
    registry: list[Commands] = []
    help_ = talk.help_command(lambda: registry[0])
    work = (workspace, undo, trash)
    families = (talk, tasks, worktrees, aside, approvals, session, rewind, models, *work, setup, display)
    registry.append(Commands((help_, *(one for family in families for one in family.COMMANDS))))
    return registry[0]
