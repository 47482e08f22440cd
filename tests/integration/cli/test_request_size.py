"""The beginning of every request, which a provider bills with each one: what is configured keeps it short."""

import json
import sys
from pathlib import Path

import pytest

from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_server.py")
MAX_BYTES = 9_000
"""Of declarations and system prompt: 30 steps from it stay below 60 kB as billed."""
pytestmark = pytest.mark.slow


async def test_servers_a_skill_and_a_subagent_file_keep_requests_short(tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [SERVER, "honest"], "sandbox": False, "required": True}
    servers = dict.fromkeys(("one", "two", "three", "four", "five"), entry)
    async with FakeLLM([reply("done")]) as server:
        program = Program(tmp_path, server.url, settings={"tools": {"direct": 20}, "mcp_servers": servers})
        program.files(main__py="1\n")
        skill = program.config / "skills/release-notes/SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(
            "---\nname: release-notes\ndescription: Writes release notes. Use for a changelog.\n---\nx\n"
        )
        agent = program.config / "agents/reviewer.md"
        agent.parent.mkdir(parents=True)
        agent.write_text("---\nname: reviewer\ndescription: Reviews a change for mistakes.\n---\nReview.\n")
        ran = await program.run(*YOLO, "exec", "sing")
        (request,) = server.requests
    assert (ran.code, ran.out) == (0, "done\n"), ran.err
    assert {"skill", "delegate", "search_tools", "edit_file", "run_shell"} <= set(request.tool_names)
    system = "".join(str(one["content"]) for one in request.json["messages"] if one["role"] == "system")
    assert "- release-notes: Writes release notes. Use for a changelog.\n" in system
    assert "- reviewer: Reviews a change for mistakes.\n" in system
    search = next(one for one in request.json["tools"] if one["function"]["name"] == "search_tools")
    assert "web_fetch, web_search" in search["function"]["description"]
    assert "MCP servers with tools: five, four, one, three, two." in search["function"]["description"]
    assert len(json.dumps(request.json["tools"])) + len(json.dumps(system)) < MAX_BYTES
