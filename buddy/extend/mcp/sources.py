"""The places MCP servers are defined in, and which definition of a name counts.

A server of the person's own is never replaced by one of the project with the same name: rules the person made
for it would hold for the other one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from buddy.agent.tool import ToolError
from buddy.extend.mcp.definitions import Scope, ServerDefinition, kind_of, read_servers
from buddy.extend.search_folders import PluginFolder
from buddy.safety.paths import read_regular
from buddy.safety.sanitise import visible

PROJECT_FILE = ".mcp.json"
USER_FILE = "mcp.json"
SERVERS_KEYS = ("mcpServers", "servers", "mcp_servers")
PROJECTS_KEY = "projects"
"""Key of the person's file for servers that count in one folder only, by the folder's real path."""
MAX_FILE_BYTES = 1_000_000
FOLDER_VARIABLE = "${CLAUDE_PLUGIN_ROOT}"


class Sources(msgspec.Struct, frozen=True):
    """Places to look for servers. `plugins` are the folders the person added; `settings` is `[mcp_servers]`
    of the person's buddy.toml, `given` the values of `--mcp-config`; `strict`: nothing but those counts."""

    root: str
    config_folder: str
    settings: Mapping[str, Any] = {}
    plugins: tuple[PluginFolder, ...] = ()
    given: tuple[str, ...] = ()
    strict: bool = False

    def is_any(self) -> bool:
        """Tell whether a server may be defined anywhere: three looks at the disk."""
        if self.given or (self.settings and not self.strict):
            return True
        files = [os.path.join(self.root, PROJECT_FILE), os.path.join(self.config_folder, USER_FILE)]
        files += [os.path.join(plugin.path, name) for plugin in self.plugins for name in server_files(plugin)]
        return not self.strict and any(map(os.path.lexists, files))


class FoundServers(msgspec.Struct, frozen=True):
    """The definitions in force, those that another one of the same name hides, and problems, a sentence
    each. `accepted`: digests of servers as they were when the person added their plug-in."""

    servers: tuple[ServerDefinition, ...]
    hidden: tuple[ServerDefinition, ...] = ()
    problems: tuple[str, ...] = ()
    accepted: frozenset[str] = frozenset()


def find_servers(sources: Sources) -> FoundServers:
    """Read every place. Blocks."""
    found: list[ServerDefinition] = []
    problems: list[str] = []

    def take(table: object, scope: Scope, source: str) -> None:
        servers, wrong = read_servers(table, scope, source)
        found.extend(servers)
        problems.extend(wrong)

    for text in sources.given:
        source = "--mcp-config" if text.lstrip().startswith("{") else text
        take(_read(text, problems, required=True), "arguments", source)
    if not sources.strict:
        user = os.path.join(sources.config_folder, USER_FILE)
        take(_servers_of_folder(user, sources.root), "user", f"{user} (this folder)")
        take(_read(user, problems, required=False), "user", user)
        take(dict(sources.settings), "user", "[mcp_servers] of buddy.toml")
        project = os.path.join(sources.root, PROJECT_FILE)
        take(_read(project, problems, required=False), "project", project)
        for plugin in sources.plugins:
            servers, wrong = read_plugin_servers(plugin)
            found.extend(servers)
            problems.extend(wrong)
    servers, hidden = _first_of_each_name(found)
    accepted = frozenset(digest for plugin in sources.plugins for digest in plugin.servers)
    return FoundServers(servers, hidden, tuple(problems), accepted)


def server_files(plugin: PluginFolder) -> tuple[str, ...]:
    """Return the files of a plug-in that may define servers, relative to its folder; its manifest is one of
    them where it does so itself."""
    return (PROJECT_FILE, *plugin.more.get(SERVERS_KEYS[0], ()))


def read_plugin_servers(plugin: PluginFolder) -> tuple[tuple[ServerDefinition, ...], tuple[str, ...]]:
    """Return the servers of a plug-in, with its name before theirs and its folder filled in, and a sentence
    for each that cannot be used."""
    problems: list[str] = []
    found: list[ServerDefinition] = []
    for name in server_files(plugin):
        path = os.path.join(plugin.path, name)
        table = _read(path, problems, required=False, bare=True)
        named = (
            {plugin_server_name(plugin, key): entry for key, entry in cast("dict[Any, Any]", table).items()}
            if isinstance(table, dict)
            else table
        )
        servers, wrong = read_servers(with_folder(named, plugin.path), "plugin", path)
        found += (msgspec.structs.replace(one, folder=plugin.path) for one in servers)
        problems += wrong
    return _first_of_each_name(found)[0], tuple(problems)


def plugin_server_name(plugin: PluginFolder, name: object) -> str:
    """Return the name that a server of a plug-in has in a session."""
    return f"plugin_{plugin.name}_{name}"


def with_folder(node: object, folder: str) -> object:
    """Return a table with `${CLAUDE_PLUGIN_ROOT}` replaced by the plug-in's folder."""
    match node:
        case str():
            return node.replace(FOLDER_VARIABLE, folder)
        case list():
            return [with_folder(one, folder) for one in cast("list[object]", node)]
        case dict():
            table = cast("dict[object, object]", node)
            return {key: with_folder(value, folder) for key, value in table.items()}
        case _:
            return node


def _first_of_each_name(
    found: Sequence[ServerDefinition],
) -> tuple[tuple[ServerDefinition, ...], tuple[ServerDefinition, ...]]:
    first: dict[str, ServerDefinition] = {}
    hidden = [one for one in found if first.setdefault(one.name, one) is not one]
    return tuple(first.values()), tuple(hidden)


def _read(given: str, problems: list[str], *, required: bool, bare: bool = False) -> object:
    """Return the servers of a file, or of JSON given on the command line; {} where there are none."""
    if given.lstrip().startswith("{"):
        return servers_of(given, "--mcp-config", problems)
    try:
        data = read_regular(os.path.expanduser(given), MAX_FILE_BYTES)
    except FileNotFoundError:
        problems += [f"--mcp-config {visible(given)}: there is no such file"] if required else []
        return {}
    except (OSError, ToolError) as error:
        problems.append(f"{visible(given)}: can't be read: {getattr(error, 'strerror', None) or error}")
        return {}
    return servers_of(data.decode("utf-8-sig", "replace"), given, problems, bare=bare)


def _servers_of_folder(path: str, root: str) -> object:
    """Return the servers in the person's file that count in this folder only. What is wrong with the file is
    told once, where it is read for all folders."""
    try:
        whole: object = json.loads(read_regular(path, MAX_FILE_BYTES).decode("utf-8-sig", "replace"))
    except (OSError, ToolError, ValueError, RecursionError):
        return {}
    for key in (PROJECTS_KEY, root):
        whole = cast("dict[str, Any]", whole).get(key) if isinstance(whole, dict) else None
    return servers_of(json.dumps(whole), path, []) if isinstance(whole, dict) else {}


def servers_of(text: str, source: str, problems: list[str], *, bare: bool = False) -> object:
    """Return the table of servers in the text of a file; `bare`: it may stand there without a name."""
    try:
        table: object = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        line = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
        problems.append(f"{visible(source)}: not valid JSON ({line}); no server of it is used")
        return {}
    if not isinstance(table, dict):
        problems.append(f'{visible(source)}: expected {{"mcpServers": {{…}}}}, found {kind_of(table)}')
        return {}
    given = cast("dict[str, Any]", table)
    for name in SERVERS_KEYS:
        if name in given:
            return given[name]
    if given and PROJECTS_KEY not in given and all(isinstance(one, dict) for one in given.values()):
        if bare:
            return given
        problems.append(f'{visible(source)}: expected {{"mcpServers": {{…}}}}; no server of it is used')
    return {}
