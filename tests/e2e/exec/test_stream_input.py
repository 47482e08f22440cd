"""Stream input as the SDKs for Claude send it: requests and messages on stdin, one result a message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fake_llm.script import Stall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program, Ran, running

# The options claude-agent-sdk 0.2.187 always sends.
SDK = (
    *("--output-format", "stream-json", "--verbose", "--system-prompt", ""),
    *("--input-format", "stream-json"),
)


def request(number: int, **fields: Any) -> dict[str, Any]:
    return {"type": "control_request", "request_id": f"req_{number}", "request": fields}


def said(text: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {"type": "user", "session_id": "", "message": message, "parent_tool_use_id": None}


def lines(*objects: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in objects)


def results(ran: Ran) -> list[Any]:
    return [one["result"] for one in ran.objects() if one["type"] == "result"]


async def test_each_message_gets_a_turn_and_a_result(tmp_path: Path) -> None:
    async with FakeLLM([reply("One."), reply("Two.")]) as server:
        program = Program(tmp_path, server.url)
        given = lines(request(1, subtype="initialize", hooks=None), said("first"), said("second"))
        ran = await program.run(*SDK, stdin=given)
    assert (ran.code, results(ran)) == (0, ["One.", "Two."]), ran.err
    first = ran.objects()[0]
    assert (first["type"], first["response"]["request_id"]) == ("control_response", "req_1")
    assert [one.last_user_text for one in server.requests] == ["first", "second"]
    ids = [one["uuid"] for one in ran.objects() if one["type"] != "control_response"]
    assert len(set(ids)) == len(ids)
    last = ran.objects()[-1]
    assert last["duration_api_ms"] <= last["duration_ms"]
    assert last["stop_reason"] == "end_turn"


async def test_a_line_that_is_no_message_costs_only_itself(tmp_path: Path) -> None:
    async with FakeLLM([reply("Still here.")]) as server:
        program = Program(tmp_path, server.url)
        bad = b'{"broken": \n[1]\n\xff\xfe\n' + b"[" * 100_000 + b'\n{"type":"other"}\n'
        ran = await program.run(*SDK, stdin=bad + lines(said(""), said("hi")))
    assert (ran.code, results(ran)) == (0, ["Still here."]), ran.err
    errors = [one for one in ran.objects() if one.get("subtype") == "input_error"]
    assert [one["line"] for one in errors] == [1, 2, 3, 4, 5, 6]


async def test_a_message_that_can_not_be_expanded_gets_a_result_and_its_own_line(tmp_path: Path) -> None:
    async with FakeLLM([reply("Next.")]) as server:
        program = Program(tmp_path, server.url)
        commands = program.repo / ".claude" / "commands"
        commands.mkdir(parents=True)
        (commands / "x.md").write_text("Do x.\n")
        refused = await program.run(*SDK, stdin=lines(said("/x now"), request(1, subtype="mcp_status")))
        ran = await program.run(*SDK, stdin=lines(said("/x now"), said("hi"), said("")))
    ends = [one for one in ran.objects() if one["type"] == "result"]
    errors = [one for one in ran.objects() if one.get("subtype") == "input_error"]
    assert [(one["subtype"], one["is_error"]) for one in ends] == [
        ("error_during_execution", True),
        ("success", False),
    ]
    assert "trust" in ends[0]["result"]
    assert ends[0]["session_id"] == ends[1]["session_id"] != ""
    assert sorted(one["line"] for one in errors) == [1, 3]
    assert (refused.code, ran.code) == (1, 0)


async def test_what_would_silently_be_missing_is_refused(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        hooks = {"ToolNearlyUsed": [{"matcher": "Bash", "hookCallbackIds": ["hook_0"]}]}
        asked = lines(
            request(1, subtype="initialize", hooks=hooks),
            request(2, subtype="set_permission_mode", mode="bypassPermissions"),
            request(3, subtype="set_permission_mode", mode="plan"),
            request(4, subtype="reticulate", user_message_id="x"),
        )
        ran = await program.run(*SDK, stdin=asked)
    answers = [one["response"]["subtype"] for one in ran.objects()]
    assert (ran.code, answers) == (0, ["error", "error", "success", "error"]), ran.err


async def test_an_interrupt_ends_the_turn_and_not_the_run(tmp_path: Path) -> None:
    async with FakeLLM([reply("Begin", "…", fault=Stall(after=1)), reply("Next.")]) as server:
        program = Program(tmp_path, server.url)
        async with running(program, *SDK, "--include-partial-messages", stdin=-1) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(lines(said("long")))
            while b"content_block_delta" not in await process.stdout.readline():
                pass
            process.stdin.write(lines(request(1, subtype="interrupt"), said("go on")))
            process.stdin.close()
            out = (await process.stdout.read()).decode()
            code = await process.wait()
    ends = [json.loads(line) for line in out.splitlines() if '"type": "result"' in line]
    assert [one["subtype"] for one in ends] == ["error_during_execution", "success"]
    assert code == 0


async def test_SIGTERM_between_turns_ends_with_143(tmp_path: Path) -> None:
    async with FakeLLM([reply("One.")]) as server:
        program = Program(tmp_path, server.url)
        async with running(program, *SDK, stdin=-1) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(lines(said("hi")))
            while json.loads(await process.stdout.readline())["type"] != "result":
                pass
            process.stdin.write(lines(request(1, subtype="mcp_status")))
            await process.stdout.readline()
            process.terminate()
            assert await process.wait() == 143


async def test_a_program_allows_tools_by_their_names_of_claude(tmp_path: Path) -> None:
    async with FakeLLM([reply(call("write_file", path="a.txt", content="a")), reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        ran = await program.run(*SDK, "--allowedTools", "Read,Write,Bash(ls:*)", stdin=lines(said("write")))
    assert (ran.code, results(ran)) == (0, ["Done."]), ran.err
    assert (program.repo / "a.txt").read_text() == "a"


async def test_an_unknown_field_of_initialize_is_reported_and_a_guard_refused(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        asked = lines(
            request(1, subtype="initialize", hooks=None, promptSuggestions=True, title=None, plugins=[]),
            request(2, subtype="initialize", managedSettings={"permissions": {"deny": ["Bash"]}}),
            request(3, subtype="initialize", planModeInstructions="Never write."),
        )
        ran = await program.run(*SDK, stdin=asked)
    answers = {one["response"]["request_id"]: one["response"] for one in ran.objects()}
    assert answers["req_1"]["response"]["ignored_fields"] == ["promptSuggestions"]
    assert [answers[name]["subtype"] for name in ("req_2", "req_3")] == ["error", "error"]
    assert "unknown fields are ignored: promptSuggestions" in ran.err
