"""MCP servers that a subagent file defines itself: started for its subagent alone, never before trust, and
ended with it."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from buddy.safety.trust import TrustStore, folder_of
from buddy.safety.trusted_files import trusted_things
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program, Ran
from tests.support.repl import open_repl_in

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_server.py")
TOOL = "mcp__agent_rev_db__echo"
pytestmark = pytest.mark.slow


def agent_file(mode: str, *files: Path, front: str = "", **more: object) -> str:
    entry = {"command": sys.executable, "args": [SERVER, mode, *map(str, files)], "sandbox": False, **more}
    servers = json.dumps([{"db": entry}])
    return f"---\nname: rev\ndescription: Reviews\nmcpServers: {servers}\n{front}\n---\nYou review.\n"


def is_subagent(asked: Asked) -> bool:
    return any(
        "You review." in str(one["content"]) for one in asked.json["messages"] if one["role"] == "system"
    )


def trusting(program: Program) -> None:
    """The person trusts the program's repository."""
    path = program.home / ".local/state/buddy/trust.json"
    store = TrustStore(str(path), home=str(program.home), temporary=str(program.folder / "tmp"))
    root = str(program.repo)
    assert store.remember(folder_of(root), trusted_things(root), trusted=True, now=1.0) == ""


class Model:
    """A model whose task delegates to `rev`, which makes the `calls` one after the other."""

    def __init__(self, *calls: Any, **arguments: Any) -> None:
        self.calls = calls
        self.arguments = arguments
        self.seen: list[Asked] = []
        self.own: list[Asked] = []

    def __call__(self, asked: Asked) -> Any:
        if is_subagent(asked):
            self.seen.append(asked)
            made = len(asked.tool_results)
            return reply(self.calls[made]) if made < len(self.calls) else reply("reviewed")
        self.own.append(asked)
        if asked.tool_results:
            return reply("done")
        return reply(call("delegate", task="look", agent="rev", background=False, **self.arguments))


async def run(tmp_path: Path, model: Model, text: str, *, mine: bool = True, trusted: bool = False) -> Ran:
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        folder = (program.home if mine else program.repo) / ".claude/agents"
        folder.mkdir(parents=True)
        (folder / "rev.md").write_text(text)
        program.files(main__py="1\n")
        ran = await program.run(*YOLO, *(["--trust"] if trusted else []), "exec", "go")
    assert (ran.code, ran.out) == (0, "done\n"), ran.err
    return ran


async def test_a_server_runs_for_its_subagent_alone_and_ends_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    model = Model(call(TOOL, text="hello"))
    await run(tmp_path, model, agent_file("hangs-at-end", mark))
    assert model.seen[-1].tool_results == ["you said hello"]
    assert TOOL in model.seen[0].tool_names
    assert all(TOOL not in asked.tool_names for asked in model.own)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


async def test_a_list_of_tools_in_the_file_does_not_take_its_servers_away(tmp_path: Path) -> None:
    model = Model(call(TOOL, text="hello"))
    await run(tmp_path, model, agent_file("honest", front="tools: Read"))
    assert model.seen[-1].tool_results == ["you said hello"]
    assert {TOOL, "read_file"} == set(model.seen[0].tool_names)


@pytest.mark.parametrize("name", ["mcp__db__echo", "mcp__db", TOOL])
async def test_a_file_may_leave_a_tool_of_its_server_out(tmp_path: Path, name: str) -> None:
    model = Model(call(TOOL, text="hello"))
    await run(tmp_path, model, agent_file("honest", front=f"disallowedTools: {name}"))
    assert TOOL not in model.seen[0].tool_names
    assert "you said" not in model.seen[-1].tool_results[0]


async def test_a_call_that_lists_the_tools_gets_no_server_beside_them(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    model = Model(call(TOOL, text="hello"), tools=["read_file"])
    await run(tmp_path, model, agent_file("hangs-at-start", mark))
    assert model.seen[0].tool_names == ["read_file"]
    assert not mark.exists()


@pytest.mark.parametrize(
    ("mode", "said"),
    [("ends-at-start", "cannot find the database"), ("crash", "exit code 3"), ("flood", "nobody asked")],
)
async def test_a_server_that_fails_costs_its_calls(tmp_path: Path, mode: str, said: str) -> None:
    model = Model(call(TOOL, text="hello"))
    await run(tmp_path, model, agent_file(mode))
    assert said in json.dumps(model.seen[-1].json, ensure_ascii=False)
    assert "\x1b" not in json.dumps(model.seen[0].json, ensure_ascii=False)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"command": 5}, "expected text"),
        ({}, "expected command"),
        ({"url": "file:///etc/passwd"}, "https://"),
        ({"command": "${SECRET_OF_NOBODY}"}, "SECRET_OF_NOBODY"),
        ({"command": "no-such-program-anywhere"}, "found none"),
        ({"type": "carrier-pigeon"}, "stdio, http, sse"),
    ],
)
async def test_a_definition_of_no_use_is_told(tmp_path: Path, entry: dict[str, object], said: str) -> None:
    servers = json.dumps({"db": entry})
    text = f"---\nname: rev\ndescription: Reviews\nmcpServers: {servers}\n---\nYou review.\n"
    model = Model()
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        (program.home / ".claude/agents").mkdir(parents=True)
        (program.home / ".claude/agents/rev.md").write_text(text)
        program.files(main__py="1\n")
        ran = await program.run(*YOLO, "exec", "go")
    assert ran.out == "done\n", ran.err
    told = ran.err + json.dumps([asked.json for asked in model.seen])
    assert said in told


async def test_nothing_of_a_project_starts_before_it_is_approved(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    model = Model(call(TOOL, text="hello"))
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        (program.repo / ".claude/agents").mkdir(parents=True)
        (program.repo / ".claude/agents/rev.md").write_text(agent_file("hangs-at-start", mark))
        program.files(main__py="1\n")
        trusting(program)
        async with open_repl_in(program, server, *YOLO) as repl:
            await repl.said("/agents", "with the MCP servers db of its own")
            await repl.shows("MCP server agent_rev_db of the subagent rev of this folder")
            await repl.turn("go")
            shown = await repl.said("/mcp", "agent_rev_db: waits for your approval")
            assert "outside the sandbox" in shown
            await repl.said("/mcp reconnect agent_rev_db", "/mcp trust agent_rev_db")
    assert not mark.exists()
    assert TOOL not in model.seen[0].tool_names
    assert "agent_rev_db waits for your approval" in json.dumps(model.seen[0].json)


async def test_an_approved_server_is_asked_about_again_once_its_definition_changes(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    model = Model(call(TOOL, text="hello"))
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        file = program.repo / ".claude/agents/rev.md"
        file.parent.mkdir(parents=True)
        file.write_text(agent_file("honest"))
        program.files(main__py="1\n")
        trusting(program)
        async with open_repl_in(program, server, *YOLO) as repl:
            await repl.said("/agents", "agent_rev_db")
            shown = await repl.said("/mcp trust agent_rev_db", "approves exactly this")
            code = shown.rpartition("/mcp trust agent_rev_db ")[2].split()[0]
            await repl.said(f"/mcp trust agent_rev_db {code}", "is approved as it was shown")
            await repl.said("/mcp", "agent_rev_db: not started yet", "starts with the subagent rev")
            await repl.said("/mcp reconnect agent_rev_db", "starts with the subagent rev")
            await repl.turn("go")
            assert model.seen[-1].tool_results == ["you said hello"]
            await repl.said("/mcp", "agent_rev_db: not started yet")
            file.write_text(agent_file("hangs-at-start", mark))
            await repl.turn("again")
            await repl.said("/mcp", "agent_rev_db: waits for your approval")
    assert not mark.exists()


async def test_trust_of_the_whole_folder_starts_them(tmp_path: Path) -> None:
    model = Model(call(TOOL, text="hello"))
    await run(tmp_path, model, agent_file("honest"), mine=False, trusted=True)
    assert model.seen[-1].tool_results == ["you said hello"]


async def test_a_folder_that_is_not_trusted_has_no_such_subagent(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    model = Model()
    await run(tmp_path, model, agent_file("hangs-at-start", mark), mine=False)
    assert model.seen == []
    assert not mark.exists()


async def test_another_subagent_is_not_offered_the_tools(tmp_path: Path) -> None:
    """`rev` delegates to a subagent without a file: it gets none of the tools of its parent's servers."""
    model = Model(call("delegate", task="deeper", background=False))
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        (program.home / ".claude/agents").mkdir(parents=True)
        (program.home / ".claude/agents/rev.md").write_text(agent_file("honest"))
        program.files(main__py="1\n")
        await program.run(*YOLO, "exec", "go")
    deeper = [asked for asked in model.own if "deeper" in json.dumps(asked.json["messages"][-1])]
    assert deeper
    assert all(TOOL not in asked.tool_names for asked in model.own)


async def test_a_program_defines_a_server_for_its_subagent(tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [SERVER, "honest"], "sandbox": False}
    agents = {"rev": {"description": "Reviews", "prompt": "You review.", "mcpServers": [{"db": entry}]}}
    model = Model(call(TOOL, text="hello"))
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="1\n")
        ran = await program.run(*YOLO, "--agents", json.dumps(agents), "exec", "go")
    assert ran.out == "done\n", ran.err
    assert model.seen[-1].tool_results == ["you said hello"]
