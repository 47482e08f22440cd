"""Paths that a command line says it writes, for showing them and for opening them in the sandbox.

Unlike `writes`, which is for the hard floor and finds too much, this names only what is certain to be meant.
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator

from buddy.safety.shell.names import words
from buddy.safety.shell.verdict import UNRESOLVED

_VALUES = {
    "touch": words("-d --date -r --reference -t"),
    "mkdir": words("-m --mode"),
    "truncate": words("-s --size -r --reference"),
    "tee": words(""),
    "rm": words(""),
    "rmdir": words(""),
    "unlink": words(""),
    "cp": words("-S --suffix"),
    "mv": words("-S --suffix"),
    "ln": words("-S --suffix"),
    "install": words("-m --mode -o --owner -g --group -S --suffix"),
    "sed": words("-e --expression -f --file -l --line-length"),
}
"""Programs whose operands are files, and their options that take the next word as a value."""
_REMOVE = words("rm rmdir unlink")
_SCRIPTS = ("-e", "--expression", "-f", "--file")


def targets(argv: tuple[str, ...]) -> Iterator[str]:
    """Name the paths a command writes, as its words spell them; of what it removes, the folder it lies in."""
    name, rest = (posixpath.basename(argv[0]), argv[1:]) if argv else ("", ())
    found = _outputs(name, rest) if name in ("curl", "wget", "dd") else _operands(name, rest)
    yield from (path for path in found if path and UNRESOLVED not in path)


def _outputs(name: str, rest: tuple[str, ...]) -> Iterator[str]:
    if name == "dd":
        yield from (word[3:] for word in rest if word.startswith("of="))
        return
    long, short = ("--output", "-o") if name == "curl" else ("--output-document", "-O")
    for word, value in itertools.pairwise((*rest, "")):
        if word in (long, short):
            yield value
        elif word.startswith(f"{long}="):
            yield word.partition("=")[2]


def _operands(name: str, rest: tuple[str, ...]) -> Iterator[str]:
    if name not in _VALUES or (name == "sed" and not any(word.startswith(("-i", "--in")) for word in rest)):
        return
    operands, folder = _split(name, rest)
    if name == "sed":
        yield from operands if any(word in _SCRIPTS for word in rest) else operands[1:]
    elif name in _REMOVE:
        yield from map(_folder_of, operands)
    elif name in ("cp", "mv", "ln") or (name == "install" and "-d" not in rest):
        sources = operands if folder else operands[:-1]
        if sources:
            yield folder or operands[-1]
        if name == "mv":
            yield from map(_folder_of, sources)
    else:
        yield from operands


def _split(name: str, rest: tuple[str, ...]) -> tuple[list[str], str]:
    """The operands, and the folder of `-t`."""
    operands: list[str] = []
    folder = ""
    waiting = list(reversed(rest))
    while waiting:
        word = waiting.pop()
        if word == "--":
            operands += reversed(waiting)
            break
        if name in ("cp", "mv", "ln", "install") and word in ("-t", "--target-directory") and waiting:
            folder = waiting.pop()
        elif word.startswith("--target-directory="):
            folder = word.partition("=")[2]
        elif word in _VALUES[name] and waiting:
            waiting.pop()
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    return operands, folder


def _folder_of(path: str) -> str:
    return posixpath.dirname(path.rstrip("/")) or "."
