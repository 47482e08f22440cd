"""The registry of slash commands. It finds every `@command` in the modules of this folder; help, completion
and suggestions read it."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from buddy.repl.context import Context

Family = Literal["talk", "tasks", "approvals", "session", "models", "workspace", "setup", "screen"]
Run = Callable[[Context, str], Awaitable[None]]
Kind = Literal[
    "task", "session", "model", "path", "command", "request", "question", "prompt", "topic", "variant"
]
"""What an argument names, for completion."""

FAMILIES: Mapping[Family, str] = {
    "talk": "this program",
    "tasks": "tasks",
    "approvals": "approvals",
    "session": "sessions and context",
    "models": "models and money",
    "workspace": "workspace",
    "setup": "set-up",
    "screen": "screen",
}
"""Families in the order of the help, with their headings."""

NEAR = 0.7
"""Required similarity of a suggestion: with less, /deleg would suggest /model."""


QUOTED_CHARS = 40


class CommandError(Exception):
    """A command that can't be carried out; one sentence for the user."""


def quote_start(text: str) -> str:
    """Return the beginning of what was typed in quotes, for the sentence of an error."""
    return repr(text if len(text) <= QUOTED_CHARS else text[:QUOTED_CHARS] + "…")


class SlashCommand(msgspec.Struct, frozen=True):
    """A declared command.

    `usage` is what follows the name, "" for nothing; `destructive` commands need their full name. `choices`
    completes the first argument, `completes` the next one (the first without choices), `then` the one after.
    `sends` marks commands that send text, which must stay in order. `essential` ones are in the short help
    and offered first; `only_explains` ones only say what to do instead, and are offered last.
    """

    name: str
    family: Family
    help: str
    usage: str
    aliases: tuple[str, ...]
    destructive: bool
    run: Run
    choices: tuple[str, ...]
    completes: tuple[Kind, ...]
    then: tuple[str, ...]
    sends: bool
    essential: bool = False
    only_explains: bool = False

    def line(self) -> str:
        """Return name and usage."""
        return f"/{self.name}{' ' + self.usage if self.usage else ''}"


def command(
    *,
    family: Family,
    name: str = "",
    usage: str = "",
    aliases: tuple[str, ...] = (),
    destructive: bool = False,
    choices: tuple[str, ...] = (),
    completes: tuple[Kind, ...] = (),
    then: tuple[str, ...] = (),
    sends: bool = False,
    essential: bool = False,
    only_explains: bool = False,
) -> Callable[[Run], SlashCommand]:
    """Declare a command: an async function of (context, argument text). The first line of its docstring is
    its help."""

    def declare(function: Run) -> SlashCommand:
        doc = inspect.cleandoc(function.__doc__ or "").split("\n")[0]
        if not doc:
            raise TypeError(f"command {function.__name__} needs a docstring: it is its help")
        return SlashCommand(
            name=name or function.__name__.strip("_"),
            family=family,
            help=doc,
            usage=usage,
            aliases=aliases,
            destructive=destructive,
            run=function,
            choices=choices,
            completes=completes,
            then=then,
            sends=sends,
            essential=essential,
            only_explains=only_explains,
        )

    return declare


class Commands:
    """The commands by name. Names and aliases are unique."""

    def __init__(self, commands: Iterable[SlashCommand]) -> None:
        self._commands: dict[str, SlashCommand] = {}
        self._names: dict[str, SlashCommand] = {}
        for entry in commands:
            self._commands[entry.name] = entry
            for name in (entry.name, *entry.aliases):
                if name in self._names:
                    raise ValueError(f"two commands are called /{name}")
                self._names[name] = entry

    def all(self) -> tuple[SlashCommand, ...]:
        """Return all commands in the order they were declared."""
        return tuple(self._commands.values())

    def names(self) -> tuple[str, ...]:
        """Return all names and aliases."""
        return tuple(self._names)

    def is_exact(self, name: str) -> bool:
        """Tell whether this is the whole name or alias of a command."""
        return name in self._names

    def find(self, name: str) -> SlashCommand:
        """Return the command with this name, alias or unique prefix. Raises `CommandError` with the nearest
        name."""
        exact = self._names.get(name)
        if exact is not None:
            return exact
        beginning = {entry.name: entry for key, entry in self._names.items() if name and key.startswith(name)}
        if len(beginning) == 1:
            entry = next(iter(beginning.values()))
            if entry.destructive:
                raise CommandError(f"/{entry.name} is destructive: type its full name")
            return entry
        if beginning:
            raise CommandError(f"/{name} could be {', '.join(f'/{known}' for known in sorted(beginning))}")
        swapped = [
            known for known in self._names if sorted(known) == sorted(name)
        ]  # swapped letters are the nearest
        near = swapped or difflib.get_close_matches(name, self._names, n=1, cutoff=NEAR)
        hint = f"; did you mean /{near[0]}?" if near else "; /help lists them"
        raise CommandError(f"there is no /{name}{hint}")


def builtin_commands() -> Commands:
    """Return every command declared in a module of this folder, by family; those of a family's own module
    first."""
    order = list(FAMILIES)
    commands = sorted(
        _find_declared(), key=lambda pair: (order.index(pair[1].family), pair[0] != pair[1].family)
    )
    return Commands(entry for _, entry in commands)


def _find_declared() -> Iterator[tuple[str, SlashCommand]]:
    """Yield module name and command, by module name and order of declaration."""
    for file in sorted(os.listdir(os.path.dirname(__file__))):
        name, _, ending = file.partition(".")
        if ending != "py":
            continue
        # By name, so that a new module needs no registration. Only this folder is imported: import-linter
        # checks what the modules themselves import.
        module = importlib.import_module(f"{__package__}.{name}")
        for value in vars(module).values():
            if isinstance(value, SlashCommand) and value.run.__module__ == module.__name__:
                yield name, value
