"""Commands about the program itself: help, leaving."""

from __future__ import annotations

from collections.abc import Callable

from buddy.repl.blocks import PlainText
from buddy.repl.commands.registry import Commands, SlashCommand, command
from buddy.repl.keys import KEY_HELP
from buddy.repl.port import Context

_FAMILIES = {
    "talk": "this program",
    "tasks": "tasks",
    "approvals": "approvals",
    "session": "sessions and context",
    "models": "models and money",
    "workspace": "workspace",
    "screen": "screen",
}


def help_text(commands: Commands, name: str = "") -> str:
    """The help, generated from the registry; of one command if named."""
    if name:
        one = commands.find(name.removeprefix("/"))
        also = f"\nalso: {', '.join('/' + alias for alias in one.aliases)}" if one.aliases else ""
        return f"{one.line()}\n  {one.help}{also}"
    lines: list[str] = []
    for family, title in _FAMILIES.items():
        members = [one for one in commands.all() if one.family == family]
        if members:
            lines.append(f"{title}")
            lines += [f"  {one.line():<30} {one.help}" for one in members]
    lines.append(
        "\n? alone shows the keys. Text & starts a background task, @3 text talks to task 3, ! runs a shell."
    )
    return "\n".join(lines)


def help_command(commands: Callable[[], Commands]) -> SlashCommand:
    """`/help` over the finished registry."""

    @command(family="talk", name="help", usage="[COMMAND]", aliases=("h", "?"))
    async def help_(context: Context, argument: str) -> None:
        """List the commands, or explain one"""
        context.stage.print(PlainText(help_text(commands(), argument)))

    return help_


@command(family="talk")
async def keys(context: Context, argument: str) -> None:
    """List the keys"""
    context.stage.print(PlainText("\n".join(f"{name:24} {what}" for name, what in KEY_HELP)))


@command(family="talk", aliases=("exit", "q"))
async def quit_(context: Context, argument: str) -> None:
    """Leave; what runs is cancelled, the session can be resumed"""
    context.stage.leave()


COMMANDS = (keys, quit_)
