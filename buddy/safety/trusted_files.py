"""The files of a folder that its trust covers: those that could run something or change what may run.

They are read without blocking. An unreadable file is listed too, so that a change is noticed. A link counts
with its target.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.hook_scripts import hook_scripts, project_variables
from buddy.safety.paths import MAX_READ_BYTES, is_beneath, read_beneath, read_regular, walk_tree

MAX_THINGS = 500
MAX_THING_BYTES = 262_144
SETTINGS = "buddy.toml"
PLUGIN_FOLDER = ".buddyx/ext"
HOOK_FILES = (".buddyx/hooks.json", ".claude/settings.json", ".claude/settings.local.json")
"""Settings files whose hooks are commands that buddy runs; nothing else of them is used."""
SCRIPT_FOLDERS = (".buddyx/hooks", ".claude/hooks", ".buddyx/templates")
"""Folders in which the scripts of hooks usually lie, and the templates of new projects, whose files may be
programs."""
TEXT_FOLDERS = (
    *(".buddyx/skills", ".agents/skills", ".claude/skills"),
    *(".buddyx/commands", ".claude/commands", ".opencode/commands", ".opencode/command", ".gemini/commands"),
    *(".buddyx/agents", ".claude/agents", ".opencode/agents", ".opencode/agent"),
)
"""Folders with texts for the model. They run nothing by themselves, so trust asks about them once, and not
again when a text changes."""
TEXT_THING = "texts for the model; commands in them run under the rules of permissions"
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
    scripts = (name for folder in SCRIPT_FOLDERS for name in _beneath(root, folder))
    for name in (*_spellings(root), *_beneath(root, PLUGIN_FOLDER), *scripts):
        yield name, _text(root, name)
    for file in HOOK_FILES:
        if os.path.lexists(os.path.join(root, file)):
            yield from _hooks(root, file)
    for folder in TEXT_FOLDERS:
        if os.path.lexists(os.path.join(root, folder)):
            yield folder, TEXT_THING


def hook_digest(
    event: str, matcher: str, fields: Mapping[str, Any], scripts: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return what identifies a hook: its event, its matcher, everything that says what it does, and the
    digests of the scripts it names."""
    identity = [event, matcher, dict(fields), *([dict(scripts)] if scripts else [])]
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()


def _hooks(root: str, file: str) -> Iterator[tuple[str, str]]:
    """Yield the hooks of a settings file, one by one: name and definition. A file that is no JSON counts as a
    whole."""
    text = _text(root, file)
    try:
        table: object = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        yield file, text
        return
    hooks: object = cast(dict[str, Any], table).get("hooks") if isinstance(table, dict) else None
    for event, groups in cast(dict[str, Any], hooks).items() if isinstance(hooks, dict) else ():
        for at, group in enumerate(cast(list[object], groups) if isinstance(groups, list) else [groups], 1):
            shown = msgspec.json.format(msgspec.json.encode(group), indent=1).decode()
            yield f"{file} hooks/{event}/{at}", shown
            for command in _commands(group):
                for path in hook_scripts(command, (root,), project_variables(root)):
                    name = os.path.relpath(path, os.path.realpath(root))
                    yield name, _text(root, name)


def _commands(group: object) -> Iterator[str]:
    handlers: object = cast(dict[str, Any], group).get("hooks") if isinstance(group, dict) else None
    for entry in cast(list[object], handlers) if isinstance(handlers, list) else ():
        command: object = cast(dict[str, Any], entry).get("command") if isinstance(entry, dict) else None
        if isinstance(command, str):
            yield command[:MAX_THING_BYTES]


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
    for directory, folders, files in walk_tree(top):
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
        return _display(_whole(read_beneath(root, name, MAX_READ_BYTES + 1)))
    except (OSError, ToolError) as error:
        return f"(cannot be read: {error})"


def _behind(root: str, path: str) -> str:
    """Return a link, and the content of the file it leads to; of a file outside the folder its digest
    alone."""
    said = f"(a link to {os.readlink(path)})"
    real = os.path.realpath(path)
    if not os.path.isfile(real):
        return said
    data = _whole(read_regular(real, MAX_READ_BYTES + 1))
    if not is_beneath(real, os.path.realpath(root)):
        return f"{said}\n({len(data)} bytes outside this folder, SHA-256 {hashlib.sha256(data).hexdigest()})"
    return f"{said}\n{_display(data)}"


def _whole(data: bytes) -> bytes:
    """Return what was read of a file; of one that goes on, something that no later look will find again."""
    return (
        data if len(data) <= MAX_READ_BYTES else b"(too long to be trusted) " + os.urandom(8).hex().encode()
    )


def _display(data: bytes) -> str:
    if len(data) > MAX_THING_BYTES:
        return f"({len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()})"
    return data.decode("utf-8", "replace")
