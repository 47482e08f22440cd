"""`buddy doctor` tells what would stop the first prompt."""

from __future__ import annotations

from pathlib import Path

from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.headless.program import Desk


async def test_a_missing_key_is_bad_and_said_with_what_to_do(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "http://127.0.0.1:9", environment={"FAKE_LLM_KEY": ""})
    ran = await desk.run("doctor")
    assert ran.code == 1
    (line,) = [line for line in ran.out.splitlines() if line.startswith("BAD ")]
    assert "no key for openai: set FAKE_LLM_KEY in the environment, run `buddy login openai`" in line


async def test_with_a_key_nothing_is_bad(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "http://127.0.0.1:9")
    ran = await desk.run("doctor")
    assert (ran.code, [line for line in ran.out.splitlines() if line.startswith("BAD ")]) == (0, [])
    assert "ok    key: there is one, or none needed" in ran.out


async def test_no_model_is_bad(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "http://127.0.0.1:9")
    (desk.config / "buddy.toml").write_text("")
    ran = await desk.run("doctor")
    assert ran.code == 1
    assert "BAD   model: no model is set: run buddy init" in ran.out


async def test_mcp_servers_that_are_configured_are_said_not_to_be_connected(tmp_path: Path) -> None:
    servers = {"mcp_servers": {"docs": {"command": "docs-server"}, "a": {"command": "b"}}}
    desk = Desk(tmp_path, "http://127.0.0.1:9", settings=servers)
    told = "[mcp_servers] a, docs: this version connects to no MCP server; their tools are missing"
    assert f"note  {told}\n" in (await desk.run("doctor")).out


async def test_a_start_says_the_same_in_one_line(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello")]) as server:
        ran = await Desk(tmp_path, server.url, settings={"mcp_servers": {"docs": {}}}).run("exec", "hi")
    assert (ran.code, ran.out) == (0, "Hello\n")
    assert ran.told() == [
        "[mcp_servers] docs: this version connects to no MCP server; their tools are missing"
    ]
