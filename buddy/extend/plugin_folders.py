"""Plug-in folders in Claude Code's layout: commands, agents, skills, hooks and MCP servers in one folder.

The person adds a folder, or a git repository that is copied into buddy's data. What was added is kept in one
file of the person's; hooks and servers count as they were when the plug-in was added.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, cast

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.extend.definitions import definitions_in
from buddy.extend.hooks.files import HookDefinition, read_definitions
from buddy.extend.mcp.digests import definition_digest
from buddy.extend.mcp.sources import plugin_server_name, read_plugin_servers
from buddy.extend.search_folders import (
    HOOKS_FILE,
    PLUGIN_FOLDERS,
    ExtensionPlaces,
    PluginFolder,
    plugin_folders,
    plugin_hooks,
)
from buddy.safety.paths import is_beneath, make_private_folders, read_beneath, replace_file
from buddy.safety.sanitise import clean, one_line
from buddy.workspace.processes.launch import trusted_program

MANIFEST = ".claude-plugin/plugin.json"
MARKETPLACE = ".claude-plugin/marketplace.json"
MCP_FILE = ".mcp.json"
MAX_MANIFEST_BYTES = 256 * 1024
CLONE_LIMIT_S = 300
_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_URL = pattern(r"(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+")
_GIT = ("-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "core.fsmonitor=false")


class PluginError(Exception):
    """A plug-in can't be added or removed; one sentence for the person."""


class PluginContents(msgspec.Struct, frozen=True):
    """The things a plug-in brings, for the person to read: names by kind, hooks one by one, and a sentence
    for each part that cannot be used."""

    skills: tuple[str, ...]
    commands: tuple[str, ...]
    agents: tuple[str, ...]
    hooks: tuple[HookDefinition, ...]
    servers: tuple[str, ...]
    problems: tuple[str, ...] = ()


class PluginStore:
    """The plug-ins a person added. `data` is buddy's folder of data. Everything here blocks."""

    def __init__(self, data: str) -> None:
        self._file = os.path.join(data, "plugins.json")
        self._copies = os.path.join(data, "plugins")

    def all(self) -> tuple[PluginFolder, ...]:
        """Return the plug-ins, by name; none where the file can't be read."""
        try:
            with open(self._file, "rb") as file:
                found = msgspec.json.decode(file.read(), type=tuple[PluginFolder, ...])
        except (OSError, msgspec.DecodeError):
            return ()
        return tuple(sorted(found, key=lambda one: one.name))

    def add(self, source: str, *, cwd: str) -> tuple[PluginFolder, PluginContents]:
        """Add the plug-in of a folder or a git address, `#FOLDER` behind it for one inside; one of the same
        name is replaced. Raises `PluginError`."""
        place, _, inside = source.partition("#")
        is_copy = _URL().fullmatch(place) is not None
        top = (
            self._clone(place) if is_copy else os.path.realpath(os.path.join(cwd, os.path.expanduser(place)))
        )
        try:
            folder = os.path.realpath(os.path.join(top, inside))
            if not is_beneath(folder, top):
                raise PluginError(f"{inside!r} leads out of {place}")
            name = _name_of(folder, os.path.basename(inside or place).removesuffix(".git"))
            if is_copy:
                top, folder = self._keep(top, name, inside)
        except PluginError:
            if is_copy:
                _delete(top)
            raise
        plugin, contents = _with_hooks(PluginFolder(name, folder, source=source))
        self._save((*(one for one in self.all() if one.name != name), plugin))
        return plugin, contents

    def remove(self, name: str) -> PluginFolder:
        """Remove a plug-in; a folder of the person's stays, a copy goes. Raises `PluginError`."""
        known = self.all()
        found = next((one for one in known if one.name == name), None)
        if found is None:
            names = ", ".join(one.name for one in known) or "none"
            raise PluginError(f"there is no plug-in named {one_line(name, 80)!r} (plug-ins: {names})")
        self._save(tuple(one for one in known if one.name != name))
        if is_beneath(os.path.realpath(found.path), os.path.realpath(self._copies)):
            _delete(os.path.join(self._copies, name))
        return found

    def _save(self, plugins: tuple[PluginFolder, ...]) -> None:
        try:
            make_private_folders(os.path.dirname(self._file))
            replace_file(self._file, msgspec.json.format(msgspec.json.encode(plugins), indent=1))
        except OSError as error:
            raise PluginError(f"{self._file} can't be written: {error.strerror}") from error

    def _clone(self, address: str) -> str:
        git = trusted_program("git")
        if git is None:
            raise PluginError("expected git, found none; clone the repository yourself and add its folder")
        target = os.path.join(self._copies, f".new-{os.getpid()}")
        try:
            make_private_folders(self._copies)
            _delete(target)
            words = (git, *_GIT, "clone", "-q", "--depth", "1", "--template=", "--", address, target)
            done = subprocess.run(
                words, capture_output=True, timeout=CLONE_LIMIT_S, check=False, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PluginError(f"git clone did not end well: {error}") from error
        if done.returncode:
            words = one_line(clean(done.stderr.decode("utf-8", "replace")), 300)
            raise PluginError(f"git clone failed: {words}")
        return os.path.realpath(target)

    def _keep(self, clone: str, name: str, inside: str) -> tuple[str, str]:
        """Move a clone to its place, which is named like the plug-in."""
        target = os.path.join(os.path.realpath(self._copies), name)
        _delete(target)
        try:
            os.rename(clone, target)
        except OSError as error:
            raise PluginError(f"the copy can't be kept at {target}: {error.strerror}") from error
        return target, os.path.normpath(os.path.join(target, inside))


def _delete(folder: str) -> None:
    import shutil  # here: 2 ms that only a change of plug-ins needs

    shutil.rmtree(folder, ignore_errors=True)


def plugin_of_folder(path: str) -> PluginFolder:
    """Return the plug-in of a folder for one run, with its hooks as they are now. Blocks. Raises
    `PluginError`."""
    folder = os.path.realpath(os.path.expanduser(path))
    return _with_hooks(PluginFolder(_name_of(folder, os.path.basename(folder)), folder, source=path))[0]


def _with_hooks(plugin: PluginFolder) -> tuple[PluginFolder, PluginContents]:
    more, problems = _paths_of_manifest(plugin.path)
    plugin = msgspec.structs.replace(plugin, more=more)
    contents = contents_of(plugin)
    digests = tuple(one.digest for one in contents.hooks if one.hook is not None)
    servers = tuple(definition_digest(one, plugin.path) for one in read_plugin_servers(plugin)[0])
    contents = msgspec.structs.replace(contents, problems=(*problems, *contents.problems))
    return msgspec.structs.replace(plugin, hooks=digests, servers=servers), contents


def _paths_of_manifest(folder: str) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the paths that a manifest names beside the usual ones, by part, and a sentence for each that
    cannot be used. A part that stands in the manifest itself is named by the manifest's own path."""
    manifest = _json(folder, MANIFEST)
    paths: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    usual = {name: name for _kind, name in PLUGIN_FOLDERS} | {"hooks": HOOKS_FILE, "mcpServers": MCP_FILE}
    for part, place in usual.items():
        value = manifest.get(part)
        if isinstance(value, dict) and part in ("hooks", "mcpServers"):
            paths[part] = (MANIFEST,)
            continue
        for entry in _entries_of(manifest.get(part)):
            path = os.path.normpath(entry) if isinstance(entry, str) and entry.strip() else ""
            is_deep = part == "commands" and path.startswith(f"{place}/")
            if path == place or os.path.dirname(path) == place or is_deep:
                continue  # it is looked into anyway
            if problem := _problem_of_path(folder, path, entry):
                problems.append(f"{part} of {MANIFEST}: {problem}")
            elif path not in paths.get(part, ()):
                paths[part] = (*paths.get(part, ()), path)
    return paths, tuple(problems)


def _entries_of(value: object) -> list[object]:
    if value is None:
        return []
    return cast(list[object], value) if isinstance(value, list) else [value]


def _problem_of_path(folder: str, path: str, entry: object) -> str:
    if not path:
        return f"expected a path or a list of paths, found {one_line(clean(json.dumps(entry)), 80)}; left out"
    shown = one_line(clean(path), 80)
    if os.path.isabs(path) or not is_beneath(os.path.realpath(os.path.join(folder, path)), folder):
        return f"{shown} leads out of the plug-in; left out"
    if not os.path.lexists(os.path.join(folder, path)):
        return f"there is no {shown}; left out"
    return ""


def contents_of(plugin: PluginFolder) -> PluginContents:
    """Return the things a plug-in brings."""
    places = ExtensionPlaces("/", "/", "/", "/", (plugin,))
    names: dict[str, list[str]] = {"skill": [], "command": [], "agent": []}
    for folder in plugin_folders(places):
        names[folder.kind] += [one.name for one in definitions_in(folder)]
    hooks: tuple[HookDefinition, ...] = ()
    for file in plugin_hooks(places):
        try:
            data = read_beneath(plugin.path, os.path.relpath(file.path, plugin.path), MAX_MANIFEST_BYTES)
        except (OSError, ToolError):
            continue
        hooks += read_definitions(file, data)[0]
    servers, problems = read_plugin_servers(plugin)
    prefix = plugin_server_name(plugin, "")
    return PluginContents(
        tuple(names["skill"]),
        tuple(names["command"]),
        tuple(names["agent"]),
        hooks,
        tuple(one.name.removeprefix(prefix) for one in servers),
        tuple(clean(problem) for problem in problems),
    )


def _name_of(folder: str, fallback: str) -> str:
    if not os.path.isdir(folder):
        raise PluginError(f"expected a folder, found none at {folder}")
    if not os.path.lexists(os.path.join(folder, MANIFEST)):
        if os.path.lexists(os.path.join(folder, MARKETPLACE)):
            raise PluginError(
                f"this is a collection: add one of its plug-ins, as SOURCE#FOLDER ({_several(folder)})"
            )
        parts = ("commands", "agents", "skills", "hooks/hooks.json", MCP_FILE)
        if not any(os.path.lexists(os.path.join(folder, part)) for part in parts):
            raise PluginError(f"expected {MANIFEST} or one of {', '.join(parts)} in {folder}, found none")
    name = _json(folder, MANIFEST).get("name", fallback)
    if not isinstance(name, str) or not _NAME().fullmatch(name):
        raise PluginError(
            f"expected a name of letters, digits, '-', '_' and '.', found {one_line(str(name), 80)!r}"
        )
    return name


def _several(folder: str) -> str:
    plugins = _json(folder, MARKETPLACE).get("plugins")
    entries = cast(list[object], plugins) if isinstance(plugins, list) else []
    sources = [cast(dict[str, Any], entry).get("source") for entry in entries if isinstance(entry, dict)]
    return one_line(clean(", ".join(source for source in sources if isinstance(source, str))), 300)


def _json(folder: str, name: str) -> dict[str, object]:
    try:
        table: object = json.loads(read_beneath(folder, name, MAX_MANIFEST_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ToolError, ValueError, RecursionError) as error:
        raise PluginError(
            f"{os.path.join(folder, name)} can't be read: {one_line(str(error), 200)}"
        ) from error
    if not isinstance(table, dict):
        raise PluginError(f"{os.path.join(folder, name)}: expected a JSON object")
    return cast(dict[str, object], table)
