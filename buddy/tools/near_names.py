"""Sentences about a missing file: similar names, nearby and elsewhere."""

from __future__ import annotations

import os
from itertools import islice

from buddy.safety.paths import Boundary, Located, is_beneath
from buddy.safety.sanitise import visible

MAX_ENTRIES = 5000
MAX_FOLDERS = 300
_SKIPPED = frozenset(
    {".git", "node_modules", ".venv", "venv", "__pycache__", ".buddyx", "target", "dist", "build"}
)


def missing(found: Located, boundary: Boundary) -> str:
    """The sentence for a file that does not exist, with near names."""
    near = near_names(found, boundary)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{found.shown} does not exist.{hint}"


def near_names(found: Located, boundary: Boundary, most: int = 3) -> tuple[str, ...]:
    """Existing paths the given one may have meant: the same name elsewhere in the workspace, like names in
    the same folder. Only names inside the workspace are told."""
    folder, name = os.path.split(found.real)
    near = _respelled(found, boundary)
    if is_beneath(folder, boundary.root):
        like_it = (os.path.join(folder, like) for like in _like(folder, name))
        near.extend(path for path in like_it if path not in near)
    near.extend(path for path in _same_name(boundary.root, name) if path not in near)
    return tuple(visible(os.path.relpath(path, boundary.cwd)) for path in near[:most])


def _respelled(found: Located, boundary: Boundary) -> list[str]:
    """The path without quotes and blanks around it, with slashes for backslashes, if that is there."""
    text = found.given.strip(" \t\r\n'\"`").replace("\\", "/").rstrip("/")
    path = os.path.normpath(os.path.join(boundary.cwd, text))
    known = (
        bool(text)
        and path not in {found.real, found.path}
        and is_beneath(path, boundary.root)
        and os.path.lexists(path)
    )
    return [path] if known else []


def _like(folder: str, name: str) -> list[str]:
    import difflib  # here: 1 ms that a start need not pay

    names = _entries(folder)
    lowered = {entry.lower(): entry for entry in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)
    return [lowered[entry] for entry in close]


def _entries(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, MAX_ENTRIES)]
    except OSError:
        return []


def _same_name(root: str, name: str) -> list[str]:
    """Files of this name, a bounded walk, shallow folders first."""
    found: list[str] = []
    waiting = [root]
    for _ in range(MAX_FOLDERS):
        if not waiting or len(found) >= 3:
            break
        folder = waiting.pop(0)
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, MAX_ENTRIES):
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _SKIPPED:
                            waiting.append(entry.path)
                    elif entry.name.lower() == name.lower():
                        found.append(entry.path)
        except OSError:
            continue
    return found
