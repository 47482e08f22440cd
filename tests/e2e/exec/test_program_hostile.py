"""Programs that drive buddy wrongly: garbage, floods, answers to nothing, closed pipes, signals."""

from __future__ import annotations

import base64
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.fake_llm.pictures import png
from tests.fake_llm.script import Stall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.driver import ASKS, Object, driving, request, said
from tests.support.program import Program

WRITE = reply(call("write_file", path="a.txt", content="one\n"))
EDITS = ("--permission-mode", "acceptEdits")


def is_error(one: Object) -> bool:
    return one.get("subtype") == "input_error"


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\xff\xfe",
        b'{"type": "control_response"}',
        b'{"type": "control_response", "response": 7}',
        b'{"type": "control_response", "response": {"request_id": ["x"]}}',
        b'{"type": "control_response", "response": {"request_id": "nobody_asked", "subtype": "success"}}',
        b'{"type": "control_request"}',
        b'{"type": "control_request", "request_id": 5, "request": {"subtype": "interrupt"}}',
        b'{"type": "control_request", "request_id": "a", "request": "interrupt"}',
        b'{"type": "user"}',
        b'{"type": "user", "message": {"role": "user", "content": [{"type": "tool_result"}]}}',
        b'{"type": "assistant", "message": {}}',
        b"[" * 200_000,
        b'{"a":' * 50_000,
        b"NaN",
        b'{"type": "user", "message": {"role": "user", "content": "\xed\xa0\xbd"}}',
    ],
)
async def test_a_bad_line_costs_only_itself(tmp_path: Path, line: bytes) -> None:
    async with FakeLLM([reply("Here.")]) as server, driving(Program(tmp_path, server.url)) as driver:
        driver.send_bytes(line + b"\n")
        await driver.until(is_error)
        driver.send(said("hi"))
        ended = await driver.result()
        assert (ended["result"], await driver.end()) == ("Here.", 0)


async def test_a_line_of_100_MB_is_left_out(tmp_path: Path) -> None:
    async with FakeLLM([reply("Here.")]) as server, driving(Program(tmp_path, server.url)) as driver:
        stdin = driver.process.stdin
        assert stdin is not None
        for _ in range(100):
            stdin.write(b"x" * 1_000_000)
            await stdin.drain()
        driver.send_bytes(b"\n")
        driver.send(said("hi"))
        refused = await driver.until(is_error)
        ended = await driver.result()
        status = Path(f"/proc/{driver.process.pid}/status").read_text()
        assert (ended["result"], await driver.end()) == ("Here.", 0)
    peak_kb = int(status.split("VmHWM:")[1].split()[0])
    assert "32,000,000 bytes" in refused["error"]
    assert peak_kb < 300_000


async def test_an_unknown_request_is_refused_with_its_name(tmp_path: Path) -> None:
    async with FakeLLM([]) as server, driving(Program(tmp_path, server.url)) as driver:
        driver.send(request(1, "self_destruct"), {**request(2, "x"), "request": {}})
        answers = [await driver.response(number) for number in (1, 2)]
        assert await driver.end() == 0
    assert [one["subtype"] for one in answers] == ["error", "error"]
    assert "self_destruct" in answers[0]["error"]


async def test_the_first_of_two_answers_counts(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            asked = await driver.asked("can_use_tool")
            driver.answer(asked, behavior="deny", message="no")
            driver.answer(asked, behavior="allow")
            await driver.until(is_error)
            await driver.result()
            assert await driver.end() == 0
    assert not (program.repo / "a.txt").exists()


@pytest.mark.parametrize(
    ("content", "written"),
    [("a\ud83d", "a\ufffd"), ("\udc00\ud83d!", "\ufffd\ufffd!"), ("\ud83d😀\\ud83d", "\ufffd😀\\ud83d")],
    ids=["first half", "wrong order", "beside a whole one"],
)
async def test_half_a_character_is_replaced(tmp_path: Path, content: str, written: str) -> None:
    changed = {"file_path": "b.txt", "content": content}
    async with FakeLLM([WRITE, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said(f"write {content}"))
            driver.answer(await driver.asked("can_use_tool"), behavior="allow", updatedInput=changed)
            await driver.result()
            assert await driver.end() == 0
    assert (program.repo / "b.txt").read_text() == written
    assert repr(f"write {written}")[1:-1] in str(server.requests[0].json)


async def test_an_answer_to_another_request_approves_nothing(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            asked = await driver.asked("can_use_tool")
            driver.answer({"request_id": asked["request_id"] + "0"}, behavior="allow")
            await driver.until(is_error)
            assert not (program.repo / "a.txt").exists()
            driver.answer(asked, behavior="deny", message="no")
            await driver.result()
            assert await driver.end() == 0
    assert not (program.repo / "a.txt").exists()


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop"])
async def test_a_pipe_closed_while_a_hook_is_asked_ends_the_run(tmp_path: Path, event: str) -> None:
    hooks = {event: [{"hookCallbackIds": ["h"]}]}
    async with FakeLLM([WRITE, reply("Done."), reply("More."), reply("More.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *EDITS) as driver:
            driver.send(request(1, "initialize", hooks=hooks), said("write"))
            await driver.asked("hook_callback")
            code = await driver.end()
    guarded = event == "PreToolUse"
    assert (program.repo / "a.txt").exists() is not guarded
    assert code == (3 if guarded else 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_run_that_waits_for_an_answer(tmp_path: Path, number: int) -> None:
    async with FakeLLM([WRITE, reply("Never.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            await driver.asked("can_use_tool")
            driver.process.send_signal(number)
            code = await driver.finish()
    assert code == (143 if number == signal.SIGTERM else 130)
    assert [one["type"] for one in driver.seen][-1] == "result"
    assert not (program.repo / "a.txt").exists()


async def test_SIGTERM_ends_a_run_whose_server_never_answers(tmp_path: Path) -> None:
    async with FakeLLM([]) as server, driving(Program(tmp_path, server.url), *ASKS) as driver:
        driver.send(request(1, "initialize", sdkMcpServers=["silent"]), said("hi"))
        await driver.asked("mcp_message")
        driver.process.terminate()
        assert await driver.finish() == 143


async def test_too_many_messages_are_refused_and_the_others_answered(tmp_path: Path) -> None:
    async with (
        FakeLLM([reply("Wait", "…", fault=Stall(after=1)), *(reply("x") for _ in range(100))]) as server,
        driving(Program(tmp_path, server.url)) as driver,
    ):
        driver.send(said("first"))
        await driver.until(lambda one: one.get("subtype") == "init")
        driver.send(*(said("more") for _ in range(101)))
        refused = await driver.until(is_error)
        driver.send(request(1, "interrupt"))
        results = [await driver.result() for _ in range(2)]
        driver.process.terminate()
        await driver.finish()
    assert "100 messages wait" in refused["error"]
    assert [one["subtype"] for one in results] == ["error_during_execution", "success"]


async def test_waiting_messages_are_bounded_by_bytes_and_those_taken_are_answered(tmp_path: Path) -> None:
    data = base64.b64encode(png() + bytes(3_700_000)).decode()
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    async with (
        FakeLLM([reply("Wait", "…", fault=Stall(after=1)), reply("x")]) as server,
        driving(Program(tmp_path, server.url)) as driver,
    ):
        driver.send(said("first"))
        await driver.until(lambda one: one.get("subtype") == "init")
        sent = [
            said("with a picture"),
            *(said([{"type": "text", "text": "big"}, *[picture] * 4]) for _ in range(12)),
        ]
        for message in sent:
            driver.send(message)
            assert driver.process.stdin is not None
            await driver.process.stdin.drain()
        refused = [await driver.until(is_error) for _ in range(9)]
        peak_kb = int(Path(f"/proc/{driver.process.pid}/status").read_text().split("VmHWM:")[1].split()[0])
        driver.send(request(1, "interrupt"))
        results = [await driver.result() for _ in range(2)]
        driver.process.terminate()
        await driver.finish()
    assert [one["line"] for one in refused] == list(range(6, 15))
    assert "64,000,000 bytes" in refused[0]["error"]
    assert peak_kb < 400_000  # twelve pictures are 240 MB of text
    assert [one["subtype"] for one in results] == ["error_during_execution", "success"]


@pytest.mark.parametrize(
    "updates",
    [
        "x",
        [{}],
        [{"type": "addRules", "behavior": "allow", "rules": "Bash"}],
        [{"type": "addRules", "behavior": "allow", "rules": [{"toolName": 5}]}],
        [{"type": "addRules", "behavior": "allow", "rules": [{"toolName": "("}]}],
        [{"type": "setMode", "mode": "bypassPermissions"}],
        [{"type": "addDirectories", "directories": ["/"]}],
        [{"type": "setMode", "mode": "acceptEdits"}] * 101,
    ],
)
async def test_an_update_that_can_not_be_applied_widens_nothing(tmp_path: Path, updates: Any) -> None:
    other = reply(call("write_file", path="b.txt", content="two\n"))
    async with FakeLLM([WRITE, other, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            asked = await driver.asked("can_use_tool")
            driver.answer(asked, behavior="allow", updatedPermissions=updates)
            driver.answer(await driver.asked("can_use_tool"), behavior="deny", message="no")
            await driver.result()
            assert await driver.end() == 0
    assert not (program.repo / "b.txt").exists()
