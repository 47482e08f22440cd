"""A bounded look at what lies beneath some folders, for commands that follow links or split names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from buddy.safety.shell.place import Judged, RefusedError

MAX_ENTRIES = 10_000


def check_links(judged: Judged, roots: tuple[str, ...]) -> None:
    """Refuse when a link beneath the folders leads somewhere that may not be read."""
    for entry in _entries(judged, roots):
        if entry.is_symlink():
            judged.read(entry.path)


def check_names(judged: Judged, roots: tuple[str, ...], separators: str) -> None:
    """Refuse when a name holds a separator: it would be split, and its pieces are names of their own."""
    for entry in _entries(judged, roots):
        if re.search(separators, entry.name):
            raise RefusedError(f"the name {entry.name!r} would be split into several")


def _entries(judged: Judged, roots: tuple[str, ...]) -> Iterator[os.DirEntry[str]]:
    seen = 0
    pending = [os.path.join(judged.place.boundary.cwd, root) for root in roots or (".",)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MAX_ENTRIES:
                        raise RefusedError("there are too many files to see where all of them lead")
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue  # what cannot be listed cannot be followed either
