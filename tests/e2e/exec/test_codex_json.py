"""The format codex-json and the command line of Codex's SDK."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program

# What @openai/codex-sdk 0.163.0 passes; the prompt is on stdin.
SDK = ("exec", "--experimental-json")


def kinds(objects: list[dict[str, Any]]) -> list[str]:
    return [
        one["type"] + (f" {one['item']['type']}" if "item" in one else "")
        for one in objects
        if one.get("item", {}).get("type") != "reasoning"
    ]


async def test_a_turn_is_a_thread_with_items(tmp_path: Path) -> None:
    replies = [
        reply("I look.", call("run_shell", command="ls")),
        reply(call("write_file", path="b.txt", content="b\n")),
        reply(call("read_file", path="b.txt")),
        reply("All done."),
    ]
    async with FakeLLM(replies) as server:
        program = Program(tmp_path, server.url)
        program.files(a__txt="a\n")
        words = ("--sandbox", "workspace-write", "--skip-git-repo-check")
        ran = await program.run(*SDK, *words, "--cd", str(program.repo), stdin=b"work")
    assert ran.code == 0, ran.err
    objects = ran.objects()
    assert kinds(objects) == [
        *("thread.started", "turn.started", "item.completed agent_message"),
        *("item.started command_execution", "item.completed command_execution"),
        "item.completed file_change",
        *("item.started mcp_tool_call", "item.completed mcp_tool_call"),
        *("item.completed agent_message", "turn.completed"),
    ]
    command = objects[4]["item"]
    assert (command["command"], command["exit_code"], command["status"]) == ("ls", 0, "completed")
    assert "a.txt" in command["aggregated_output"]
    assert objects[3]["item"]["id"] == command["id"]
    assert objects[5]["item"]["changes"] == [{"path": "b.txt", "kind": "add"}]
    assert objects[6]["item"]["server"] == "buddy"
    assert set(objects[-1]["usage"]) == {
        *("input_tokens", "cached_input_tokens", "cache_write_input_tokens"),
        *("output_tokens", "reasoning_output_tokens"),
    }


async def test_a_thread_is_resumed(tmp_path: Path) -> None:
    async with FakeLLM([reply("One."), reply("Two.")]) as server:
        program = Program(tmp_path, server.url)
        first = await program.run(*SDK, stdin=b"a")
        thread = first.objects()[0]["thread_id"]
        second = await program.run(*SDK, "--config", 'approval_policy="never"', "resume", thread, stdin=b"b")
    assert (second.code, second.objects()[0]["thread_id"]) == (0, thread), second.err
    assert "One." in str(server.requests[1].turns)


async def test_a_failed_turn_says_so(tmp_path: Path) -> None:
    replies = [reply(call("run_shell", command="false")) for _ in range(3)]
    async with FakeLLM(replies) as server:
        program = Program(tmp_path, server.url)
        words = ("--sandbox", "workspace-write", "--allow", "Bash(false)", "--max-turns", "2")
        ran = await program.run(*SDK, *words, stdin=b"go")
    last = ran.objects()[-1]
    assert (ran.code, last["type"]) == (5, "turn.failed")
    assert last["error"]["message"]
    failed = [one["item"] for one in ran.objects() if one["type"] == "item.completed"]
    assert (failed[0]["status"], failed[0]["exit_code"]) == ("failed", 1)


async def test_a_plan_is_started_updated_and_completed(tmp_path: Path) -> None:
    plans = [
        reply(call("todo", items=[{"text": "a", "state": state}, {"text": "b", "state": "pending"}]))
        for state in ("pending", "done")
    ]
    async with FakeLLM([*plans, reply("Done.")]) as server:
        ran = await Program(tmp_path, server.url).run(*SDK, stdin=b"go")
    plan = [one for one in ran.objects() if one.get("item", {}).get("type") == "todo_list"]
    assert [one["type"] for one in plan] == ["item.started", "item.updated", "item.completed"]
    assert [one["completed"] for one in plan[1]["item"]["items"]] == [True, False]


async def test_an_answer_follows_the_schema_of_a_file(tmp_path: Path) -> None:
    async with FakeLLM([reply('{"n": 1}')]) as server:
        program = Program(tmp_path, server.url)
        path = program.folder / "schema.json"
        path.write_text(json.dumps({"type": "object", "required": ["n"]}))
        ran = await program.run(*SDK, "--output-schema", str(path), stdin=b"go")
    assert (ran.code, ran.objects()[2]["item"]["text"]) == (0, '{"n": 1}'), ran.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--sandbox", "none"), "--sandbox is one of"),
        (("--config", 'openai_base_url="https://x"'), "set [api] base_url"),
        (("--config", "sandbox_workspace_write.network_access=true"), "not supported"),
        (("--config", "tools.x=1"), "not supported"),
        (("--config",), "needs a value"),
        (("--cyber-access-program", "standard"), "not supported"),
        (("resume",), "needs a value"),
    ],
)
async def test_what_can_not_be_honoured_is_refused(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    async with FakeLLM([]) as server:
        ran = await Program(tmp_path, server.url).run(*SDK, *words, stdin=b"go")
    assert (ran.code, ran.out) == (2, "")
    assert reason in ran.err


async def test_a_picture_is_attached(tmp_path: Path) -> None:
    pixel = png()
    async with FakeLLM([reply("Seen.")]) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "a.png").write_bytes(pixel)
        ran = await program.run(*SDK, "--image", "a.png", stdin=b"look")
        missing = await program.run(*SDK, "--image", "b.png", stdin=b"look")
    assert ran.code == 0, ran.err
    assert "image_url" in server.requests[0].raw.decode()
    assert (missing.code, len(server.requests)) == (2, 1)


def png() -> bytes:
    """A picture of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data
