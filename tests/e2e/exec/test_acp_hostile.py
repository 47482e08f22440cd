"""Editors that send too much, answer never, read nothing or go away in the middle: buddy stays small, answers
what it can, and ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.fake_llm.script import Reply, Stall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.editor import TOOLS, RawEditor, raw_editor
from tests.support.program import DEADLINE_S, Program

WRITE = reply(call("write_file", path="a.txt", content="one\n"))
MEGABYTE = 1_000_000


@asynccontextmanager
async def hostile(folder: Path, *replies: Reply) -> AsyncGenerator[tuple[Program, RawEditor, str]]:
    async with FakeLLM([*replies] or [reply("hi")]) as server:
        program = Program(folder, server.url, "chat", TOOLS)
        async with raw_editor(program) as (editor, session_id):
            try:
                yield program, editor, session_id
            finally:
                # What a test stopped reading never ends by itself; the process is not done before it does.
                editor.process._transport.close()  # type: ignore[attr-defined]


def words(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def memory_mb(editor: RawEditor) -> float:
    return psutil.Process(editor.process.pid).memory_info().rss / MEGABYTE


async def write_all(editor: RawEditor, data: bytes) -> None:
    assert editor.process.stdin is not None
    editor.process.stdin.write(data)
    await editor.process.stdin.drain()


async def test_a_line_of_a_hundred_megabytes_fails_alone_and_takes_no_memory(tmp_path: Path) -> None:
    async with hostile(tmp_path) as (_program, editor, session_id):
        before, most = memory_mb(editor), 0.0
        start = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {"p": ""}})
        await write_all(editor, start[:-3].encode())
        for _ in range(150):
            await write_all(editor, b"x" * MEGABYTE)
            most = max(most, memory_mb(editor))
        await write_all(editor, b'"}}\n')
        answer = await editor.response(7)
        assert "longer than" in answer["error"]["data"]["details"]
        assert most - before < 220  # twice the limit of one message, and what moving it takes
        prompt = editor.request("session/prompt", sessionId=session_id, prompt=words("hello"))
        assert (await editor.response(prompt))["result"]["stopReason"] == "end_turn"


async def test_every_prompt_of_a_flood_is_answered(tmp_path: Path) -> None:
    async with hostile(tmp_path, *[reply(f"answer {number}") for number in range(200)]) as (_p, editor, id_):
        asked = [editor.request("session/prompt", sessionId=id_, prompt=words(f"{n}")) for n in range(300)]
        answers = dict.fromkeys(asked)
        last = None
        while any(one is None for one in answers.values()):
            last = await editor.until(
                lambda message: message.get("id") in answers and "method" not in message
            )
            answers[last["id"]] = "error" if "error" in last else last["result"]["stopReason"]
        assert set(answers.values()) <= {"end_turn", "error"}
        assert "end_turn" in answers.values()


async def test_floods_of_cancels_and_unknown_methods_cost_nothing(tmp_path: Path) -> None:
    async with hostile(tmp_path) as (_program, editor, session_id):
        for number in range(1_000):
            editor.send(method="session/cancel", params={"sessionId": session_id})
            editor.send(method="session/cancel", params={"sessionId": f"nobody {number}"})
            editor.send(id=5_000 + number, method="no/such/method", params={})
            editor.send(method="no/such/notification", params=[1])
        for number in range(1_000):
            assert (await editor.response(5_000 + number))["error"]["code"] == -32601
        prompt = editor.request("session/prompt", sessionId=session_id, prompt=words("hello"))
        assert (await editor.response(prompt))["result"]["stopReason"] == "end_turn"


NO_IDS = ("", " ", "last", "0", "..", "a/b", "\0", "x" * 100_000, "0000-0000-0000-0000")
NO_FOLDERS = ("", "relative", "/no/such", "/etc/hostname", "/tmp\0x", 7, None)


async def test_ids_and_folders_that_are_none_are_refused_and_open_nothing(tmp_path: Path) -> None:
    async with hostile(tmp_path) as (program, editor, _session):
        for method in ("session/load", "session/resume", "session/fork", "session/prompt"):
            for id_ in NO_IDS:
                params = {"sessionId": id_, "cwd": str(program.repo), "mcpServers": [], "prompt": words("x")}
                answer = await editor.response(editor.request(method, **params))
                assert answer["error"]["code"] in (-32602, -32002), (method, id_, answer)
                assert len(json.dumps(answer)) < 5_000
        for folder in NO_FOLDERS:
            answer = await editor.response(editor.request("session/new", cwd=folder, mcpServers=[]))
            assert answer["error"]["code"] == -32602, (folder, answer)
        listed = await editor.ask(10, "session/list", {"cwd": str(program.repo)})
        assert len(listed["result"]["sessions"]) <= 1


async def test_a_question_that_is_never_answered_ends_with_the_turn(tmp_path: Path) -> None:
    async with hostile(tmp_path, WRITE, reply("again")) as (program, editor, session_id):
        prompt = editor.request("session/prompt", sessionId=session_id, prompt=words("write"))
        await editor.permission()
        editor.send(method="session/cancel", params={"sessionId": session_id})
        assert (await editor.response(prompt))["result"]["stopReason"] == "cancelled"
        assert not (program.repo / "a.txt").exists()
        prompt = editor.request("session/prompt", sessionId=session_id, prompt=words("hello"))
        assert (await editor.response(prompt))["result"]["stopReason"] == "end_turn"


@pytest.mark.parametrize(
    ("turn", "last"),
    [("none", b'{"jsonrpc": "2.0", "id": 5, "meth'), ("streams", b"\xff\xfe"), ("asks", b"")],
)
async def test_buddy_ends_when_its_input_is_closed_in_the_middle(
    tmp_path: Path, turn: str, last: bytes
) -> None:
    answer = WRITE if turn == "asks" else reply("a beginning of more", fault=Stall(after=2))
    async with hostile(tmp_path, answer) as (_program, editor, session_id):
        if turn != "none":
            editor.request("session/prompt", sessionId=session_id, prompt=words("go"))
            wanted = "session/request_permission" if turn == "asks" else "agent_message_chunk"
            await editor.until(lambda message: wanted in json.dumps(message))
        await write_all(editor, last)
        assert editor.process.stdin is not None
        editor.process.stdin.close()
        async with asyncio.timeout(DEADLINE_S):
            assert await editor.process.wait() == 0


async def test_an_editor_that_reads_nothing_is_not_read_for_ever(tmp_path: Path) -> None:
    async with hostile(tmp_path) as (_program, editor, _session):
        before = memory_mb(editor)
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "no/such/" + "x" * 20_000, "params": {}})
        data = (line + "\n").encode() * 50
        written = 0
        assert editor.process.stdin is not None
        assert editor.process.stdout is not None
        editor.process.stdout._transport.pause_reading()  # type: ignore[attr-defined]
        try:
            async with asyncio.timeout(5):
                while written < 300:
                    await write_all(editor, data)
                    written += 1
        except TimeoutError:
            pass  # buddy reads no more
        assert written < 300
        assert memory_mb(editor) - before < 220  # see above
        editor.process.stdin.close()
        editor.process.stdout._transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(DEADLINE_S):
            while await editor.process.stdout.read(1_000_000):
                pass
            assert await editor.process.wait() == 0


async def test_buddy_ends_although_nobody_reads_its_last_words(tmp_path: Path) -> None:
    async with hostile(tmp_path, reply("word " * 400_000)) as (_program, editor, session_id):
        assert editor.process.stdout is not None
        editor.process.stdout._transport.pause_reading()  # type: ignore[attr-defined]
        editor.request("session/prompt", sessionId=session_id, prompt=words("go"))
        assert editor.process.stdin is not None
        await editor.process.stdin.drain()
        editor.process.stdin.close()
        async with asyncio.timeout(DEADLINE_S):
            while (
                psutil.pid_exists(editor.process.pid)
                and psutil.Process(editor.process.pid).status() != "zombie"
            ):
                await asyncio.sleep(0.05)
