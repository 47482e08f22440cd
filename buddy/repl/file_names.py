"""Names of files for completion. What is here looks at the disk: call it in a thread."""

from __future__ import annotations

import os

from buddy.safety.sanitise import clean
from buddy.workspace.file_index import FileIndex

SHOWN = 40
FIRST_LISTING_S = 0.5
"""How long a look waits for the listing it starts; later ones answer with what is known."""


def found(index: FileIndex, text: str) -> list[str] | None:
    """The files that fit a few letters, the best first; None while none is known and they are being listed:
    look again."""
    names = index.match(text, SHOWN)
    if not names and not index.wait(FIRST_LISTING_S):
        return None
    return names or index.match(text, SHOWN)


def _entries(cwd: str, folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(os.path.join(cwd, os.path.expanduser(folder))) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (OSError, ValueError):  # the latter for a NUL or half a character, which no path holds
        return []


def typable(name: str) -> bool:
    """Tell whether a name can be typed in the input line as it is: no control characters, nothing
    invisible."""
    return "\n" not in name and clean(name) == name


def in_folder(cwd: str, typed: str, limit: int = SHOWN) -> list[str]:
    """Complete a path as a shell does: names in its folder that begin with the last part; folders end in a
    slash."""
    folder, _, beginning = typed.rpartition("/")
    prefix = typed[: len(typed) - len(beginning)]
    found = [
        prefix + entry.name + ("/" if os.path.isdir(entry.path) else "")  # of its own, a looping link fails
        for entry in _entries(cwd, folder + "/" if prefix else ".")
        if entry.name.startswith(beginning) and (beginning.startswith(".") or not entry.name.startswith("."))
    ]
    return found[:limit]
