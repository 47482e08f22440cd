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
    "setup": "set-up",
    "screen": "screen",
}

FIRST_WORDS = """\
Type what you want and press Enter; the prompt stays free while the model works, and Esc stops it.
  more while it works      Enter steers it at its next step, Tab (or /queue) waits until it is done
  a second task            write tests for it &        @2 use pytest        /ps        /fg 2
  it asks for an approval  y, a, p or n and Enter, when you are ready; what you type is never taken for one
  files, shell             @path attaches a file, !command runs one and shares it, !!command keeps it private
  coming back              /session, /resume, buddy resume --last        the keys: ? and Enter"""


def help_text(commands: Commands, name: str = "") -> str:
    """The help, generated from the registry; of one command if named."""
    if name:
        one = commands.find(name.removeprefix("/"))
        also = f"\nalso: {', '.join('/' + alias for alias in one.aliases)}" if one.aliases else ""
        return f"{one.line()}\n  {one.help}{also}"
    lines = [FIRST_WORDS, ""]
    for family, title in _FAMILIES.items():
        members = [one for one in commands.all() if one.family == family]
        if members:
            lines.append(title)
            lines += [f"  {one.line():<36} {one.help}" for one in members]
    return "\n".join(lines)


def help_command(commands: Callable[[], Commands]) -> SlashCommand:
    """`/help` over the finished registry."""

    @command(family="talk", name="help", usage="[COMMAND]", aliases=("h", "?"), completes=("command",))
    async def help_(context: Context, argument: str) -> None:
        """List the commands, or explain one"""
        context.stage.print(PlainText(help_text(commands(), argument)))

    return help_


@command(family="talk")
async def keys(context: Context, argument: str) -> None:
    """List the keys"""
    context.stage.print(PlainText("\n".join(f"{name:24} {what}" for name, what in KEY_HELP)))


@command(family="talk", aliases=("exit", "q"), destructive=True)
async def quit_(context: Context, argument: str) -> None:
    """Leave; what runs is cancelled, the session can be resumed"""
    context.stage.leave()


COMMANDS = (keys, quit_)
