"""Scripts that the command of a hook names: trust in the hook is trust in them as they were.

The words of a command are over-approximated, without a shell's rules: a file counted too often costs a
question, one that is missed would run after the model has edited it. Files that programs load by themselves
(Makefile, package.json) do not count, as in approvals of commands.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.paths import hash_regular, is_beneath

MAX_SCRIPT_BYTES = 64_000_000
MAX_WORDS = 200
MAX_MATCHES = 50
"""Files of one glob."""
_SEPARATORS = pattern(r"[\s;&|()<>=`]+")
_UNKNOWN = pattern(r"\$\{[^}]*\}|\$\w*|\{[^}]*\}")
"""Parts of a path that only a shell knows: they may be anything."""
_DATA = (".json", ".toml", ".yaml", ".yml", ".md", ".txt", ".cfg", ".ini", ".lock", ".xml", ".csv")
"""Endings of files that are read, not run."""


def hook_scripts(command: str, folders: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the files beneath the folders that a hook's command names, with the SHA-256 of their content; ""
    for one that cannot be read. The first folder is the one the command may start in. Blocks."""
    tops = [os.path.realpath(folder) for folder in folders]
    found: dict[str, str] = {}
    for path in _candidates(command, tops, variables):
        real = os.path.realpath(path)
        if not os.path.isfile(real) or path in found:
            continue
        if any(is_beneath(os.path.abspath(path), top) or is_beneath(real, top) for top in tops):
            found[path] = _digest(real)
    return found


def project_variables(root: str) -> dict[str, str]:
    """Return the variables by which a hook names the project's folder."""
    return {"CLAUDE_PROJECT_DIR": root, "BUDDY_PROJECT_DIR": root} if root else {}


def _candidates(command: str, tops: Sequence[str], variables: Mapping[str, str]) -> Iterator[str]:
    words = list(itertools.islice(_words(command, variables), MAX_WORDS))
    for top in tops:
        # A command may go into a folder first, and a path may stand behind a substitution.
        starts = [top, *(path for word in words if os.path.isdir(path := os.path.join(top, word)))]
        for word, start in itertools.product(words, starts):
            yield from _readings(start, word)


def _readings(start: str, word: str) -> Iterator[str]:
    if word.lower().endswith(_DATA):
        return
    for path in (os.path.join(start, word), os.path.join(start, word.lstrip("/"))):
        yield path
        if glob.has_magic(path):
            yield from itertools.islice(glob.iglob(path), MAX_MATCHES)
        yield from (os.path.join(path, name) for name in ("__main__.py", "index.js"))
    if "/" not in word:  # python -m package.module
        module = os.path.join(start, word.replace(".", "/"))
        yield from (f"{module}.py", f"{module}/__main__.py", f"{module}/__init__.py")


def _words(command: str, variables: Mapping[str, str]) -> Iterator[str]:
    pieces: Iterable[str] = _SEPARATORS().split(re.sub(r"""["'\\]""", "", command))
    with contextlib.suppress(ValueError):  # quotes that do not close
        pieces = (*pieces, *shlex.split(command))
    seen: set[str] = set()
    for piece in pieces:
        word = piece
        for name, value in variables.items():
            word = word.replace(f"${{{name}}}", value).replace(f"${name}", value)
        if "/" in word:
            word = _UNKNOWN().sub("*", word)
        if word and "\0" not in word and word not in seen and len(word) < 4_096:
            seen.add(word)
            yield word


def _digest(path: str) -> str:
    try:
        return hash_regular(path, MAX_SCRIPT_BYTES)
    except (OSError, ToolError):
        return ""
