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
from buddy.extend.mcp.definitions import Scope, ServerDefinition, read_servers
from buddy.safety.paths import read_regular
from buddy.safety.sanitise import visible

PROJECT_FILE = ".mcp.json"
USER_FILE = "mcp.json"
SERVERS_KEYS = ("mcpServers", "servers", "mcp_servers")
PROJECTS_KEY = "projects"
"""Key of the person's file for servers that count in one folder only, by the folder's real path."""
MAX_FILE_BYTES = 1_000_000


class Sources(msgspec.Struct, frozen=True):
    """Places to look for servers. `settings` is `[mcp_servers]` of the person's buddy.toml, `given` the
    values of
    `--mcp-config`; `strict`: nothing but those counts."""

    root: str
    config_folder: str
    settings: Mapping[str, Any] = {}
    given: tuple[str, ...] = ()
    strict: bool = False

    def is_any(self) -> bool:
        """Tell whether a server may be defined anywhere: three looks at the disk."""
        if self.given or (self.settings and not self.strict):
            return True
        files = (os.path.join(self.root, PROJECT_FILE), os.path.join(self.config_folder, USER_FILE))
        return not self.strict and any(map(os.path.lexists, files))


class FoundServers(msgspec.Struct, frozen=True):
    """The definitions in force, those that another one of the same name hides, and problems, a sentence
    each."""

    servers: tuple[ServerDefinition, ...]
    hidden: tuple[ServerDefinition, ...] = ()
    problems: tuple[str, ...] = ()


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
    servers, hidden = _first_of_each_name(found)
    return FoundServers(servers, hidden, tuple(problems))


def _first_of_each_name(
    found: Sequence[ServerDefinition],
) -> tuple[tuple[ServerDefinition, ...], tuple[ServerDefinition, ...]]:
    first: dict[str, ServerDefinition] = {}
    hidden = [one for one in found if first.setdefault(one.name, one) is not one]
    return tuple(first.values()), tuple(hidden)


def _read(given: str, problems: list[str], *, required: bool) -> object:
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
    return servers_of(data.decode("utf-8-sig", "replace"), given, problems)


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


def servers_of(text: str, source: str, problems: list[str]) -> object:
    """Return the table of servers in the text of a file."""
    try:
        table: object = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        line = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
        problems.append(f"{visible(source)}: not valid JSON ({line}); no server of it is used")
        return {}
    if not isinstance(table, dict):
        problems.append(f'{visible(source)}: expected {{"mcpServers": {{…}}}}, found {type(table).__name__}')
        return {}
    given = cast("dict[str, Any]", table)
    for name in SERVERS_KEYS:
        if name in given:
            return given[name]
    if given and PROJECTS_KEY not in given and all(isinstance(one, dict) for one in given.values()):
        problems.append(f'{visible(source)}: expected {{"mcpServers": {{…}}}}; no server of it is used')
    return {}
