"""Names of MCP tools as models and rules know them: `mcp__server__tool`, at most 64 characters.

The part of the server holds no `__` and neither begins nor ends with `_`, so that the first `__` behind it
ends it: a server cannot take a name that rules for another one cover.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from buddy.agent.lazy_regex import pattern

MAX_NAME = 64
MAX_SERVER = 24
_HASH_CHARS = 6
_HASHED = pattern(r"-[0-9a-f]{6}$")


def server_part(server: str) -> str:
    """Return the part of a server in the names of its tools. A name that cannot stand as it is gets a hash,
    and so does one that looks as if it had one: no server can take the part of another."""
    part = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9-]+", "_", server)).strip("_")
    if part == server and len(part) <= MAX_SERVER and _HASHED().search(part) is None:
        return part
    return f"{part[: MAX_SERVER - _HASH_CHARS - 1].rstrip('_-') or 'server'}-{_hash(server)}"


def agent_server_name(agent: str, server: str) -> str:
    """Return the name that a server of a subagent file has in a session. Characters that names of servers
    can't hold are replaced, and a hash of both names tells it from others that would look the same."""
    name = f"agent_{agent}_{server}"
    fit = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)
    if fit == name and len(name) <= MAX_NAME and name[-1].isalnum() and "_" not in server:
        return name
    both = f"{agent}\0{server}"
    return f"{fit[: MAX_NAME - _HASH_CHARS - 1]}-{_hash(both)}"


def tool_names(part_of_server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the name of each tool of a server. A name that cannot stand as it is gets a hash of the whole,
    so that it depends on no other tool."""
    room = MAX_NAME - len(f"mcp__{part_of_server}__")
    names: dict[str, str] = {}
    for tool in tools:
        part = re.sub(r"[^A-Za-z0-9_-]", "_", tool)
        if part != tool or len(part) > room:
            part = f"{part[: room - _HASH_CHARS - 1]}_{_hash(tool)}"
        names[tool] = f"mcp__{part_of_server}__{part}"
    return names


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
