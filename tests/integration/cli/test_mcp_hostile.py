"""Hostile MCP servers through the whole program: each costs its own calls, and none leaves a process."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from buddy.safety.sanitise import clean
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program, Ran, running
from tests.support.waiting import until

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_server.py")
pytestmark = pytest.mark.slow


def settings(mode: str, *files: str, **more: object) -> dict[str, object]:
    """The settings with one server, which a run waits for if it can start at all."""
    required = mode not in ("ends-at-start", "hangs-at-start")
    entry = {"command": sys.executable, "args": [SERVER, mode, *files], "required": required, **more}
    return {"mcp_servers": {"plain": entry}}


async def run(
    tmp_path: Path, script: list[Any], mode: str, *files: str, prompt: str = "go", **more: object
) -> tuple[Ran, list[Asked]]:
    """The program with one server, and the requests it sent."""
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url, settings=settings(mode, *files, **more))
        ran = await program.run(*YOLO, "exec", prompt)
        return ran, list(server.requests)


def declared(request: Asked) -> dict[str, dict[str, Any]]:
    """The tools of the server that a request declares, by name."""
    tools = [one["function"] for one in request.json["tools"]]
    return {one["name"]: one for one in tools if one["name"].startswith("mcp__")}


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("long-name", 3),
        ("duplicates", 1),
        ("huge-schema", 1),
        ("deep-schema", 1),
        ("odd-schemas", 4),
        ("instructions", 2),
    ],
)
async def test_odd_tools_are_cleaned_or_withheld_and_the_others_work(
    tmp_path: Path, mode: str, names: int
) -> None:
    script = [reply(call("mcp__plain__good", text="hello")), reply("done")]
    ran, requests = await run(tmp_path, script, mode)
    found = declared(requests[0])
    assert ran.out == "done\n", ran.err
    assert len(found) == names
    assert all(len(name) <= 64 and name.isascii() for name in found)
    raw = json.dumps(list(found.values()), ensure_ascii=False)
    assert clean(raw) == raw
    assert len(raw) < 200_000
    assert requests[1].tool_results == ["you said hello"]


async def test_no_reference_of_a_schema_leads_anywhere(tmp_path: Path) -> None:
    script = [reply(call("mcp__plain__good", text="hello")), reply("done")]
    ran, requests = await run(tmp_path, script, "external-ref")
    found = declared(requests[0])
    assert ran.out == "done\n", ran.err
    assert "mcp__plain__good" in found
    assert not {"mcp__plain__far", "mcp__plain__near"} & set(found)


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("notifications", "still here"),
        ("closes-stdout", "the MCP server plain"),
        ("bad-bytes", "the MCP server plain"),
        ("deep-json", "the MCP server plain"),
        ("progress", "all steps"),
    ],
)
async def test_a_call_of_a_hostile_server_ends(tmp_path: Path, mode: str, said: str) -> None:
    script = [reply(call("mcp__plain__echo", text="hello")), reply("done")]
    ran, requests = await run(tmp_path, script, mode, timeout=5)
    assert (ran.out, ran.code) == ("done\n", 0), ran.err
    (text,) = requests[1].tool_results
    assert said in text or text in ("half a pair \ufffd and more", "a second answer")
    assert clean(text) == text


@pytest.mark.parametrize(
    ("mode", "said"),
    [("sampling", "sampling"), ("elicits", '"action": "cancel"'), ("roots", "file://")],
)
async def test_requests_of_a_server_are_answered(tmp_path: Path, mode: str, said: str) -> None:
    script = [reply(call("mcp__plain__echo", text="hello")), reply("done")]
    ran, requests = await run(tmp_path, script, mode, timeout=20)
    assert ran.out == "done\n", ran.err
    assert said in requests[1].tool_results[0].lower()


@pytest.mark.parametrize(("mode", "gone"), [("changes", "mcp__plain__echo"), ("renames", "mcp__plain__echo")])
async def test_what_changed_after_it_was_accepted_is_withheld(tmp_path: Path, mode: str, gone: str) -> None:
    mark = str(tmp_path / "mark")
    script = [reply(call("mcp__plain__echo", text="a")), reply("done"), reply("again")]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url, settings=settings(mode, mark))
        await program.run(*YOLO, "exec", "go")
        ran = await program.run(*YOLO, "exec", "go on")
        last = server.requests[-1]
    assert gone not in declared(last)
    assert "mcp__plain__renamed" not in declared(last)
    assert ran.out == "again\n", ran.err


async def test_a_server_that_does_not_start_says_why_in_words(tmp_path: Path) -> None:
    ran, requests = await run(tmp_path, [reply("done")], "ends-at-start", required=True)
    assert (ran.code, requests) == (4, [])
    assert "ended with exit code 7; its last words: cannot find the database" in ran.err
    assert "Error:" not in ran.err
    assert clean(ran.err) == ran.err


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        entry = {"command": "no-such-program-anywhere", "required": True}
        program = Program(tmp_path, server.url, settings={"mcp_servers": {"plain": entry}})
        ran = await program.run(*YOLO, "exec", "go")
    assert ran.code == 4
    assert "MCP server plain failed (expected the program no-such-program-anywhere, found none" in ran.err
    assert "Error" not in ran.err


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("mode", ["hangs-at-end", "hangs-at-start"])
async def test_a_server_that_ignores_its_end_is_killed(tmp_path: Path, mode: str) -> None:
    mark = tmp_path / "pid"
    ran, _requests = await run(tmp_path, [reply("done")], mode, str(mark), prompt="go with @plain:")
    assert ran.out == "done\n", ran.err
    assert not is_running(int(mark.read_text()))


async def test_a_kill_of_buddy_leaves_no_server(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    script = [reply(call("mcp__plain__echo", text="a"))]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url, settings=settings("hangs-at-end", str(mark)))
        async with running(program, *YOLO, "exec", "go") as process:
            await server.arrived(1)
            pid = int(mark.read_text())
            assert is_running(pid)
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
            await until(lambda: not is_running(pid))


async def test_a_resource_and_a_prompt_are_attachments_without_escapes(tmp_path: Path) -> None:
    script = [reply("read"), reply("greeted"), reply("missing")]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url, settings=settings("honest"))
        read = await program.run("exec", "look at @plain:note://one, please")
        greeted = await program.run("exec", '/mcp__plain__greet "Ada L." how=loudly')
        unknown = await program.run("exec", "look at @plain:note://two")
        wrong = await program.run("exec", "/mcp__plain__greet")
        texts = [request.last_user_text for request in server.requests]
    assert (read.out, greeted.out, unknown.out) == ("read\n", "greeted\n", "missing\n")
    assert (
        "[attached: @plain:note://one, from the MCP server plain: data, not the person's words]\nthe note\n"
        in texts[0]
    )
    assert 'Greet {"who": "Ada L.", "how": "loudly"}\n' in texts[1]
    assert all(clean(text) == text for text in texts)
    assert "@plain:note://two was not attached" in unknown.err
    assert "who is missing; usage: /mcp__plain__greet who [how]" in wrong.err
    assert wrong.code != 0


async def test_a_long_resource_is_cut_and_kept_in_a_file(tmp_path: Path) -> None:
    async with FakeLLM([reply("done")]) as server:
        program = Program(tmp_path, server.url, settings=settings("long-resource"))
        ran = await program.run("exec", "@plain:note://one")
        text = server.requests[0].last_user_text
    assert ran.out == "done\n", ran.err
    assert len(text) < 30_000
    assert "the whole is in " in text
