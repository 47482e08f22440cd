"""MCP servers that an editor hands over with a session, as a configuration buddy reads.

They count as those of `--mcp-config` do: the editor is the person's own program, it starts buddy and could
start them itself. Their tools are judged like any other call. A value is taken as it is: a `${NAME}`, which
buddy would fill from its environment, leaves the server out, since an editor may have read it from a project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from acp import schema

MAX_SERVERS = 100
MAX_CHARS = 1_000_000


class HandedServersError(Exception):
    """Servers that cannot be taken at all; one sentence for the editor."""


def read_handed(servers: Sequence[Any] | None) -> tuple[str, tuple[str, ...]]:
    """Return the servers as JSON, "" for none, and a sentence for each that was left out. Raises
    `HandedServersError`."""
    table: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    if len(servers or ()) > MAX_SERVERS:
        raise HandedServersError(f"mcpServers: expected at most {MAX_SERVERS}, found {len(servers or ())}")
    for server in servers or ():
        name = str(getattr(server, "name", ""))[:80]
        entry = _entry_of(server)
        if entry is None:
            notes.append(f"MCP server {name!r} is left out: expected stdio, http or sse")
        elif name in table:
            notes.append(f"MCP server {name!r} is left out: there are two of this name")
        elif any("${" in text for text in _texts(entry)):
            notes.append(f"MCP server {name!r} is left out: ${{…}} stands in it; the editor must fill it in")
        else:
            table[name] = entry
    text = json.dumps({"mcpServers": table}) if table else ""
    if len(text) > MAX_CHARS:
        raise HandedServersError(f"mcpServers: expected at most {MAX_CHARS:,} characters")
    return text, tuple(notes)


def _entry_of(server: object) -> dict[str, Any] | None:
    match server:
        case schema.McpServerStdio():
            variables = {variable.name: variable.value for variable in server.env}
            return {"command": server.command, "args": list(server.args), "env": variables}
        case schema.HttpMcpServer() | schema.SseMcpServer():
            headers = {header.name: header.value for header in server.headers}
            return {"type": server.type, "url": server.url, "headers": headers}
        case _:
            return None


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            yield name
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _texts(inner)
    else:
        yield str(value)
