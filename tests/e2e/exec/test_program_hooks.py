"""Hooks and MCP servers of the program driving buddy, over the control channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fake_llm.script import Stall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.driver import ASKS, Driver, Object, driving, request, said
from tests.support.program import Program

WRITE = reply(call("write_file", path="a.txt", content="one\n"))
EDITS = ("--permission-mode", "acceptEdits")


def hooks(event: str, *ids: str, **fields: Any) -> Object:
    return request(1, "initialize", hooks={event: [{"hookCallbackIds": list(ids), **fields}]})


def decision(word: str, **fields: Any) -> Object:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": word, **fields}}


async def test_a_hook_denies_a_call_by_its_name_of_claude(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("Denied.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *EDITS) as driver:
            driver.send(hooks("PreToolUse", "hook_0", matcher="Write|Bash"), said("write"))
            asked = await driver.asked("hook_callback")
            driver.answer(asked, **decision("deny", permissionDecisionReason="not today"))
            await driver.result()
            code = await driver.end()
    given = asked["request"]
    assert (given["callback_id"], given["input"]["tool_name"]) == ("hook_0", "Write")
    assert given["input"]["tool_input"] == {"file_path": "a.txt", "content": "one\n"}
    assert given["tool_use_id"] == given["input"]["tool_use_id"]
    assert "not today" in str(server.requests[1].tool_results)
    assert (code, (program.repo / "a.txt").exists()) == (0, False)


async def test_a_hook_changes_the_input_of_a_call(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *EDITS) as driver:
            driver.send(hooks("PreToolUse", "hook_0"), said("write"))
            changed = {"file_path": "b.txt", "content": "two\n"}
            asked = await driver.asked("hook_callback")
            driver.answer(asked, **decision("allow", updatedInput=changed))
            await driver.result()
            await driver.end()
    assert (program.repo / "b.txt").read_text() == "two\n"


async def test_hooks_of_results_prompts_and_stops_reach_the_model(tmp_path: Path) -> None:
    events = ("UserPromptSubmit", "PostToolUse", "Stop")
    wanted = {event: [{"matcher": None, "hookCallbackIds": [event]}] for event in events}
    async with FakeLLM([WRITE, reply("First."), reply("Second.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *EDITS) as driver:
            driver.send(request(1, "initialize", hooks=wanted), said("write"))
            own = {"hookEventName": "UserPromptSubmit", "additionalContext": "CONTEXT-A"}
            driver.answer(await driver.asked("hook_callback"), hookSpecificOutput=own)
            own = {"hookEventName": "PostToolUse", "additionalContext": "CONTEXT-B"}
            driver.answer(await driver.asked("hook_callback"), hookSpecificOutput=own)
            stopping = await driver.asked("hook_callback")
            driver.answer(stopping, decision="block", reason="CONTEXT-C")
            driver.answer(await driver.asked("hook_callback"))
            ended = await driver.result()
            await driver.end()
    texts = [str(one.turns) for one in server.requests]
    assert ["CONTEXT-A" in text for text in texts] == [True, True, True]
    assert ["CONTEXT-B" in text for text in texts] == [False, True, True]
    assert ["CONTEXT-C" in text for text in texts] == [False, False, True]
    assert (stopping["request"]["input"]["hook_event_name"], ended["result"]) == ("Stop", "Second.")


@pytest.mark.parametrize("kind", ["error", "never"])
async def test_a_hook_without_an_answer_asks(tmp_path: Path, kind: str) -> None:
    async with FakeLLM([WRITE, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *EDITS, *ASKS) as driver:
            driver.send(hooks("PreToolUse", "hook_0", timeout=0.2), said("write"))
            asked = await driver.asked("hook_callback")
            if kind == "error":
                driver.refuse(asked, "it crashed")
            permission = await driver.asked("can_use_tool")
            driver.answer(permission, behavior="deny", message="no")
            await driver.result()
            code = await driver.end()
    cancelled = [one["request_id"] for one in driver.seen if one["type"] == "control_cancel_request"]
    assert cancelled == ([asked["request_id"]] if kind == "never" else [])
    assert "gave no answer" in permission["request"]["decision_reason"]
    assert (code, (program.repo / "a.txt").exists()) == (0, False)


@pytest.mark.parametrize("kind", ["error", "never"])
async def test_a_hook_that_blocks_on_failure_denies(tmp_path: Path, kind: str) -> None:
    async with FakeLLM([WRITE, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *EDITS, *ASKS) as driver:
            driver.send(hooks("PreToolUse", "hook_0", timeout=0.2, onFailure="block"), said("write"))
            asked = await driver.asked("hook_callback")
            if kind == "error":
                driver.refuse(asked, "it crashed")
            await driver.result()
            await driver.end()
    assert "a hook of the program" in str(server.requests[1].tool_results)
    assert not (program.repo / "a.txt").exists()
    initialized = next(one for one in driver.seen if one["type"] == "control_response")
    assert initialized["response"]["response"]["hook_on_failure_supported"] is True


@pytest.mark.parametrize(
    "given",
    [
        {"Nonsense": []},
        {"PreToolUse": "x"},
        {"PreToolUse": [{"matcher": "(", "hookCallbackIds": ["h"]}]},
        {"PreToolUse": [{"matcher": 7, "hookCallbackIds": ["h"]}]},
        {"PreToolUse": [{"timeout": -1, "hookCallbackIds": ["h"]}]},
        {"PreToolUse": [{"hookCallbackIds": "h"}]},
        {"PreToolUse": [{"hookCallbackIds": ["h"] * 501}]},
        [],
    ],
)
async def test_a_hook_that_can_not_be_used_is_refused(tmp_path: Path, given: Any) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program) as driver:
            driver.send(request(1, "initialize", hooks=given))
            response = await driver.response(1)
            code = await driver.end()
    is_error = given != []
    assert (response["subtype"], code) == ("error" if is_error else "success", 0)


async def serve(driver: Driver, *, calls: int) -> list[Object]:
    """Answer as an MCP server with one tool, until it was called so often."""
    seen: list[Object] = []
    while calls:
        asked = await driver.until(lambda one: one["type"] == "control_request")
        if asked["request"]["subtype"] == "can_use_tool":
            driver.answer(asked, behavior="allow", updatedInput={"a": asked["request"]["input"]["a"] * 10})
            continue
        message = asked["request"]["message"]
        seen.append(message)
        match message.get("method"):
            case "initialize":
                result = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "calc", "version": "1"},
                }
            case "tools/list":
                schema = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
                tool = {"name": "double", "description": "Double a number", "inputSchema": schema}
                result = {"tools": [tool]}
            case "tools/call":
                calls -= 1
                text = str(message["params"]["arguments"]["a"] * 2)
                result = {"content": [{"type": "text", "text": text}]}
            case _:
                result = {}
        answer: Object = {"jsonrpc": "2.0", "result": result}
        if "id" in message:
            answer["id"] = message["id"]
        driver.answer(asked, mcp_response=answer)
    return seen


async def test_a_tool_of_the_program_is_called(tmp_path: Path) -> None:
    async with FakeLLM([reply(call("mcp__calc__double", a=21)), reply("42.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, "--allowedTools", "mcp__calc__double") as driver:
            driver.send(request(1, "initialize", sdkMcpServers=["calc"]), said("double"))
            await serve(driver, calls=1)
            await driver.result()
            driver.send(request(2, "mcp_status"))
            status = (await driver.response(2))["response"]["mcpServers"]
            code = await driver.end()
    assert "mcp__calc__double" in server.requests[0].tool_names
    assert server.requests[1].tool_results == ["42"]
    assert (code, [(one["name"], one["status"]) for one in status]) == (0, [("calc", "connected")])


async def test_the_input_of_a_foreign_tool_is_asked_about_and_changed_as_its_server_has_it(
    tmp_path: Path,
) -> None:
    async with FakeLLM([reply(call("mcp__calc__double", a=21)), reply("420.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(request(1, "initialize", sdkMcpServers=["calc"]), said("double"))
            await serve(driver, calls=1)
            await driver.result()
            assert await driver.end() == 0
    assert server.requests[1].tool_results == ["420"]


async def test_a_server_that_refuses_costs_only_its_tools(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program) as driver:
            driver.send(request(1, "initialize", sdkMcpServers=["calc"]), said("hi"))
            while (seen := await driver.until(is_asked_or_ended))["type"] != "result":
                driver.refuse(seen, "no such server")
            driver.send(request(2, "mcp_status"))
            status = (await driver.response(2))["response"]["mcpServers"]
            code = await driver.end()
    assert (seen["result"], status[0]["status"], code) == ("Hello.", "failed", 0)


def is_asked_or_ended(one: Object) -> bool:
    return one["type"] in ("control_request", "result")


async def test_a_program_takes_back_the_files_of_a_message(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *EDITS, "--replay-user-messages") as driver:
            driver.send(said("write", uuid="message-1"))
            await driver.result()
            driver.send(
                request(1, "rewind_files", user_message_id="other"),
                request(2, "rewind_files", user_message_id="message-1", dry_run=True),
            )
            answers = [(await driver.response(number))["response"] for number in (1, 2)]
            was_there = (program.repo / "a.txt").exists()
            driver.send(request(3, "rewind_files", user_message_id="message-1"))
            answers.append((await driver.response(3))["response"])
            code = await driver.end()
    assert [one["canRewind"] for one in answers] == [False, True, True]
    assert [one["deletions"] for one in answers[1:]] == [1, 1]
    assert answers[2]["filesChanged"] == [str(program.repo / "a.txt")]
    assert (was_there, (program.repo / "a.txt").exists(), code) == (True, False, 0)
    replayed = next(one for one in driver.seen if one.get("isReplay"))
    assert (replayed["uuid"], replayed["type"]) == ("message-1", "user")


async def test_a_program_stops_a_subagent_and_not_what_is_none(tmp_path: Path) -> None:
    delegate = call("delegate", task="count", background=False)
    slow = reply("Begin", "…", fault=Stall(after=1))
    async with FakeLLM([reply(delegate), slow, reply("It was stopped.")]) as server:
        program = Program(tmp_path, server.url)
        words = ("--permission-mode", "bypassPermissions", "--i-know")
        async with driving(program, *words) as driver:
            driver.send(said("count"))
            started = await driver.until(lambda one: one.get("subtype") == "task_started")
            ids = ("task-1", "task-99", "job-1", "x", started["task_id"])
            driver.send(*(request(number, "stop_task", task_id=name) for number, name in enumerate(ids)))
            answers = [(await driver.response(number))["subtype"] for number in range(len(ids))]
            ended = await driver.result()
            code = await driver.end()
    assert answers == ["error", "error", "error", "error", "success"]
    assert (ended["result"], code) == ("It was stopped.", 0)
    stopped = [one["status"] for one in driver.seen if one.get("subtype") == "task_notification"]
    assert stopped == ["stopped"]
