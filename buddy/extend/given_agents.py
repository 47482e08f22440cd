"""Subagents that a program defines for one run, instead of in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from buddy.extend.definitions import ExtensionFile, read_agent_servers
from buddy.safety.policy.decide import mode_by_name
from buddy.safety.sanitise import clean, one_line

MAX_AGENTS = 100
MAX_PROMPT_CHARS = 200_000
NAME_CHARS = 64
_KNOWN = frozenset(
    {
        *("description", "prompt", "tools", "disallowedTools", "model", "permissionMode", "maxTurns"),
        *("background", "mcpServers"),
    }
)


def read_agents(table: Mapping[str, Any], source: str) -> tuple[ExtensionFile, ...]:
    """Return the definitions of a table by name. Raises `ValueError`."""
    if len(table) > MAX_AGENTS:
        raise ValueError(f"{source}: expected at most {MAX_AGENTS} subagents, found {len(table)}")
    return tuple(_read_agent(name, entry, source) for name, entry in table.items())


def _read_agent(name: str, entry: object, source: str) -> ExtensionFile:
    where = f"{source}: {one_line(clean(name), NAME_CHARS)}"
    if not name or len(name) > NAME_CHARS or not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"{where}: expected a name of letters, digits, - and _")
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: expected an object")  # noqa: TRY004 - it is the text that is wrong
    fields = cast("dict[str, Any]", entry)
    unknown = sorted(key for key in fields.keys() - _KNOWN if fields[key])
    if unknown:
        raise ValueError(f"{where}: {one_line(clean(', '.join(unknown)), 200)} is not supported")
    prompt, description = fields.get("prompt"), fields.get("description", "")
    if not isinstance(prompt, str) or not prompt.strip() or not isinstance(description, str):
        raise ValueError(f"{where}: expected a prompt and a description as text")
    mode, turns = fields.get("permissionMode") or "", fields.get("maxTurns") or 0
    if mode and mode_by_name(str(mode)) is None:
        raise ValueError(f"{where}: there is no permission mode {str(mode)[:60]!r}")
    if not isinstance(turns, int) or turns < 0:
        raise ValueError(f"{where}: expected a whole number as maxTurns")
    tools = fields.get("tools")
    servers, own = _servers(fields.get("mcpServers") or [], where)
    return ExtensionFile(
        "agent",
        name,
        "",
        source,
        "user",
        description=one_line(clean(description), 1_000),
        body=prompt[:MAX_PROMPT_CHARS],
        tools=None if tools is None else _names(tools, where),
        disallowed_tools=_names(fields.get("disallowedTools") or [], where),
        model=str(fields.get("model") or ""),
        permission_mode=str(mode),
        max_turns=turns,
        servers=servers,
        own_servers=own,
        background=fields.get("background") if isinstance(fields.get("background"), bool) else None,
    )


def _servers(value: object, where: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    entries = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(entry, str | dict) for entry in entries):
        raise ValueError(
            f"{where}: expected a list of MCP servers: names, or objects with definitions by name"
        )
    names, own, problem = read_agent_servers(entries)
    if problem:
        raise ValueError(f"{where}: {problem}")
    return names, own


def _names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[object]", value)):
        raise ValueError(f"{where}: expected a list of names of tools")
    return tuple(cast("list[str]", value))
