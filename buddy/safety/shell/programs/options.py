"""Option tables: the options of a program that only read, written as one line of text.

`-abc` are flags, `-n:num` takes a value, `-i?` may have one attached; `--all`, `--width:num`, `--color?` the
same for long ones; `-NUM` allows a number as an option. The kind of a value says how it is judged: `num`,
`text` (means nothing outside the program), `read` (a file whose content is read), `name` (a path that is only
looked at). Abbreviated long options are not known: GNU programs accept them, so they are asked about.

The tables are data: `programs.options` holds the programs that are judged by their options alone, and
`judges.options` those of programs and subcommands that a judge looks at further. There the operands may stand
before the options, as a kind (`none`: there are none) and as a range of their number; `@NAME` stands for the
options of another entry.
"""

from __future__ import annotations

import functools
import re
from typing import Literal

import msgspec

from buddy.safety.shell.context import JudgedCommand, RefusedError
from buddy.safety.shell.programs.names import read_entries

ValueKind = Literal["", "num", "text", "read", "name", "optional"]
Operands = Literal["read", "name", "text", "none"]
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?[A-Za-z%]{0,3}")
_KINDS: dict[str, ValueKind] = {"num": "num", "text": "text", "read": "read", "name": "name"}


class Given(msgspec.Struct, frozen=True):
    """A parsed argv: options in order with their values (None for flags), and operands. `after_dashes`: how
    many of the operands stand behind `--`."""

    options: tuple[tuple[str, str | None], ...]
    operands: tuple[str, ...]
    after_dashes: int = 0

    def has(self, *names: str) -> bool:
        """Tell whether one of these options is given."""
        return any(name in names for name, _ in self.options)

    def value(self, *names: str) -> str | None:
        """Return the last value given to one of these options."""
        found = [value for name, value in self.options if name in names]
        return found[-1] if found else None


class OptionTable(msgspec.Struct, frozen=True):
    """A program that only reads as long as its options are known, with as many operands as it may have."""

    options: str = ""
    operands: Operands = "read"
    at_least: int = 0
    at_most: int = 10_000

    def __call__(self, judged: JudgedCommand) -> None:
        """Judge a command by this table. Raises `RefusedError`."""
        self.check(judged)

    def check(self, judged: JudgedCommand) -> Given:
        """Judge a command by this table and return the parsed arguments. Raises `RefusedError`."""
        given = parse(judged, self.options)
        if not self.at_least <= len(given.operands) <= self.at_most:
            raise RefusedError(
                f"{judged.argv[0]} with {len(given.operands)} operands is not known to only read"
            )
        if self.at_most < 10_000 and self.operands != "text" and judged.globbed:
            raise RefusedError("a pattern may match more names than the command can take")
        for operand in given.operands:
            judge_value(judged, self.operands, operand)
        return given


@functools.cache
def table(name: str, file: str = "judges.options") -> OptionTable:
    """Return the options of a program or subcommand, from a data file."""
    rest = read_entries(file)[name].split()
    operands: Operands = "read"
    lowest, highest = 0, 10_000
    while rest and rest[0][0] not in "-@":
        word = rest.pop(0)
        if word[0].isdecimal():
            lowest, highest = map(int, word.split("-"))
        else:
            operands = msgspec.convert(word, Operands)
    options = (table(word, file).options if word.startswith("@") else word for word in rest)
    return OptionTable(" ".join(options), operands, lowest, highest)


def judge_value(judged: JudgedCommand, kind: str, value: str) -> None:
    """Judge one operand or option value by its kind. Raises `RefusedError`."""
    match kind:
        case "read":
            judged.read(value)
        case "name":
            judged.name(value)
        case "num":
            if not _NUMBER.fullmatch(value):
                raise RefusedError(f"expected a number, found {value}")
        case "none":
            raise RefusedError(f"{judged.argv[0]} takes no operand here: {value}")
        case _:
            return


@functools.cache
def known_options(spec: str) -> dict[str, ValueKind]:
    """Return the table a line of text describes."""
    found: dict[str, ValueKind] = {}
    for part in spec.split():
        name, colon, kind = part.partition(":")
        if colon:
            found[name] = _KINDS[kind]
        elif part.endswith("?"):
            found[part[:-1]] = "optional"
        elif part.startswith("--") or part == "-NUM":
            found[part] = ""
        else:
            found.update({f"-{letter}": "" for letter in part[1:]})
    return found


def parse(judged: JudgedCommand, spec: str, *, stop_at_operand: bool = False, start: int = 1) -> Given:
    """Parse options and operands of a command as getopt does. Raises `RefusedError` for an option that is not
    in the table."""
    known = known_options(spec)
    options: list[tuple[str, str | None]] = []
    operands: list[str] = []
    words = list(judged.argv[start:])
    while words:
        word = words.pop(0)
        if word == "--":
            return Given(tuple(options), (*operands, *words), len(words))
        if not word.startswith("-") or word == "-":
            operands.append(word)
            if stop_at_operand:
                return Given(tuple(options), (*operands, *words))
        elif word.startswith("--"):
            options.append(_long(judged, known, word, words, is_late=bool(operands)))
        elif "-NUM" in known and word[1:].isdecimal():
            options.append(("-NUM", word[1:]))
        else:
            options.extend(_cluster(judged, known, word, words, is_late=bool(operands)))
    return Given(tuple(options), tuple(operands))


def _unknown(judged: JudgedCommand, option: str) -> RefusedError:
    return RefusedError(f"{judged.argv[0]} {option} is not known to only read")


def _long(
    judged: JudgedCommand, known: dict[str, ValueKind], word: str, words: list[str], *, is_late: bool
) -> tuple[str, str | None]:
    name, equals, value = word.partition("=")
    kind = known.get(name)
    if kind is None or (equals and not kind):
        raise _unknown(judged, word)
    if kind in ("", "optional"):
        return name, value if equals else None
    if not equals:
        value = _next(judged, word, words, is_late=is_late)
    judge_value(judged, kind, value)
    return name, value


def _cluster(
    judged: JudgedCommand, known: dict[str, ValueKind], word: str, words: list[str], *, is_late: bool
) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    letters = word[1:]
    while letters:
        name, letters = f"-{letters[0]}", letters[1:]
        kind = known.get(name)
        if kind is None:
            raise _unknown(judged, word)
        if not kind:
            found.append((name, None))
            continue
        if kind == "optional":
            found.append((name, letters or None))
            return found
        value = letters or _next(judged, word, words, is_late=is_late)
        judge_value(judged, kind, value)
        found.append((name, value))
        return found
    return found


def _next(judged: JudgedCommand, option: str, words: list[str], *, is_late: bool) -> str:
    if not words:
        raise RefusedError(f"{judged.argv[0]} {option} needs a value")
    value = words.pop(0)
    if is_late:
        # Programs that do not look for options behind operands take both words for operands.
        judged.name(value)
    return value
