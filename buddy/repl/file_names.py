"""Names of files for completion: a bounded look at the folders below the working directory, found again by a
few letters of them. Everything here blocks: call it in a thread."""

from __future__ import annotations

import heapq
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence

from buddy.safety.sanitise import clean

MAX_FILES = 20_000
MAX_S = 0.3
FRESH_S = 5.0
SHOWN = 40
_CHUNK = 2_000
_SKIPPED = frozenset(
    {".git", ".buddyx", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache"}
)

Listing = Callable[[], Sequence[str]]
"""All files that can be mentioned, relative to the working directory."""


class FolderListing:
    """Files below a folder, breadth first, so that a bound cuts off the deep ones; kept for a few seconds."""

    def __init__(self, folder: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._names: list[str] = []
        self._until = float("-inf")

    def __call__(self) -> Sequence[str]:
        """The files there are, or were a few seconds ago."""
        if self._clock() >= self._until:
            self._names = list(_walk(self._folder, self._clock))
            self._until = self._clock() + FRESH_S
        return self._names


def _walk(top: str, clock: Callable[[], float]) -> Iterator[str]:
    deadline = clock() + MAX_S
    count = 0
    folders = [""]
    for folder in folders:
        if clock() > deadline:
            return
        for entry in _entries(os.path.join(top, folder)):
            name = os.path.join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    folders.append(name)
            elif typable(entry.name):
                yield name
                count += 1
                if count >= MAX_FILES:
                    return


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def typable(name: str) -> bool:
    """Whether a name can stand in the input line as it is: no control characters, nothing invisible."""
    return "\n" not in name and clean(name) == name


def matching(names: Sequence[str], wanted: str, limit: int = SHOWN) -> list[str]:
    """The names that fit a few letters, the best first: at the beginning of the file's name, in it, in its
    path, scattered over it. Lets other threads run in between."""
    text = wanted.lower()
    scattered = re.compile(".*?".join(re.escape(letter) for letter in text))
    found: list[tuple[int, int, str]] = []
    for start in range(0, len(names), _CHUNK):
        for name in names[start : start + _CHUNK]:
            rank = _rank(name.lower(), text, scattered)
            if rank is not None:
                found.append((rank, len(name), name))
        time.sleep(0)
    return [name for _rank_, _length, name in heapq.nsmallest(limit, found)]


def _rank(name: str, text: str, scattered: re.Pattern[str]) -> int | None:
    if text in name:
        base = name.rpartition("/")[2]
        return 0 if base.startswith(text) else 1 if text in base else 2
    return 3 if scattered.search(name) else None


def in_folder(cwd: str, typed: str, limit: int = SHOWN) -> list[str]:
    """What a path that is being typed may become, as in a shell: names in its folder that begin as it does;
    folders end in a slash."""
    folder, _, beginning = typed.rpartition("/")
    prefix = typed[: len(typed) - len(beginning)]
    found = [
        prefix + entry.name + ("/" if entry.is_dir() else "")
        for entry in _entries(os.path.join(cwd, os.path.expanduser(folder + "/" if prefix else ".")))
        if entry.name.startswith(beginning)
        and typable(entry.name)
        and (beginning.startswith(".") or not entry.name.startswith("."))
    ]
    return found[:limit]
