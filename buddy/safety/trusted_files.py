"""The files of a folder that its trust covers: those that could run something or change what may run.

They are read without blocking. An unreadable file is listed too, so that a change is noticed. A link counts
with its target.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from buddy.agent.tool import ToolError
from buddy.safety.paths import is_beneath, read_beneath, read_regular

MAX_THINGS = 500
MAX_THING_BYTES = 262_144
SETTINGS = "buddy.toml"
PLUGIN_FOLDER = ".buddyx/ext"
"""Everything this version uses. A later version asks about what it uses in addition."""


def trusted_things(root: str) -> dict[str, str]:
    """Name and text of everything a trusted folder may run or set. Where there are more than `MAX_THINGS`,
    one more stands for the rest and differs every time: what was not read is asked about again."""
    found: dict[str, str] = {}
    for name, text in _all_things(root):
        if len(found) >= MAX_THINGS:
            found[f"(more than {MAX_THINGS} files; the rest was not read)"] = os.urandom(8).hex()
            break
        found[name] = text
    return found


def _all_things(root: str) -> Iterator[tuple[str, str]]:
    for name in (*_spellings(root), *_beneath(root, PLUGIN_FOLDER)):
        yield name, _text(root, name)


def _spellings(root: str) -> list[str]:
    """Return the spellings of buddy.toml in the folder: a file system that ignores case opens any of them."""
    try:
        return sorted(name for name in os.listdir(root) if name.lower() == SETTINGS)
    except OSError:
        return []


def _beneath(root: str, folder: str) -> Iterator[str]:
    top = os.path.join(root, folder)
    if os.path.islink(top):
        yield folder
        return
    for directory, folders, files in os.walk(top, followlinks=False):
        folders.sort()
        here = os.path.relpath(directory, root)
        links = [name for name in folders if os.path.islink(os.path.join(directory, name))]
        for name in sorted([*files, *links]):
            yield f"{here}/{name}"


def _text(root: str, name: str) -> str:
    """Return the text of a file, or what stands in its place. Behind a link stands what would be loaded."""
    path = os.path.join(root, name)
    try:
        if os.path.islink(path):
            return _behind(root, path)
        return _display(read_beneath(root, name))
    except (OSError, ToolError) as error:
        return f"(cannot be read: {error})"


def _behind(root: str, path: str) -> str:
    """Return a link, and the content of the file it leads to; of a file outside the folder its digest
    alone."""
    said = f"(a link to {os.readlink(path)})"
    real = os.path.realpath(path)
    if not os.path.isfile(real):
        return said
    data = read_regular(real)
    if not is_beneath(real, os.path.realpath(root)):
        return f"{said}\n({len(data)} bytes outside this folder, SHA-256 {hashlib.sha256(data).hexdigest()})"
    return f"{said}\n{_display(data)}"


def _display(data: bytes) -> str:
    if len(data) > MAX_THING_BYTES:
        return f"({len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()})"
    return data.decode("utf-8", "replace")
