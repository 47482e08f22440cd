"""What in a folder could run something or change what may run: the things trust is about.

Read without following links and without waiting; what cannot be read is named all the same, so that a change
of it is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from typing import Any, cast

from buddy.agent.tool import ToolError
from buddy.safety.descriptors import read_beneath

MAX_THINGS = 500
MAX_THING_BYTES = 262_144
_FILES = (
    "buddy.toml",
    ".buddyx/hooks.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".buddyx/mcp.json",
)
_SERVERS = ".mcp.json"
_FOLDERS = (
    ".buddyx/commands",
    ".buddyx/skills",
    ".buddyx/agents",
    ".buddyx/plugins",
    ".buddyx/ext",
    ".buddyx/hooks",
    ".agents/skills",
    ".claude/commands",
    ".claude/skills",
    ".claude/agents",
    ".claude/hooks",
    ".opencode/commands",
    ".opencode/agents",
)


def trusted_things(root: str) -> dict[str, str]:
    """Name and text of everything a trusted folder may run or set. Where there are more than `MAX_THINGS`,
    one more stands for the rest and differs every time: what was not read is asked about again."""
    found: dict[str, str] = {}
    for name, text in _all_things(root):
        if len(found) >= MAX_THINGS:
            found[f"(more than {MAX_THINGS} files; the rest was not read)"] = secrets.token_hex(8)
            break
        found[name] = text
    return found


def _all_things(root: str) -> Iterator[tuple[str, str]]:
    for name in _spelled(root):
        yield name, _text(root, name)
    for name in _FILES[1:]:
        if os.path.lexists(os.path.join(root, name)):
            yield name, _text(root, name)
    if os.path.lexists(os.path.join(root, _SERVERS)):
        yield from _servers(_text(root, _SERVERS))
    for folder in _FOLDERS:
        for name in _beneath(root, folder):
            yield name, _text(root, name)


def _spelled(root: str) -> list[str]:
    """buddy.toml in any letter case: a file system that ignores case opens it under the usual name."""
    try:
        return sorted(name for name in os.listdir(root) if name.lower() == _FILES[0])
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
    """The text of a file, or what stands in its place."""
    try:
        if os.path.islink(os.path.join(root, name)):
            return f"(a link to {os.readlink(os.path.join(root, name))})"
        data = read_beneath(root, name)
    except (OSError, ToolError) as error:
        return f"(cannot be read: {error})"
    if len(data) > MAX_THING_BYTES:
        return f"({len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()})"
    return data.decode("utf-8", "replace")


def _servers(text: str) -> Iterator[tuple[str, str]]:
    """One thing per entry, so that a new server is asked about and the others are not."""
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        yield _SERVERS, text
        return
    entries = cast(dict[str, Any], data).get("mcpServers") if isinstance(data, dict) else None
    if not isinstance(entries, dict):
        yield _SERVERS, text
        return
    for name, entry in cast(dict[str, Any], entries).items():
        yield f"{_SERVERS}: {name}", json.dumps(entry, indent=1, sort_keys=True)
