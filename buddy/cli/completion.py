"""`buddy completion SHELL`: a script that completes commands, options and names in bash, zsh and fish."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import shtab

from buddy.app.launch import find_launch, read_settings
from buddy.app.options import Options, UsageError
from buddy.app.session_store import open_store
from buddy.app.stderr import tell
from buddy.cli.arguments import CHOICES, COMMANDS, OPTIONS
from buddy.config.settings import ConfigError
from buddy.extend.manual import topics
from buddy.headless.exit_codes import CONFIGURATION
from buddy.safety.policy.decide import MODES

SHELLS = ("bash", "zsh", "fish")
NAMES = ("profiles", "sessions")
"""What the scripts ask buddy for while the person types: `buddy completion sessions` prints one a line."""
_BY_PLACEHOLDER = {"NAME": "profiles", "PROFILE": "profiles", "ID": "sessions", "ID|NAME": "sessions"}
_FILES = {"FILE": shtab.FILE, "CONFIG": shtab.FILE, "PATH": shtab.FILE, "DIR": shtab.DIRECTORY}
_MAX_NAMES = 200
_PREAMBLE = {
    "bash": "".join(
        f'_buddy_{names}() {{ compgen -W "$(buddy completion {names} 2>/dev/null)" -- "$1"; }}\n'
        for names in NAMES
    ),
    "zsh": "".join(
        f'_buddy_{names}() {{ compadd -- ${{(f)"$(buddy completion {names} 2>/dev/null)"}} }}\n'
        for names in NAMES
    ),
}


def completion(options: Options, environment: Mapping[str, str]) -> int:
    """Print the script for a shell, or the names it asks for. Return the exit code; raises `UsageError`."""
    match options.words:
        case ("fish",):
            sys.stdout.write(fish_script())
        case ("bash" | "zsh" as shell,):
            sys.stdout.write(shtab.complete(build_parser(), shell, preamble=_PREAMBLE))
        case ("profiles" | "sessions" as names,):
            try:
                sys.stdout.writelines(f"{name}\n" for name in _list_names(names, options, environment))
            except ConfigError as error:
                tell(f"buddy: {error}\n")
                return CONFIGURATION
        case _:
            wanted = shlex.join(options.words) or "nothing"
            raise UsageError(f"expected: buddy completion {'|'.join(SHELLS)}; found {wanted}")
    return 0


def _list_names(names: str, options: Options, environment: Mapping[str, str]) -> list[str]:
    """Return the names that a shell can complete without quotes. Raises `ConfigError`."""
    launch = find_launch(options, environment)
    settings = read_settings(launch, options).settings
    if names == "profiles":
        found: Iterable[str] = settings.models
    else:
        summaries = [one for one in open_store(launch, settings, tell).list() if one.matters()]
        found = [one.name or one.session_id for one in summaries[:_MAX_NAMES]]
    return [name for name in found if name and name == shlex.quote(name)]


def build_parser() -> argparse.ArgumentParser:
    """Return the command line as a parser with subcommands, which only completion reads: buddy itself accepts
    every option anywhere."""
    parser = argparse.ArgumentParser("buddy", add_help=False)
    _add_options(parser, "open")
    commands = parser.add_subparsers()
    for name, row in COMMANDS.items():
        command = commands.add_parser(name, help=row.description, description=row.description, add_help=False)
        _add_options(command, name)
        words, names = _values(name, row.words.strip("[]"))
        if words or names:
            _complete(command.add_argument("word", nargs="?", choices=words or None), names)
    return parser


def _add_options(parser: argparse.ArgumentParser, command: str) -> None:
    for names, value, takers, text in OPTIONS:
        if command not in takers.split():
            continue
        if not value.isalpha():
            parser.add_argument(*names.split(), action="store_true", help=text)
            continue
        words, kind = _values(names, value)
        _complete(parser.add_argument(*names.split(), choices=words or None, metavar=value, help=text), kind)


def _complete(action: Any, kind: str) -> None:
    """Let the shell complete files, folders or names that buddy lists."""
    if kind in _FILES:
        action.complete = _FILES[kind]
    elif kind:
        action.complete = dict.fromkeys(("bash", "zsh"), f"_buddy_{kind}")


def _values(owner: str, placeholder: str) -> tuple[tuple[str, ...], str]:
    """Return the values of a word or an option that are known, and the kind of those that are looked up: a
    placeholder of files or a name of `NAMES`."""
    if owner == "help":
        return tuple(topic.name for topic in topics()), ""
    if placeholder == "MODE":
        return tuple(MODES), ""
    for field, choices in CHOICES.items():
        if f"--{field.replace('_', '-')}" in owner.split():
            return choices, ""
    literal = tuple(word.split()[0] for word in placeholder.split("|") if word[:1].islower())
    if literal:
        return literal, ""
    first = placeholder.split("]")[0]
    return (), _BY_PLACEHOLDER.get(first, first if first in _FILES else "")


def fish_script() -> str:
    """Return the script for fish, which shtab does not write."""
    lines = ["complete -c buddy -f"]
    for name, row in COMMANDS.items():
        lines.append(_fish("__fish_use_subcommand", "-a", name, "-d", row.description))
        condition = f"__fish_seen_subcommand_from {name}"
        words, kind = _values(name, row.words.strip("[]"))
        if words or kind:
            lines.append(_fish(condition, *_fish_values(words, kind)))
        lines += (_fish(condition, *words) for words in _fish_options(name))
    lines += (_fish("__fish_use_subcommand", *words) for words in _fish_options("open"))
    return "\n".join(lines) + "\n"


def _fish_options(command: str) -> Iterator[list[str]]:
    for names, value, takers, text in OPTIONS:
        if command not in takers.split():
            continue
        parts: list[str] = []
        for name in names.split():
            parts += ["-l" if name.startswith("--") else "-s", name.lstrip("-")]
        if value.isalpha():
            parts += _fish_values(*_values(names, value)) or ["-x"]
        yield [*parts, "-d", text]


def _fish_values(words: tuple[str, ...], kind: str) -> list[str]:
    if kind in NAMES:
        return ["-x", "-a", f"(buddy completion {kind} 2>/dev/null)"]
    if kind:
        return ["-r", "-F"] if kind == "FILE" else ["-x", "-a", "(__fish_complete_directories)"]
    return ["-x", "-a", " ".join(words)] if words else []


def _fish(condition: str, *words: str) -> str:
    return " ".join(["complete -c buddy", "-n", _quote(condition), *map(_quote, words)])


def _quote(word: str) -> str:
    """Quote for fish: single quotes, in which only a backslash and a quote need an escape."""
    if word.replace("-", "").isalnum():
        return word
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
