"""Settings of the person's file, seen in what a run does."""

from __future__ import annotations

from pathlib import Path

from buddy.agent.messages import ToolMessage
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.headless.program import YOLO, Desk


async def test_sessions_beyond_the_count_are_removed_when_one_ends_the_oldest_first(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello")] * 4) as server:
        desk = Desk(tmp_path, server.url, settings={"session": {"keep_count": 2}})
        made: list[str] = []
        for _ in range(4):
            before = set(desk.sessions())
            assert (await desk.run("exec", "hi")).code == 0
            made.extend(set(desk.sessions()) - before)
    assert desk.sessions() == sorted(made[-2:])


async def test_sessions_that_are_too_old_are_removed_and_zero_keeps_them(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello")] * 3) as server:
        desk = Desk(tmp_path, server.url, settings={"session": {"keep_days": 0, "keep_count": 0}})
        await desk.run("exec", "hi")
        await desk.run("exec", "hi")
        assert len(desk.sessions()) == 2
        desk.configure({"session": {"keep_days": 0.000001}})
        assert (await desk.run("exec", "hi")).code == 0
    assert len(desk.sessions()) == 1


async def test_the_trash_is_emptied_when_a_session_ends_and_keeps_what_that_one_deleted(
    tmp_path: Path,
) -> None:
    replies = [reply(call("delete_file", path=name)) for name in ("a.txt", "b.txt")]
    script = [replies[0], reply("Gone."), replies[1], reply("Gone."), reply("Hello"), reply("Hello")]
    async with FakeLLM(script) as server:
        desk = Desk(
            tmp_path, server.url, tools=["delete_file"], settings={"session": {"trash_days": 0.0000001}}
        )
        for name in ("a.txt", "b.txt"):
            (desk.repo / name).write_text(name)
            assert (await desk.run("exec", "delete it", *YOLO)).code == 0
            (kept,) = (desk.repo / ".buddyx" / "trash").glob("*/it")
            assert kept.read_text() == name
        desk.configure({"session": {"trash_days": 0, "trash_mb": 0}})
        assert (await desk.run("exec", "hi")).code == 0
        assert kept.read_text() == "b.txt"
        desk.configure({"session": {"trash_days": 0.0000001}})
        assert (await desk.run("exec", "hi")).code == 0
    assert list((desk.repo / ".buddyx" / "trash").iterdir()) == []


async def test_a_commands_output_is_as_long_as_the_person_wants_it(tmp_path: Path) -> None:
    replies = [reply(call("run_shell", command="seq 1 5000")), reply("Counted.")]
    async with FakeLLM(replies) as server:
        desk = Desk(
            tmp_path, server.url, tools=["run_shell"], settings={"tools": {"shell_output_bytes": 400}}
        )
        assert (await desk.run("exec", "count", *YOLO)).code == 0
    (result,) = [one for one in await desk.history() if isinstance(one, ToolMessage)]
    assert result.text.startswith("1\n2\n3\n")
    assert "4999\n5000\n" in result.text
    assert "bytes left out" in result.text
    assert 400 < len(result.text) < 800
