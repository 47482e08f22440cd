"""Commands about the program itself: help, leaving."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from buddy.repl.commands.registry import (
    FAMILIES,
    CommandError,
    Commands,
    SlashCommand,
    builtin_commands,
    command,
)
from buddy.repl.context import Context
from buddy.repl.input.keys import KEY_HELP
from buddy.repl.render.markdown import closed_blocks
from buddy.repl.view.blocks import Block, NoteBlock, PlainText, TableBlock

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
    more = f"/help all lists {others} more · /help NAME explains one · /help topics is the manual · ?: keys"
    return PlainText(FIRST_WORDS), TableBlock((), EXAMPLES), TableBlock((), rows), NoteBlock("hint", more)


def help_tables(commands: Commands) -> tuple[TableBlock, ...]:
    """All commands that do something, generated from the registry, one table a family."""
    tables: list[TableBlock] = []
    for family, title in FAMILIES.items():
        rows = tuple((one.line(), one.help) for one in _present(commands) if one.family == family)
        if rows:
            tables.append(TableBlock((title, ""), rows))
    return tuple(tables)


def _present(commands: Commands) -> list[SlashCommand]:
    """Commands without those that only say what this version lacks."""
    return [one for one in commands.all() if not one.help.endswith("not in this version)")]


def explained(commands: Commands, word: str) -> Sequence[Block]:
    """The page of a topic, or a command and where the manual says more of it; a topic comes before a command
    of its name, unless that is written with its slash. Raises `CommandError`."""
    from buddy.extend.manual import NoSuchTopicError, find_topic  # here: few sessions read the manual

    name = word.removeprefix("/")
    page = None
    with contextlib.suppress(NoSuchTopicError):
        page = find_topic(name)
    if page is not None and name == word and (name == page.name or name not in commands.names()):
        return closed_blocks(page.flowing())
    try:
        one = commands.find(name)
    except CommandError as error:
        raise CommandError(f"{error}; /help topics lists the pages of the manual") from error
    also = f"\nalso: {', '.join('/' + alias for alias in one.aliases)}" if one.aliases else ""
    command_ = PlainText(f"{one.line()}\n  {one.help}{also}")
    return (command_, NoteBlock("hint", f"/help {find_topic(one.name).name} says more"))


@command(
    family="talk",
    usage="[all|TOPIC|COMMAND]",
    aliases=("h", "?"),
    completes=("topic", "command"),
)
async def help_(context: Context, argument: str) -> None:
    """List the commands of every day or all of them; explain one, or show a page of the manual"""
    commands = builtin_commands()
    if argument == "all":
        context.screen.print(*help_tables(commands))
    elif argument:
        context.screen.print(*await asyncio.to_thread(explained, commands, argument))
    else:
        context.screen.print(*short_help(commands))


@command(family="talk")
async def keys(context: Context, argument: str) -> None:
    """List the keys"""
    context.screen.print(TableBlock((), KEY_HELP))


@command(family="talk", aliases=("exit", "q"), destructive=True, essential=True)
async def quit_(context: Context, argument: str) -> None:
    """Leave; asks first while something runs. The session can be resumed"""
    context.screen.leave()
