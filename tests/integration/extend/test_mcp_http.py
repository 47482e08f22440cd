"""Servers with an address, made with the protocol library: a session connects, calls, hears of changes and
leaves."""

from pathlib import Path

import pytest

from tests.support.mcp_remote import connecting, everything, running


def app(kind: str) -> tuple[object, str]:
    server = everything()
    match kind:
        case "sse":
            return server.sse_app(), "/sse"
        case "json":
            return server.streamable_http_app(json_response=True), "/mcp"
        case "stateless":
            return server.streamable_http_app(stateless_http=True), "/mcp"
        case _:
            return server.streamable_http_app(), "/mcp"


@pytest.mark.parametrize("kind", ["http", "json", "stateless", "sse"])
async def test_a_tool_is_called(tmp_path: Path, kind: str) -> None:
    program, path = app(kind)
    async with (
        running(program) as url,
        connecting(tmp_path, url + path, "sse" if kind == "sse" else "http") as client,
    ):
        server = await client.ready()
        assert server.facts is not None
        assert server.facts.title == "everything"
        assert await client.call(text="hello") == "you said hello"
        assert await client.call("steps") == "done"
