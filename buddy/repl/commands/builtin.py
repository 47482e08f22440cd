"""The one list of built-in slash commands."""

from __future__ import annotations

from buddy.repl.commands import talk, tasks
from buddy.repl.commands.registry import Commands


def builtin_commands() -> Commands:
    """All of them, with the help over them."""
    registry: list[Commands] = []
    help_ = talk.help_command(lambda: registry[0])
    registry.append(Commands((help_, *talk.COMMANDS, *tasks.COMMANDS)))
    return registry[0]
