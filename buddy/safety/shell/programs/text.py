"""Programs that take text apart: filters over files and pipes, and jq."""

from __future__ import annotations

import re

import msgspec

from buddy.safety.shell.context import JudgedCommand, RefusedError
from buddy.safety.shell.programs.names import word_list
from buddy.safety.shell.programs.options import Given, OptionTable, table


def pass_names(judged: JudgedCommand) -> None:
    """head and sort: a filter that leaves whole lines as they are hands names of files on."""
    given = table(judged.argv[0]).check(judged)
    if not given.operands and not given.has("-c", "--count", "--bytes"):
        judged.lists = judged.feed


def uniq(judged: JudgedCommand) -> None:
    """uniq: where options must come first, one behind the operand is the name of the output."""
    given = table("uniq").check(judged)
    if given.operands and judged.argv[-1] != given.operands[0]:
        raise RefusedError("uniq with an option behind its operand may write it")
    if not given.operands and not given.has("-c", "--count"):
        judged.lists = judged.feed


def tr(judged: JudgedCommand) -> None:
    """tr: only the well-known way of separating names by NULs keeps them names."""
    given = table("tr").check(judged)
    if judged.feed is not None and given == Given((), ("\\n", "\\0")):
        judged.lists = msgspec.structs.replace(judged.feed, nul=True)


def shuf(judged: JudgedCommand) -> None:
    """shuf: with -e its operands are lines, not files."""
    options = table("shuf").options
    is_echo = any(word in ("-e", "--echo") for word in judged.argv)
    OptionTable(options, operands="text" if is_echo else "read").check(judged)


def tail(judged: JudgedCommand) -> None:
    """tail: following a file never ends, so that is asked about."""
    if any(word in ("-f", "-F", "--follow", "--retry") for word in judged.argv):
        raise RefusedError("tail -f does not end by itself")
    given = table("tail").check(judged)
    if not given.operands and not given.has("-c", "--bytes"):
        judged.lists = judged.feed


TEXT = {"head": pass_names, "sort": pass_names, "tail": tail, "uniq": uniq, "tr": tr, "shuf": shuf}

_JQ_FLAGS = frozenset("rcnsSejaMCR")
_JQ_LONG_FLAGS = word_list("jq")
_JQ_FORBIDDEN = re.compile(r"(?<![.\w])ENV\b|\$__prog|(?<![.\w$])(?:env|import|include|modulemeta)\b")


def jq(judged: JudgedCommand) -> None:
    """Judge one jq command: a program on the command line, no module, no environment."""
    operands: list[str] = []
    rest = list(judged.argv[1:])
    while rest:
        word = rest.pop(0)
        if word in ("--arg", "--argjson"):
            if len(rest) < 2:
                raise RefusedError(f"jq {word} needs a name and a value")
            del rest[:2]
        elif word == "--indent":
            if not rest or not rest.pop(0).isdecimal():
                raise RefusedError("jq --indent needs a number")
        elif word == "--":
            operands.extend(rest)
            break
        elif word.startswith("--") and word in _JQ_LONG_FLAGS:
            continue
        elif not word.startswith("-"):
            operands.append(word)
        elif not word[1:] or not set(word[1:]) <= _JQ_FLAGS:
            raise RefusedError(f"jq {word} is not known to only read")
    if not operands:
        raise RefusedError("jq without a program")
    found = _JQ_FORBIDDEN.search(operands[0])
    if found:
        raise RefusedError(f"jq uses {found.group()}")
    for file in operands[1:]:
        judged.read(file)
