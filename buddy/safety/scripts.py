"""Scripts a command names: an answer to `python3 x.py` holds while x.py is the file it was.

Only the script on the command line is looked at, not what it loads: `make` and `pytest` run files of the
project too, and the person who allows them always allows those as they will be.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterator

from buddy.agent.pattern import pattern
from buddy.agent.tool import ToolError
from buddy.safety.descriptors import read_regular
from buddy.safety.paths import Boundary, is_beneath
from buddy.safety.shell.verdict import UNRESOLVED, Analysis

MAX_SCRIPT_BYTES = 4_000_000
RUNNERS = pattern(
    r"(?:ba|da|z|k|mk|fi|a)?sh|python[0-9.]*|pypy[0-9.]*|node|nodejs|deno|bun|ruby|perl|php|lua|luajit"
    r"|Rscript|julia|source|\."
)
"""Programs whose first argument that is a file is a script."""

SHELLS = pattern(r"(?:ba|da|z|k|mk|fi|a)?sh|source|\.")

Scripts = tuple[tuple[str, str], ...]
"""Real paths with the SHA-256 of their content ("": cannot be read). A script that is not there counts as an
empty one, so that nothing written in its place later is taken for what was seen."""

ABSENT = hashlib.sha256(b"").hexdigest()


def script_digests(analysis: Analysis, boundary: Boundary) -> tuple[Scripts, ...]:
    """The scripts of the workspace each command of a line names, in the order of its commands. Reads them."""
    return tuple(
        () if command.read_only else _scripts(command.argv, command.folder, boundary)
        for command in analysis.commands
    )


def reads_code(argv: tuple[str, ...]) -> bool:
    """Tell an interpreter that takes its code from a pipe: what it runs is not on the command line."""
    name = posixpath.basename(argv[0])
    if RUNNERS().fullmatch(name) is None or _is_given_code(name, argv[1:]):
        return False
    return all(word.startswith("-") for word in argv[1:])


def _is_given_code(name: str, words: tuple[str, ...]) -> bool:
    """Tell whether an option holds the code or names a module. For shells `-e` is something else."""
    options = (
        ("-c", "-m") if SHELLS().fullmatch(name) else ("-c", "-m", "-e", "--eval", "-p", "--print", "-r")
    )
    return any(word in options for word in words)


def _scripts(argv: tuple[str, ...], folder: str, boundary: Boundary) -> Scripts:
    if not folder:
        return ()
    missing = ""
    for named in _candidates(argv):
        if UNRESOLVED in named:  # only the running shell knows the file
            continue
        real = os.path.realpath(os.path.join(folder, named))
        if not any(is_beneath(real, tree) for tree in boundary.trees):
            continue
        if os.path.isfile(real):
            return ((real, _digest(real)),)
        if not missing and not os.path.lexists(real):
            missing = real
    return ((missing, ABSENT),) if missing else ()


def _candidates(argv: tuple[str, ...]) -> Iterator[str]:
    """Words that may name the script, the likeliest first."""
    if "/" in argv[0]:
        yield argv[0]
    for position, word in enumerate(argv):
        if RUNNERS().fullmatch(posixpath.basename(word)):
            rest = argv[position + 1 :]
            if not _is_given_code(posixpath.basename(word), rest):
                yield from (one for one in rest if not one.startswith("-"))
            return


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(read_regular(path, MAX_SCRIPT_BYTES)).hexdigest()
    except (OSError, ToolError):
        return ""
