"""The registry of slash commands. It finds every `@command` in the modules of this folder; help, completion
and nearest names are read from it."""

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
Kind = Literal["task", "session", "model", "path", "command", "request", "question", "prompt", "topic"]
"""What an argument names: the completion offers what there is of it."""

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
"""How much of a name has to be right: with less, /deleg would be /model."""


class CommandError(Exception):
    """A command that can't be carried out; one sentence for the person."""


class SlashCommand(msgspec.Struct, frozen=True):
    """A declared command. `usage` is what follows the name ("" for nothing); `destructive` ones must be
    written out, their prefixes don't work. `choices` completes the first argument; what the next one names
    (the first, where there are no choices) is `completes`, and `then` completes the one after. `sends`: it
    sends text, which must keep its order. `essential`: it belongs to the short help and is offered first;
    `only_explains`: it does nothing but say what to do instead, and is offered last."""

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
        """Name and usage."""
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
    """Declare a command: an async function of (context, argument text). Its docstring's first line is its
    help."""

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
    """Commands by name. Names and aliases are unique."""

    def __init__(self, commands: Iterable[SlashCommand]) -> None:
        self._commands: dict[str, SlashCommand] = {}
        self._names: dict[str, SlashCommand] = {}
        for one in commands:
            self._commands[one.name] = one
            for name in (one.name, *one.aliases):
                if name in self._names:
                    raise ValueError(f"two commands are called /{name}")
                self._names[name] = one

    def all(self) -> tuple[SlashCommand, ...]:
        """All of them, in the order they were declared."""
        return tuple(self._commands.values())

    def names(self) -> tuple[str, ...]:
        """All names and aliases."""
        return tuple(self._names)

    def find(self, name: str) -> SlashCommand:
        """The command of a name, an alias, or a unique beginning. Raises `CommandError` with the nearest
        name."""
        exact = self._names.get(name)
        if exact is not None:
            return exact
        beginning = {one.name: one for key, one in self._names.items() if name and key.startswith(name)}
        if len(beginning) == 1:
            found = next(iter(beginning.values()))
            if found.destructive:
                raise CommandError(f"/{found.name} is destructive: type its full name")
            return found
        if beginning:
            raise CommandError(f"/{name} could be {', '.join(f'/{one}' for one in sorted(beginning))}")
        swapped = [one for one in self._names if sorted(one) == sorted(name)]  # the same letters are nearest
        near = swapped or difflib.get_close_matches(name, self._names, n=1, cutoff=NEAR)
        hint = f"; did you mean /{near[0]}?" if near else "; /help lists them"
        raise CommandError(f"there is no /{name}{hint}")


def builtin_commands() -> Commands:
    """Return every command declared in a module of this folder, by family; those of a family's own module
    come first."""
    order = list(FAMILIES)
    found = sorted(_declared(), key=lambda one: (order.index(one[1].family), one[0] != one[1].family))
    return Commands(one for _, one in found)


def _declared() -> Iterator[tuple[str, SlashCommand]]:
    """Module name and command, in the order of names and of declarations."""
    for file in sorted(os.listdir(os.path.dirname(__file__))):
        name, _, ending = file.partition(".")
        if ending != "py":
            continue
        # By name, so that a new module needs no list. Nothing leaves this room: import-linter sees what the
        # modules themselves import.
        module = importlib.import_module(f"{__package__}.{name}")
        for one in vars(module).values():
            if isinstance(one, SlashCommand) and one.run.__module__ == module.__name__:
                yield name, one
