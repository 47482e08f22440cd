"""MCP servers that an editor hands over to `buddy acp`, and editors that answer wrongly."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp import schema, text_block

from tests.fake_llm.script import Stall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.editor import TOOLS, Editor, connected
from tests.support.program import DEADLINE_S, Program, running

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_server.py")
WRITE = reply(call("write_file", path="a.txt", content="one\n"))


def handed(name: str, mode: str, *files: str) -> schema.McpServerStdio:
    return schema.McpServerStdio(name=name, command=sys.executable, args=[SERVER, mode, *files], env=[])


async def test_tools_of_a_handed_server_are_offered_and_asked_about_like_others(tmp_path: Path) -> None:
    wants = reply(call("mcp__handed__echo", text="hello"))
    async with FakeLLM([reply("hi")] * 40 + [wants, reply("Done.")]) as server:
        program = Program(tmp_path, server.url, "chat", TOOLS)
        editor = Editor("once")
        async with connected(program, editor) as connection:
            opened = await connection.new_session(
                cwd=str(program.repo), mcp_servers=[handed("handed", "honest")]
            )
            session_id = opened.session_id
            async with asyncio.timeout(DEADLINE_S):
                while not any("mcp__handed__echo" in one.tool_names for one in server.requests):
                    await connection.prompt(session_id=session_id, prompt=[text_block("hi")])


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


class PlainEditor:
    """An editor of plain lines, with every object it read."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen: list[dict[str, Any]] = []
        self._count = 0

    def send(self, **fields: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n")

    def ask(self, method: str, **params: Any) -> int:
        self._count += 1
        self.send(id=self._count, method=method, params=params)
        return self._count

    async def until(self, wanted: Any) -> dict[str, Any]:
        assert self.process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            while line := await self.process.stdout.readline():
                self.seen.append(json.loads(line))
                if wanted(self.seen[-1]):
                    return self.seen[-1]
        raise AssertionError(f"it ended before: {self.seen}")

    async def answer_of(self, number: int) -> dict[str, Any]:
        return await self.until(lambda one: one.get("id") == number and "method" not in one)

    async def permission(self) -> dict[str, Any]:
        return await self.until(lambda one: one.get("method") == "session/request_permission")

    def choose(self, asked: dict[str, Any], option: str) -> None:
        self.send(id=asked["id"], result={"outcome": {"outcome": "selected", "optionId": option}})


@asynccontextmanager
async def raw(program: Program) -> AsyncGenerator[tuple[PlainEditor, str]]:
    async with running(program, "acp", stdin=-1, limit=200_000_000) as process:
        editor = PlainEditor(process)
        await editor.answer_of(editor.ask("initialize", protocolVersion=1, clientCapabilities={}))
        opened = await editor.answer_of(editor.ask("session/new", cwd=str(program.repo), mcpServers=[]))
        yield editor, opened["result"]["sessionId"]


def said(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


async def test_the_first_of_two_answers_counts_and_old_ids_approve_nothing(tmp_path: Path) -> None:
    other = reply(call("write_file", path="b.txt", content="two\n"))
    async with FakeLLM([WRITE, other, reply("Done.")]) as server:
        program = Program(tmp_path, server.url, "chat", TOOLS)
        async with raw(program) as (editor, session_id):
            prompt = editor.ask("session/prompt", sessionId=session_id, prompt=said("write"))
            first = await editor.permission()
            editor.choose(first, "no")
            editor.choose(first, "once")
            second = await editor.permission()
            editor.choose(first, "once")  # an old id
            editor.choose({"id": 99_999}, "once")  # an id nobody asked with
            editor.choose(second, "no")
            assert (await editor.answer_of(prompt))["result"]["stopReason"] == "end_turn"
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
        async with raw(program) as (editor, session_id):
            prompt = editor.ask("session/prompt", sessionId=session_id, prompt=said("write"))
            asked = await editor.permission()
            editor.send(id=asked["id"], **fields)
            await editor.answer_of(prompt)
    assert not (program.repo / "a.txt").exists()


async def test_an_editor_that_dies_while_it_is_asked_ends_buddy_and_nothing_runs(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url, "chat", TOOLS)
        async with raw(program) as (editor, session_id):
            editor.ask("session/prompt", sessionId=session_id, prompt=said("write"))
            await editor.permission()
            assert editor.process.stdin is not None
            editor.process.stdin.close()
            async with asyncio.timeout(DEADLINE_S):
                await editor.process.wait()
    assert not (program.repo / "a.txt").exists()


async def test_a_line_of_60_MB_does_not_hang_and_approves_nothing(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url, "chat", TOOLS)
        async with raw(program) as (editor, session_id):
            editor.ask("session/prompt", sessionId=session_id, prompt=said("write"))
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
        async with raw(program) as (editor, session_id):
            prompt = editor.ask("session/prompt", sessionId=session_id, prompt=said("go"))
            editor.send(method="session/cancel", params={"sessionId": session_id})
            assert (await editor.answer_of(prompt))["result"]["stopReason"] == "cancelled"
