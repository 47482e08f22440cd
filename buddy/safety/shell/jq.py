"""jq: its options, and what its programs may not name."""

from __future__ import annotations

import re

from buddy.safety.shell.names import words
from buddy.safety.shell.place import JudgedCommand, RefusedError

_FLAGS = frozenset("rcnsSejaMCR")
_LONG_FLAGS = words(
    "--raw-output --compact-output --null-input --slurp --sort-keys --exit-status --join-output "
    "--ascii-output --monochrome-output --color-output --raw-input --tab --stream --seq --unbuffered "
    "--raw-output0"
)
_FORBIDDEN = re.compile(r"(?<![.\w])ENV\b|\$__prog|(?<![.\w$])(?:env|import|include|modulemeta)\b")


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
        elif word.startswith("--") and word in _LONG_FLAGS:
            continue
        elif not word.startswith("-"):
            operands.append(word)
        elif not word[1:] or not set(word[1:]) <= _FLAGS:
            raise RefusedError(f"jq {word} is not known to only read")
    if not operands:
        raise RefusedError("jq without a program")
    found = _FORBIDDEN.search(operands[0])
    if found:
        raise RefusedError(f"jq uses {found.group()}")
    for file in operands[1:]:
        judged.read(file)
