"""Options of the command lines of the Agent SDKs: honoured, or refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.driver import Object, driving, request, said
from tests.support.program import Program, Ran

STREAM = ("exec", "--output-format", "stream-json")
SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


def result_of(ran: Ran) -> Object:
    return ran.objects()[-1]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--betas", "x"), "--betas is not supported"),
        (("--fallback-model", "x"), "--model chooses the one"),
        (("--resume-session-at=5",), "--fork-session"),
        (("--tools", "Reed"), "there is no tool Reed"),
        (("--permission-prompt-tool", "mcp__x__y"), "is stdio"),
        (("--session-id", "5"), "needs a UUID"),
        (("--effort", "huge"), "--effort is one of"),
        (("--max-thinking-tokens", "many"), "whole number"),
        (("--settings", '{"statusLine": {"type": "command"}}'), "statusLine is not supported"),
        (("--settings", '{"permissions": {"allow": "x"}}'), "a list of texts"),
        (("--settings", '{"permissions": {"additionalDirectories": ["/"]}}'), "give --add-dir"),
        (("--settings", '{"hooks": {"NoEvent": []}}'), "no event of buddy"),
        (("--settings", '{"hooks": {"Stop": [{"hooks": [{"type": "prompt"}]}]}}'), "of type 'prompt'"),
        (("--settings", '{"hooks": {"Stop": [{"matcher": "(", "hooks": []}]}}'), "no regular expression"),
        (("--settings", '{"disableAllHooks": 1}'), "true or false"),
        (("--settings", '{"sandbox": {"network": {"allowUnixSockets": ["/s"]}}}'), "allowUnixSockets"),
        (("--settings", '{"sandbox": {"filesystem": {"denyRead": ["/etc"]}}}'), "Read(…)"),
        (("--settings", '{"sandbox": {"autoAllowBashIfSandboxed": true}}'), "--permission-mode auto"),
        (("--settings", '{"sandbox": {"allowUnsandboxedCommands": false}}'), "is not supported"),
        (("--settings", '{"sandbox": {"enabled": "yes"}}'), "true or false"),
        (("--settings", "{"), "expected JSON"),
        (("--settings", "/nowhere"), "can't be read"),
        (("--agents", "[]"), "can't be read"),
        (("--agents", '{"a": {"prompt": ""}}'), "expected a prompt"),
        (("--agents", '{"a": {"prompt": "x", "hooks": {"y": 1}}}'), "hooks is not supported"),
        (("--plugin-dir", "/nowhere"), "expected a folder"),
        (("--json-schema", '{"type": "nonsense"}'), "no JSON Schema"),
        (("--cd", "/nowhere"), "--cd"),
        (("--system-prompt-file", "/nowhere"), "can't be read"),
    ],
)
async def test_an_option_that_can_not_be_honoured_is_refused(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    async with FakeLLM([]) as server:
        ran = await Program(tmp_path, server.url).run(*STREAM, *words, "hi")
    assert (ran.code, ran.out, server.requests) == (2, "", [])
    assert reason in ran.err


async def test_tools_are_chosen_and_left_out_by_names_of_claude(tmp_path: Path) -> None:
    async with FakeLLM([reply("a"), reply("b"), reply("c")]) as server:
        program = Program(tmp_path, server.url)
        await program.run(*STREAM, "--tools", "Read,Grep,Bash", "hi")
        await program.run(*STREAM, "--tools", "", "hi")
        await program.run(*STREAM, "--disallowedTools", "Bash,Bash(rm:*)", "hi")
    offered = [set(one.tool_names) for one in server.requests]
    assert offered[0] == {"read_file", "grep", "run_shell"}
    assert offered[1] == set()
    assert "run_shell" not in offered[2]
    assert "read_file" in offered[2]


async def test_lists_of_tools_as_programs_for_claude_write_them_are_taken(tmp_path: Path) -> None:
    names = "Read,Write,Edit,Bash,Glob,Grep,Task,TodoWrite,WebSearch,WebFetch,Skill,ExitPlanMode,mcp__x__*"
    write = reply(call("write_file", path="a.txt", content="a"))
    async with FakeLLM([write, reply("Done."), write, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        ran = await program.run(*STREAM, "--allowedTools", names, "write")
        assert (program.repo / "a.txt").exists()
        assert (ran.code, ran.told()) == (0, [])
        (program.repo / "a.txt").unlink()
        ran = await program.run(
            *STREAM,
            "--permission-mode",
            "acceptEdits",
            "--disallowedTools",
            "Task,TodoWrite,write_file",
            "write",
        )
    assert not (program.repo / "a.txt").exists()
    assert not {"delegate", "todo", "write_file"} & set(server.requests[-1].tool_names)


async def test_a_disallowed_rule_denies_its_calls(tmp_path: Path) -> None:
    write = reply(call("write_file", path="a.txt", content="a"))
    async with FakeLLM([write, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        words = ("--permission-mode", "acceptEdits", "--disallowedTools", "Write(a.txt)")
        await program.run(*STREAM, *words, "write")
    assert not (program.repo / "a.txt").exists()


async def test_settings_add_permissions(tmp_path: Path) -> None:
    writes = [reply(call("write_file", path=f"{name}.txt", content="a")) for name in "ab"]
    settings = {"permissions": {"defaultMode": "acceptEdits", "deny": ["Write(b.txt)"]}}
    async with FakeLLM([*writes, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        await program.run(*STREAM, "--settings", json.dumps(settings), "write")
    assert [(program.repo / f"{name}.txt").exists() for name in "ab"] == [True, False]


async def test_system_prompts_replace_and_add(tmp_path: Path) -> None:
    async with FakeLLM([reply("a"), reply("b")]) as server:
        program = Program(tmp_path, server.url)
        await program.run(*STREAM, "--system-prompt", "You are {{ a }} pirate.", "hi")
        (program.repo / "more.md").write_text("Speak softly.")
        await program.run(*STREAM, "--append-system-prompt-file", "more.md", "hi")
    prompts = [one.json["messages"][0]["content"] for one in server.requests]
    assert prompts[0].startswith("You are {{ a }} pirate.")
    assert "You are buddy" not in prompts[0]
    assert "Working directory" in prompts[0]
    assert "You are buddy" in prompts[1]
    assert "Speak softly." in prompts[1]


async def test_an_answer_is_checked_against_a_schema(tmp_path: Path) -> None:
    answers = [reply("Three."), reply('```json\n{"count": 3}\n```')]
    async with FakeLLM(answers) as server:
        ran = await Program(tmp_path, server.url).run(*STREAM, "--json-schema", json.dumps(SCHEMA), "count")
    assert ran.code == 0, ran.err
    assert result_of(ran)["structured_output"] == {"count": 3}
    assert "does not match the JSON Schema" in server.requests[1].last_user_text


async def test_an_answer_that_never_matches_ends_with_6(tmp_path: Path) -> None:
    async with FakeLLM([reply('{"count": "x"}') for _ in range(3)]) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "schema.json").write_text(json.dumps(SCHEMA))
        ran = await program.run(*STREAM, "--json-schema", "schema.json", "count")
    assert ran.code == 6
    assert (result_of(ran)["subtype"], result_of(ran)["is_error"]) == (
        "error_max_structured_output_retries",
        True,
    )
    assert "structured_output" not in result_of(ran)
    assert "count" in ran.err


async def test_a_session_gets_the_id_of_the_program(tmp_path: Path) -> None:
    session_id = "0b6e8a6e-0f5b-4a3c-9a35-2f4f0c1f9a11"
    async with FakeLLM([reply("a"), reply("b")]) as server:
        program = Program(tmp_path, server.url)
        first = await program.run(*STREAM, "--session-id", session_id.upper(), "hi")
        again = await program.run(*STREAM, "--session-id", session_id, "hi")
        resumed = await program.run(*STREAM, f"--resume={session_id}", "more")
    assert (first.code, again.code, resumed.code) == (0, 2, 0), resumed.err
    assert {one["session_id"] for one in (result_of(first), result_of(resumed))} == {session_id}
    assert "already" in again.err


async def test_without_persistence_no_session_stays(tmp_path: Path) -> None:
    async with FakeLLM([reply("a")]) as server:
        program = Program(tmp_path, server.url)
        await program.run(*STREAM, "--no-session-persistence", "hi")
    assert program.sessions() == []


async def test_a_program_defines_subagents_and_hears_of_them(tmp_path: Path) -> None:
    agents = {"counter": {"description": "Counts", "prompt": "You count.", "tools": ["Read"]}}
    delegate = call("delegate", task="count", agent="counter", background=False)
    look = reply(call("read_file", path="a.py"))
    async with FakeLLM([reply(delegate), look, reply("Seven."), reply("It says seven.")]) as server:
        program = Program(tmp_path, server.url)
        program.files(a__py="x = 1\n")
        async with driving(program, "--permission-mode", "bypassPermissions", "--i-know") as driver:
            driver.send(request(1, "initialize", agents=agents), said("count"))
            ended = await driver.result()
            assert await driver.end() == 0
    assert server.requests[1].json["messages"][0]["content"].startswith("You count.")
    assert server.requests[1].tool_names == ["read_file"]
    calls = [
        block["id"]
        for one in driver.seen
        if one["type"] == "assistant" and not one["parent_tool_use_id"]
        for block in one["message"]["content"]
        if block["type"] == "tool_use"
    ]
    inner = [one for one in driver.seen if one["type"] == "assistant" and one["parent_tool_use_id"]]
    assert [one["parent_tool_use_id"] for one in inner] == calls * 2
    tasks = [one for one in driver.seen if one.get("subtype", "").startswith("task_")]
    assert [one["subtype"] for one in tasks] == ["task_started", "task_progress", "task_notification"]
    assert [one["usage"]["tool_uses"] for one in tasks[1:]] == [1, 1]
    assert 0 < tasks[1]["usage"]["duration_ms"] <= tasks[2]["usage"]["duration_ms"]
    assert {one["tool_use_id"] for one in tasks} == set(calls)
    assert (tasks[2]["status"], tasks[2]["summary"]) == ("completed", "Seven.")
    assert ended["result"] == "It says seven."


def parts_of(ran: Ran) -> list[Any]:
    return [one["event"] for one in ran.objects() if one["type"] == "stream_event"]


@pytest.mark.parametrize("lane", ["chat", "anthropic"])
async def test_partial_messages_are_whole_messages_in_parts(tmp_path: Path, lane: str) -> None:
    async with FakeLLM([reply("Look.", call("read_file", path="a.txt")), reply("Done.")]) as server:
        program = Program(tmp_path, server.url, lane=lane)
        program.files(a__txt="a\n")
        ran = await program.run(*STREAM, "--include-partial-messages", "look")
    parts = parts_of(ran)
    assert [part["type"] for part in parts if not part["type"].endswith("_delta")] == [
        *("message_start", "content_block_start", "content_block_stop"),
        *("content_block_start", "content_block_stop", "message_stop"),
        *("message_start", "content_block_start", "content_block_stop", "message_stop"),
    ]
    arguments = [
        part["delta"]["partial_json"]
        for part in parts
        if part["type"] == "content_block_delta" and part["delta"]["type"] == "input_json_delta"
    ]
    assert json.loads("".join(arguments)) == {"path": "a.txt"}
    stops = [part["delta"]["stop_reason"] for part in parts if part["type"] == "message_delta"]
    assert stops == ["tool_use", "end_turn"]
    started = [part["content_block"] for part in parts if part["type"] == "content_block_start"]
    replies = [one["message"]["content"] for one in ran.objects() if one["type"] == "assistant"]
    assert started[1]["id"] == replies[0][1]["id"]


async def test_usage_is_of_the_turn_and_model_usage_of_the_run(tmp_path: Path) -> None:
    async with FakeLLM([reply("One."), reply("Two.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program) as driver:
            driver.send(said("a"))
            first = await driver.result()
            driver.send(said("b"))
            second = await driver.result()
            await driver.end()
    (model,) = second["modelUsage"]
    both = [one["usage"]["output_tokens"] for one in (first, second)]
    assert min(both) > 0
    assert second["modelUsage"][model]["outputTokens"] == sum(both)
