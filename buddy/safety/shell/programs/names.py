"""Names of programs that run other programs or code, or use the network."""

from __future__ import annotations

import functools
import os
import re


def words(text: str) -> frozenset[str]:
    """Return a set written as a sentence, so that long tables stay readable."""
    return frozenset(text.split())


@functools.cache
def read_entries(file: str) -> dict[str, str]:
    """Return the entries of a data file beside this module, read on first use: `NAME, NAME: TEXT`, continued
    on indented lines; lines that start with `# ` are comments."""
    texts: dict[str, list[str]] = {}
    with open(os.path.join(os.path.dirname(__file__), file), encoding="utf-8") as lines:
        header = ""
        for line in lines:
            if line.startswith(" "):
                texts[header].append(line)
            elif line.strip() and not line.startswith("# "):
                header, _, text = line.partition(":")
                texts[header] = [text]
    return {name: "".join(text) for names, text in texts.items() for name in names.split(", ")}


@functools.cache
def word_list(name: str) -> frozenset[str]:
    """Return A list of `words.lists`."""
    return words(read_entries("words.lists")[name])


ONLY_PRINT = words("echo basename dirname printf")
"""Programs that print the names they are given, whatever those are."""

SHELLS = words("sh bash dash zsh ksh ash mksh fish busybox su script watch parallel flock")
"""Programs that take a command line as one argument after -c."""


def uses_network(argv: tuple[str, ...]) -> bool:
    """Tell whether a command would connect to another machine, as far as its words tell."""
    if not argv:
        return False
    name = argv[0].rpartition("/")[2]
    if name in word_list("network"):
        return True
    if name == "rsync":
        return any(re.match(r"[^/]+:|rsync:", word) for word in argv[1:])
    subcommands = read_entries("words.lists").get(f"network {name}", "").split()
    first = next((word for word in argv[1:] if not word.startswith("-")), "")
    return first in subcommands or (name == "yarn" and not first)
