"""`search_tools` through the whole program: what a request declares, and what a call needs before it."""

import sys
from pathlib import Path

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_server.py")
MANY = {"tools": {"direct": 20}}


async def test_a_tool_is_declared_once_it_was_found_and_after_a_resume(tmp_path: Path) -> None:
    script = [
        reply(call("git_log")),
        reply(call("search_tools", query="git_log")),
        reply(call("git_log")),
        reply("done"),
        reply("again"),
    ]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url, settings=MANY)
        program.files(main__py="1\n")
        ran = await program.run("exec", "look")
        again = await program.run("exec", "--continue", "and now")
        offered = [one.tool_names for one in server.requests]
        results = server.requests[-1].tool_results
    assert (ran.out, again.out) == ("done\n", "again\n"), ran.err + again.err
    first = offered[0]
    assert "git_log" not in first
    assert "search_tools" in first
    assert offered == [first, first, [*first, "git_log"], [*first, "git_log"], [*first, "git_log"]]
    assert results[0].startswith("git_log is not loaded and was not called.")
    assert "start" in results[2]


async def test_the_rules_hold_for_a_tool_that_was_found(tmp_path: Path) -> None:
    script = [
        reply(call("search_tools", query="git_push, delete_file, mcp__plain__echo")),
        reply(call("delete_file", path="main.py"), call("mcp__plain__echo", text="hello")),
        reply("done"),
    ]
    settings = {
        **MANY,
        "mcp_servers": {"plain": {"command": sys.executable, "args": [SERVER, "honest"], "required": True}},
    }
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url, settings=settings)
        program.files(main__py="1\n")
        ran = await program.run("exec", "--permission-mode", "plan", "look")
        results = [one for one in await program.history() if hasattr(one, "call_id")]
        described = server.requests[0].json["tools"]
    assert [one.status for one in results] == ["ok", "denied", "denied"], ran.err
    assert (program.repo / "main.py").exists()
    search = next(one["function"] for one in described if one["function"]["name"] == "search_tools")
    assert search["description"].endswith("MCP servers with tools: plain.")


async def test_a_subagent_finds_no_tool_outside_its_list(tmp_path: Path) -> None:
    script = [
        reply(call("search_tools", query="delegate")),
        reply(
            call("delegate", task="look", tools=["read_file", "git_log"], background=False),
        ),
        reply(call("search_tools", query="git_push")),
        reply(call("git_push")),
        reply("nothing"),
        reply("done"),
    ]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url, settings=MANY)
        program.files(main__py="1\n")
        ran = await program.run(*YOLO, "exec", "look")
        subagent = server.requests[2:5]
    assert ran.out == "done\n", ran.err
    assert subagent[0].tool_names == ["git_log", "read_file"]
    results = subagent[2].tool_results
    assert "there is no tool named 'search_tools'" in results[0]
    assert "there is no tool named 'git_push'" in results[1]


async def test_a_search_that_is_switched_off_leaves_all_tools_offered(tmp_path: Path) -> None:
    async with FakeLLM([reply("done")]) as server:
        program = Program(
            tmp_path, server.url, settings={"tools": {"direct": 20, "disabled": ["search_tools"]}}
        )
        program.files(main__py="1\n")
        await program.run("exec", "look")
        (asked,) = server.requests
    assert {"git_log", "web_fetch"} <= set(asked.tool_names)
    assert "search_tools" not in asked.tool_names
