"""`buddy --help` and `buddy COMMAND --help`, from the table the command line is parsed by."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from buddy.app.options import Options
from buddy.cli.arguments import COMMANDS, OPTIONS
from buddy.repl.render.style import Line

_WIDTH, _LEFT = 79, 28


def show_usage(options: Options, environment: Mapping[str, str]) -> None:
    """Print the help of the command or of buddy itself, with colours on a terminal."""
    if not sys.stdout.isatty():
        sys.stdout.write(usage_text(options.command))
        return
    from buddy.cli.tables import show_lines  # imported here: a pipe does not need it

    show_lines(list(_help(options.command)), options, environment, sys.stdout)


def usage_text(command: str = "") -> str:
    """Return the help as plain text."""
    return (
        "".join("".join(text for _style, text in line) + "\n" for line in _help(command)).rstrip("\n") + "\n"
    )


def _help(command: str) -> Iterator[Line]:
    if command:
        words, text = COMMANDS[command].words, COMMANDS[command].description
        yield from _section("usage", [(f"buddy {command} [options] {words}".rstrip(), text)])
        yield from _section("options", _rows(command))
        return
    title = "buddy: a coding assistant for the terminal whose prompt never goes away"
    yield from _section(title, [("buddy [options] [PROMPT]", "open it and send PROMPT")])
    commands = ((f"buddy {name} {row.words}".rstrip(), row.description) for name, row in COMMANDS.items())
    yield from _section("commands", commands)
    everywhere = _rows("open")
    yield from _section("options", everywhere)
    yield from _section("without a terminal", [row for row in _rows("exec") if row not in everywhere])


def _rows(command: str) -> list[tuple[str, str]]:
    return [
        (f"{', '.join(names.split())}{'' if value[:1] in ('', '[') else ' '}{value}", text)
        for names, value, takers, text in OPTIONS
        if command in takers.split()
    ]


def _section(title: str, rows: Iterable[tuple[str, str]]) -> Iterator[Line]:
    """Yield a title and its rows: the text beside its name, or below a long name."""
    yield [("heading", title)]
    for name, text in rows:
        parts = textwrap.wrap(text, _WIDTH - _LEFT)
        start: Line = [("", "  "), ("key", name)]
        if len(name) > _LEFT - 3:
            yield start
        else:
            yield [*start, ("", " " * (_LEFT - 2 - len(name)) + parts.pop(0))]
        yield from ([("", " " * _LEFT + part)] for part in parts)
    yield [("", "")]
