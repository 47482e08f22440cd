"""MCP servers that an editor hands over to `buddy acp`, and editors that answer wrongly."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import schema, text_block

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, Stall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.editor import TOOLS, Editor, connected, raw_editor
from tests.support.program import DEADLINE_S, Program

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_server.py")
HI = reply("hi")
WRITE = reply(call("write_file", path="a.txt", content="one\n"))


def handed(name: str, mode: str, *files: str) -> schema.McpServerStdio:
    return schema.McpServerStdio(name=name, command=sys.executable, args=[SERVER, mode, *files], env=[])


def echoes(asked: Asked) -> Reply:
    """A model that calls the server's tool once it is offered."""
    if asked.tool_results:
        return reply("Done.")
    return reply(call("mcp__handed__echo", text="hello")) if "mcp__handed__echo" in asked.tool_names else HI


async def test_tools_of_a_handed_server_are_offered_and_asked_about_like_others(tmp_path: Path) -> None:
    async with FakeLLM(echoes) as server:
        program = Program(tmp_path, server.url, "chat", TOOLS)
        editor = Editor("once")
        async with connected(program, editor) as connection:
            opened = await connection.new_session(
                cwd=str(program.repo), mcp_servers=[handed("handed", "honest")]
            )
            async with asyncio.timeout(DEADLINE_S):
                while not server.requests or not server.requests[-1].tool_results:
                    await connection.prompt(session_id=opened.session_id, prompt=[text_block("hi")])
    assert [request.title for request, _options in editor.requests] == [
        "mcp__handed__echo: it is a high-risk call"
    ]
    assert "hello" in server.requests[-1].tool_results[-1]


async def test_a_server_that_hangs_does_not_keep_a_session_waiting(tmp_path: Path) -> None:
    async with FakeLLM([reply("hi")]) as server:
        program = Program(tmp_path, server.url, "chat", TOOLS)
        async with connected(program, Editor("once")) as connection:
            broken = schema.McpServerStdio(name="gone", command="/nowhere/server", args=[], env=[])
            slow = handed("slow", "silent")
            async with asyncio.timeout(DEADLINE_S):
                opened = await connection.new_session(cwd=str(program.repo), mcp_servers=[broken, slow])
                answer = await connection.prompt(session_id=opened.session_id, prompt=[text_block("hi")])
    assert answer.stop_reason == "end_turn"


def said(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


async def test_the_first_of_two_answers_counts_and_old_ids_approve_nothing(tmp_path: Path) -> None:
    other = reply(call("write_file", path="b.txt", content="two\n"))
    async with FakeLLM([WRITE, other, reply("Done.")]) as server:
        program = Program(tmp_path, server.url, "chat", TOOLS)
        async with raw_editor(program) as (editor, session_id):
            prompt = editor.request("session/prompt", sessionId=session_id, prompt=said("write"))
            first = await editor.permission()
            editor.choose(first, "no")
            editor.choose(first, "once")
            second = await editor.permission()
            editor.choose(first, "once")  # an old id
            editor.choose({"id": 99_999}, "once")  # an id nobody asked with
            editor.choose(second, "no")
            assert (await editor.response(prompt))["result"]["stopReason"] == "end_turn"
    assert not (program.repo / "a.txt").exists()
    assert not (program.repo / "b.txt").exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"result": {"outcome": {"outcome": "selected", "optionId": "yes please"}}},
        {"result": {"outcome": {"outcome": "selected"}}},
        {"result": {"outcome": "selected"}},
        {"result": {}},
        {"result": None},
        {"result": [1]},
        {"error": {"code": -1, "message": "no"}},
    ],
)
async def test_what_is_no_permission_denies(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url, "chat", TOOLS)
        async with raw_editor(program) as (editor, session_id):
            prompt = editor.request("session/prompt", sessionId=session_id, prompt=said("write"))
            asked = await editor.permission()
            editor.send(id=asked["id"], **fields)
            await editor.response(prompt)
    assert not (program.repo / "a.txt").exists()


async def test_an_editor_that_dies_while_it_is_asked_ends_buddy_and_nothing_runs(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url, "chat", TOOLS)
        async with raw_editor(program) as (editor, session_id):
            editor.request("session/prompt", sessionId=session_id, prompt=said("write"))
            await editor.permission()
            assert editor.process.stdin is not None
            editor.process.stdin.close()
            async with asyncio.timeout(DEADLINE_S):
                await editor.process.wait()
    assert not (program.repo / "a.txt").exists()


async def test_a_line_of_60_MB_does_not_hang_and_approves_nothing(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url, "chat", TOOLS)
        async with raw_editor(program) as (editor, session_id):
            editor.request("session/prompt", sessionId=session_id, prompt=said("write"))
            await editor.permission()
            stdin = editor.process.stdin
            assert stdin is not None
            for _ in range(60):
                stdin.write(b"x" * 1_000_000)
                try:
                    await stdin.drain()
                except ConnectionError:
                    break  # it closed its side
            async with asyncio.timeout(DEADLINE_S):
                stdin.close()
                await editor.process.wait()
    assert not (program.repo / "a.txt").exists()


async def test_a_cancel_right_behind_a_prompt_is_not_lost(tmp_path: Path) -> None:
    async with FakeLLM([reply("never", fault=Stall(after=0))]) as server:
        program = Program(tmp_path, server.url, "chat", TOOLS)
        async with raw_editor(program) as (editor, session_id):
            prompt = editor.request("session/prompt", sessionId=session_id, prompt=said("go"))
            editor.send(method="session/cancel", params={"sessionId": session_id})
            assert (await editor.response(prompt))["result"]["stopReason"] == "cancelled"
