"""MCP servers through the whole program: a tool of a real process, called by a model; hostile ones cost their
own calls."""

import json
import sys
from pathlib import Path

import pytest

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_server.py")


def settings(mode: str, **more: object) -> dict[str, object]:
    return {
        "mcp_servers": {
            "plain": {"command": sys.executable, "args": [SERVER, mode], "required": True, **more}
        }
    }


async def run_once(tmp_path: Path, mode: str, **more: object) -> tuple[str, str, int]:
    """The text the model got for its call, stderr, and the exit code."""
    script = [reply(call("mcp__plain__echo", text="hello")), reply("done")]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url, settings=settings(mode, **more))
        ran = await program.run(*YOLO, "exec", "say hello")
        results = [message for message in await program.history() if hasattr(message, "call_id")]
    assert ran.out == "done\n", ran.err
    return results[0].text, ran.err, ran.code


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["honest", "log"])
async def test_a_model_calls_a_tool_of_a_server(tmp_path: Path, mode: str) -> None:
    text, err, code = await run_once(tmp_path, mode)
    assert (text, code) == ("you said hello", 0), err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "said"),
    [("crash", "exit code 3"), ("never", "no sign of life"), ("flood", "nobody asked"), ("huge", "16 MB")],
)
async def test_a_hostile_server_costs_its_call(tmp_path: Path, mode: str, said: str) -> None:
    text, err, code = await run_once(tmp_path, mode, timeout=3 if mode == "never" else 60)
    assert said in text, (text, err)
    assert code == 0


@pytest.mark.slow
async def test_no_server_of_a_folder_starts_before_it_is_approved(tmp_path: Path) -> None:
    async with FakeLLM([reply("hi")]) as server:
        program = Program(tmp_path, server.url)
        mark = tmp_path / "started"
        entry = {"command": "touch", "args": [str(mark)]}
        program.files(main__py="1\n")
        (program.repo / ".mcp.json").write_text(json.dumps({"mcpServers": {"evil": entry}}))
        ran = await program.run("exec", "hello")
    assert "evil" in ran.err
    assert "/mcp trust evil" in ran.err
    assert not mark.exists()


@pytest.mark.slow
async def test_without_a_yes_a_call_is_denied_whatever_the_server_says_of_it(tmp_path: Path) -> None:
    script = [reply(call("mcp__plain__echo", text="hello")), reply("done")]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url, settings=settings("honest"))
        await program.run("exec", "say hello")
        results = [message for message in await program.history() if hasattr(message, "call_id")]
    assert results[0].status == "denied"
