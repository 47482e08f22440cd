"""Commands about buddy itself: help, leaving."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
from collections.abc import Sequence

from buddy.repl.commands.registry import (
    FAMILIES,
    CommandError,
    Commands,
    builtin_commands,
    command,
)
from buddy.repl.context import Context
from buddy.repl.input.keys import KEY_HELP
from buddy.repl.render.markdown import closed_blocks
from buddy.repl.view.blocks import Block, NoteBlock, PlainText, TableBlock
from buddy.safety.sanitise import visible

FIRST_WORDS = (
    "Type what you want and press Enter; the prompt stays free while the model works, and Esc stops it."
)
EXAMPLES = (
    ("while it works", "Enter steers it at its next step, Tab (or /queue) sends after it is done"),
    ("a second task", "write tests for it & · @2 use pytest · /ps · /fg 2"),
    (
        "when it asks for approval",
        "y, a, p or n and Enter, when you are ready; no other key answers",
    ),
    ("files, shell", "@path attaches a file, !command runs one and shares it, !!command keeps it private"),
    ("coming back", "/session, /resume, buddy resume --last"),
)


def short_help(commands: Commands) -> tuple[Block, ...]:
    """Return the help that fits on a screen: everyday commands and where to find the rest."""
    rows = tuple((entry.line(), entry.help) for entry in commands.all() if entry.essential)
    others = len(commands.all()) - len(rows)
    more = f"/help all lists {others} more · /help NAME explains one · /help topics is the manual · ?: keys"
    return PlainText(FIRST_WORDS), TableBlock((), EXAMPLES), TableBlock((), rows), NoteBlock("hint", more)


def help_tables(commands: Commands) -> tuple[TableBlock, ...]:
    """Return the tables of all working commands, one per family."""
    tables: list[TableBlock] = []
    for family, title in FAMILIES.items():
        rows = tuple((entry.line(), entry.help) for entry in commands.all() if entry.family == family)
        if rows:
            tables.append(TableBlock((title, ""), rows))
    return tuple(tables)


def explain(commands: Commands, word: str) -> Sequence[Block]:
    """Return a page of the manual, or a command and the page about it. A topic takes precedence over a
    command of the same name unless it is written with a slash. Raises `CommandError`."""
    from buddy.extend.manual import (  # imported here: few sessions read the manual
        NoSuchTopicError,
        find_topic,
        topics,
    )

    name = word.removeprefix("/")
    page = None
    with contextlib.suppress(NoSuchTopicError):
        page = find_topic(name)
    if page is not None and name == word and (name == page.name or name not in commands.names()):
        return closed_blocks(page.flowing())
    try:
        entry = commands.find(name)
    except CommandError as error:
        if any(other.startswith(name) for other in commands.names()):
            raise  # an ambiguous beginning
        near = difflib.get_close_matches(name, (*commands.names(), *(topic.name for topic in topics())), n=1)
        hint = f"; did you mean /help {near[0]}?" if near else "."
        raise CommandError(
            f"there is no command and no page of the manual called {visible(word)!r}{hint} "
            "/help lists the commands, /help topics the pages"
        ) from error
    also = f"\nalso: {', '.join('/' + alias for alias in entry.aliases)}" if entry.aliases else ""
    command_ = PlainText(f"{entry.line()}\n  {entry.help}{also}")
    return (command_, NoteBlock("hint", f"/help {find_topic(entry.name).name} says more"))


@command(
    family="talk",
    usage="[all|TOPIC|COMMAND]",
    aliases=("h", "?"),
    completes=("topic", "command"),
)
async def help_(context: Context, argument: str) -> None:
    """List the everyday commands, or all; explain a command, or show a page of the manual"""
    commands = builtin_commands()
    if argument == "all":
        context.screen.print(*help_tables(commands))
    elif argument:
        context.screen.print(*await asyncio.to_thread(explain, commands, argument))
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
