"""Commands about the program itself: help, leaving."""

from __future__ import annotations

from collections.abc import Callable

from buddy.repl.blocks import Block, NoteBlock, PlainText, TableBlock
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

FIRST_WORDS = (
    "Type what you want and press Enter; the prompt stays free while the model works, and Esc stops it."
)
EXAMPLES = (
    ("more while it works", "Enter steers it at its next step, Tab (or /queue) waits until it is done"),
    ("a second task", "write tests for it & · @2 use pytest · /ps · /fg 2"),
    (
        "it asks for an approval",
        "y, a, p or n and Enter, when you are ready; no other key is taken for an answer",
    ),
    ("files, shell", "@path attaches a file, !command runs one and shares it, !!command keeps it private"),
    ("coming back", "/session, /resume, buddy resume --last"),
)


def short_help(commands: Commands) -> tuple[Block, ...]:
    """The help that fits a screen: the commands of every day, and the way to the others."""
    rows = tuple((one.line(), one.help) for one in commands.all() if one.essential)
    others = len(_present(commands)) - len(rows)
    more = f"/help all lists {others} more · /help COMMAND explains one · ? and Enter lists the keys"
    return PlainText(FIRST_WORDS), TableBlock((), EXAMPLES), TableBlock((), rows), NoteBlock("hint", more)


def help_tables(commands: Commands) -> tuple[TableBlock, ...]:
    """All commands that do something, generated from the registry, one table a family."""
    tables: list[TableBlock] = []
    for family, title in _FAMILIES.items():
        rows = tuple((one.line(), one.help) for one in _present(commands) if one.family == family)
        if rows:
            tables.append(TableBlock((title, ""), rows))
    return tuple(tables)


def _present(commands: Commands) -> list[SlashCommand]:
    """Commands without those that only say what this version lacks."""
    return [one for one in commands.all() if not one.help.endswith("not in this version)")]


def help_of(commands: Commands, name: str) -> str:
    """One command. Raises `CommandError`."""
    one = commands.find(name.removeprefix("/"))
    also = f"\nalso: {', '.join('/' + alias for alias in one.aliases)}" if one.aliases else ""
    return f"{one.line()}\n  {one.help}{also}"


def help_command(commands: Callable[[], Commands]) -> SlashCommand:
    """`/help` over the finished registry."""

    @command(family="talk", name="help", usage="[all|COMMAND]", aliases=("h", "?"), completes=("command",))
    async def help_(context: Context, argument: str) -> None:
        """List the commands of every day, all of them, or explain one"""
        if argument == "all":
            context.stage.print(*help_tables(commands()))
        elif argument:
            context.stage.print(PlainText(help_of(commands(), argument)))
        else:
            context.stage.print(*short_help(commands()))

    return help_


@command(family="talk")
async def keys(context: Context, argument: str) -> None:
    """List the keys"""
    context.stage.print(TableBlock((), KEY_HELP))


@command(family="talk", aliases=("exit", "q"), destructive=True, essential=True)
async def quit_(context: Context, argument: str) -> None:
    """Leave; what runs is cancelled, the session can be resumed"""
    context.stage.leave()


COMMANDS = (keys, quit_)
