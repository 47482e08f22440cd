"""Paths that a command line writes, as far as its words tell."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from buddy.safety.shell.programs.names import word_list, words
from buddy.safety.shell.result import UNRESOLVED

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
    found = _redirected_paths(name, rest) if name in ("curl", "wget", "dd") else _operands(name, rest)
    yield from (path for path in found if path and UNRESOLVED not in path)


def _redirected_paths(name: str, rest: tuple[str, ...]) -> Iterator[str]:
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
    """Return the operands, and the folder of `-t`."""
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


_OUTPUT = word_list("output options")
_WRITES_OUTPUT = word_list("output programs")
_SED_WRITE = re.compile(r"(?:\A|[;{}\n/0-9$!gpiIMe|#,~ ])[wW][ \t]*([^\s;}]+)")
_AWK_WRITE = re.compile(r">>?\s*\"([^\"\n]+)\"")
_AWK_NAMES = words("awk gawk mawk nawk")
_SED_NAMES = words("sed gsed")
_UNPACKERS = {
    "tar": words("-C --directory --cd"),
    "bsdtar": words("-C --directory --cd"),
    "gtar": words("-C --directory --cd"),
    "unzip": words("-d"),
    "unrar": frozenset[str](),
    "7z": frozenset[str](),
    "cpio": words("-D --directory"),
}
_COPIERS = words("rsync cp")


def targets_of(name: str, rest: tuple[str, ...]) -> Iterator[str]:
    """Yield the files a command would write by its own options and programs."""
    if name in _SED_NAMES:
        for word in rest:
            yield from _SED_WRITE.findall(word)
    if name in _AWK_NAMES:
        for word in rest:
            yield from _AWK_WRITE.findall(word)
    if name in _WRITES_OUTPUT:
        yield from _outputs(rest)
    if name in ("curl", "wget"):
        yield from _downloads(name, rest)
    if name in _UNPACKERS:
        yield from (target for target, _ in unpacks_into(name, rest))
    if name in ("cp", "mv", "rsync", "install", "ln") and len(rest) > 1:
        folder = rest[-1]
        yield from (posixpath.join(folder, posixpath.basename(word)) for word in rest[:-1] if word[:1] != "-")


def _outputs(rest: tuple[str, ...]) -> Iterator[str]:
    for word, value in itertools.pairwise((*rest, "")):
        option, equals, attached = word.partition("=")
        if option in _OUTPUT and (attached if equals else value):
            yield attached if equals else value
        elif re.match(r"-[oOwcDa][^-=]", word):
            yield word[2:]
        elif re.fullmatch(r"-[A-Za-z]+[oO]", word) and value:  # a cluster such as -sSLo
            yield value


def _downloads(name: str, rest: tuple[str, ...]) -> Iterator[str]:
    """Return files named after their address: everything wget loads, and curl with -O."""
    folders = ["."]
    for word, value in itertools.pairwise((*rest, "")):
        if word in ("-P", "--directory-prefix", "--output-dir"):
            folders.append(value)
        elif word.startswith(("--directory-prefix=", "--output-dir=")):
            folders.append(word.partition("=")[2])
    if name == "curl" and not any(re.match(r"-[A-Za-z]*O|--remote-name", word) for word in rest):
        return
    for word in rest:
        if word.startswith("-"):
            continue
        try:
            base = posixpath.basename(urlsplit(word).path)
        except ValueError:
            continue
        if base:
            yield posixpath.join(folders[-1], base)


def unpacks_into(name: str, rest: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Return folders a command fills with files of unknown names, or makes equal to another one, each with
    the verb for it."""
    options = _UNPACKERS.get(name)
    if options is not None:
        if name.endswith("tar") and not _extracts(rest):
            return
        for word, value in itertools.pairwise((*rest, "")):
            if word in options and value:
                yield value, "unpacks into"
            for option in options:
                attached = word.removeprefix(f"{option}=" if option.startswith("--") else option)
                if attached != word and attached:
                    yield attached, "unpacks into"
        if name == "7z":
            yield from ((word[2:], "unpacks into") for word in rest if re.match(r"-o.", word))
        return
    operands = [word for word in rest if not word.startswith("-")]
    if name not in _COPIERS or len(operands) < 2:
        return
    if name == "rsync" and any(re.match(r"--del", word) for word in rest):
        yield operands[-1], "empties"
    if any(re.search(r"/\.?\Z|/\.?\*\Z|\A\.\Z", word) for word in operands[:-1]):
        yield operands[-1], "copies over"


def _extracts(rest: tuple[str, ...]) -> bool:
    first = rest[0] if rest else ""
    letters = first if not first.startswith("--") else ""
    letters += "".join(word[1:] for word in rest[1:] if re.fullmatch(r"-[A-Za-z]+", word))
    return "x" in letters or "--extract" in rest or "--get" in rest
