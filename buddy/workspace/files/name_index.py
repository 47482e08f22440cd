"""File names found by a few typed letters, for `@file` completion."""

from __future__ import annotations

import os
import re
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice

from buddy.safety.sanitise import clean
from buddy.workspace.search.ignore import IgnoreTree
from buddy.workspace.search.pattern import in_class
from buddy.workspace.search.walk import walk

MAX_FILES = 100_000
FRESH_S = 5.0
MAX_SCORED = 500
SLICE = 1_000
"""Paths that are looked at in one go: 1 ms."""


def score(path: str, text: str) -> int:
    """Score a path for a query, higher is better; both are in lower case, and the path contains the letters
    of `text` in order. A match in the name ranks above one in the folders, at the start of a word above
    inside it, contiguous above scattered, short paths above long ones."""
    name_at = path.rfind("/") + 1
    at = path.find(text, name_at)
    if at < 0:
        at = path.rfind(text)
    points = -len(path)
    if at >= 0:
        points += 400
        points += 300 if at >= name_at else 0
        points += 200 if at == name_at else 100 if at == 0 or not path[at - 1].isalnum() else 0
        return points + (200 if path[at:] == text or path[at:].startswith(text + ".") else 0)
    position, last = -1, -2
    for sign in text:
        position = path.find(sign, position + 1)
        points += (
            20 if position == last + 1 else 15 if position == 0 or not path[position - 1].isalnum() else 0
        )
        points += 5 if position >= name_at else 0
        last = position
    return points


class Paths:
    """Paths made ready for `best`; never changed afterwards."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self.lowered = [path.lower().replace("\n", " ") for path in paths]
        self.joined = "\n".join(self.lowered)
        self.starts = list(accumulate((len(path) + 1 for path in self.lowered), initial=0))


def best(paths: Paths, text: str, limit: int) -> list[str]:
    """Return the best fitting paths: those that hold the letters together, then, if there are none, those
    that hold them in order."""
    wanted = "".join(sign for sign in text.lower() if sign not in "\n ")
    if not wanted:
        return paths.paths[:limit]
    numbers = _together(paths, wanted)
    if not numbers:
        known = set(numbers)
        numbers += [number for number in _in_order(paths, wanted) if number not in known]
    scored = sorted((-score(paths.lowered[number], wanted), paths.paths[number]) for number in numbers)
    return [path for _, path in scored[:limit]]


def _together(paths: Paths, wanted: str) -> list[int]:
    found: list[int] = []
    at = paths.joined.find(wanted)
    while at >= 0 and len(found) < MAX_SCORED:
        number = bisect_right(paths.starts, at) - 1
        found.append(number)
        at = paths.joined.find(wanted, paths.starts[number + 1])
    return found


def _in_order(paths: Paths, wanted: str) -> list[int]:
    if any(sign not in paths.joined for sign in wanted):
        return []
    # Possessive: a line is looked at once, 100,000 paths in 80 ms at most. In slices, because one call
    # of the regular expression engine keeps the interpreter to itself, and a key would wait for all of it.
    steps = "".join(f"[^\\n{in_class(sign)}]*+{re.escape(sign)}" for sign in wanted)
    pattern = re.compile(f"^{steps}", re.MULTILINE)
    matches = (match for begin, end in _slices(paths) for match in pattern.finditer(paths.joined, begin, end))
    return [bisect_right(paths.starts, match.start()) - 1 for match in islice(matches, MAX_SCORED)]


def _slices(paths: Paths) -> Iterator[tuple[int, int]]:
    """Yield start and end in the joined text of each group of `SLICE` paths, without the last line end."""
    for first in range(0, len(paths.paths), SLICE):
        after = min(first + SLICE, len(paths.paths))
        yield paths.starts[first], paths.starts[after] - 1
        time.sleep(0)  # a thread that waits for the interpreter gets it now, not after 5 ms


class FileIndex:
    """The files of a workspace, listed in a thread of its own. `match` answers at once with what is known and
    starts a fresh listing when that is old."""

    def __init__(self, root: str, *, max_files: int = MAX_FILES, fresh_s: float = FRESH_S) -> None:
        self._root = root
        self._max_files = max_files
        self._fresh_s = fresh_s
        self._paths = Paths(())
        self._listed_at = float("-inf")
        self._stop = threading.Event()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    def match(self, text: str, limit: int = 20) -> list[str]:
        """Return paths relative to the workspace, best first."""
        if time.monotonic() - self._listed_at > self._fresh_s:
            self.refresh()
        return best(self._paths, text, limit)

    def refresh(self) -> None:
        """Start listing, unless that is under way."""
        with self._guard:
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._list, name="file index", daemon=True)
            self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the listing under way; whether it is done."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
        return thread is None or not thread.is_alive()

    def close(self) -> None:
        """Stop listing."""
        self._stop.set()
        self.wait(1.0)

    def _list(self) -> None:
        walked = walk(self._root, IgnoreTree(self._root), self._stop.is_set, max_files=self._max_files)
        if not self._stop.is_set():
            self._paths = Paths(walked.files[: self._max_files])
            self._listed_at = time.monotonic()


class FileIndexes:
    """An index for each folder somebody works in, made when first asked for."""

    def __init__(self) -> None:
        self._indexes: dict[str, FileIndex] = {}

    def of(self, cwd: str) -> FileIndex:
        """Return the index of a folder."""
        return self._indexes.setdefault(cwd, FileIndex(cwd))


SHOWN = 40
FIRST_LISTING_S = 0.5
"""How long a look waits for the listing it starts; later ones answer with what is known."""


def best_matches(index: FileIndex, text: str) -> list[str] | None:
    """Return the files that fit a few letters, the best first; None while none is known and they are being
    listed: look again."""
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
