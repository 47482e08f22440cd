"""Settings of the person's file, seen in what a run does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from buddy.agent.messages import ToolMessage
from tests.capabilities import IN_LIMITS, NOBODY, requires
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program

FORKS = """
import os
reading, writing = os.pipe()
count = 0
try:
    while count < 140:
        if os.fork() == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        count += 1
finally:
    print(f"{count} were born")
"""
"""As many processes as there may be, which end with their parent."""


async def test_sessions_beyond_the_count_are_removed_when_one_ends_the_oldest_first(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello")] * 4) as server:
        program = Program(tmp_path, server.url, settings={"session": {"keep_count": 2}})
        made: list[str] = []
        for _ in range(4):
            before = set(program.sessions())
            assert (await program.run("exec", "hi")).code == 0
            made.extend(set(program.sessions()) - before)
    assert program.sessions() == sorted(made[-2:])


async def test_sessions_that_are_too_old_are_removed_and_zero_keeps_them(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello")] * 3) as server:
        program = Program(tmp_path, server.url, settings={"session": {"keep_days": 0, "keep_count": 0}})
        await program.run("exec", "hi")
        await program.run("exec", "hi")
        assert len(program.sessions()) == 2
        program.configure({"session": {"keep_days": 0.000001}})
        assert (await program.run("exec", "hi")).code == 0
    assert len(program.sessions()) == 1


async def test_the_trash_is_emptied_when_a_session_ends_and_keeps_what_that_one_deleted(
    tmp_path: Path,
) -> None:
    replies = [reply(call("delete_file", path=name)) for name in ("a.txt", "b.txt")]
    script = [replies[0], reply("Gone."), replies[1], reply("Gone."), reply("Hello"), reply("Hello")]
    async with FakeLLM(script) as server:
        program = Program(
            tmp_path, server.url, tools=["delete_file"], settings={"session": {"trash_days": 0.0000001}}
        )
        for name in ("a.txt", "b.txt"):
            (program.repo / name).write_text(name)
            assert (await program.run("exec", "delete it", *YOLO)).code == 0
            (kept,) = (program.repo / ".buddyx" / "trash").glob("*/it")
            assert kept.read_text() == name
        program.configure({"session": {"trash_days": 0, "trash_mb": 0}})
        assert (await program.run("exec", "hi")).code == 0
        assert kept.read_text() == "b.txt"
        program.configure({"session": {"trash_days": 0.0000001}})
        assert (await program.run("exec", "hi")).code == 0
    assert list((program.repo / ".buddyx" / "trash").iterdir()) == []


async def test_a_commands_output_is_as_long_as_the_person_wants_it(tmp_path: Path) -> None:
    replies = [reply(call("run_shell", command="seq 1 5000")), reply("Counted.")]
    async with FakeLLM(replies) as server:
        program = Program(
            tmp_path, server.url, tools=["run_shell"], settings={"tools": {"shell_output_bytes": 400}}
        )
        assert (await program.run("exec", "count", *YOLO)).code == 0
    (result,) = [one for one in await program.history() if isinstance(one, ToolMessage)]
    assert result.text.startswith("1\n2\n3\n")
    assert "4999\n5000\n" in result.text
    assert "bytes left out" in result.text
    assert 400 < len(result.text) < 800


@requires("linux")
async def test_REL_049_what_commands_may_use_is_what_the_person_has_set(tmp_path: Path) -> None:
    (tmp_path / "eats.py").write_text("x = bytearray(2_000_000_000)\n")
    commands = (
        f"{sys.executable} {tmp_path}/eats.py",
        "head -c 5000000 /dev/zero > big",
        "while :; do :; done",
        "ulimit -n",
    )
    replies = [*(reply(call("run_shell", command=command)) for command in commands), reply("Done.")]
    limits = {"shell_memory_mb": 1000, "shell_file_mb": 2, "shell_cpu_s": 1, "shell_open_files": 64}
    async with FakeLLM(replies) as server:
        program = Program(tmp_path, server.url, tools=["run_shell"], settings={"tools": limits})
        (program.repo / "buddy.toml").write_text("[tools]\nshell_file_mb = 1000\nshell_open_files = 50\n")
        ran = await program.run("exec", "--trust", "do it", *YOLO)
    assert (ran.code, ran.out) == (0, "Done.\n")
    memory, file, cpu, open_files = [
        one.text for one in await program.history() if isinstance(one, ToolMessage)
    ]
    assert "MemoryError" in memory
    assert "the settings allow 1,000 MB of memory ([tools] shell_memory_mb)" in memory
    assert "the settings allow 2 MB in a file ([tools] shell_file_mb)" in file
    assert (program.repo / "big").stat().st_size <= 2_000_000
    assert "the settings allow 1 s of processor time ([tools] shell_cpu_s)" in cpu
    assert open_files.startswith("50\n")


async def test_REL_049_a_limit_is_told_though_what_the_command_started_still_runs(tmp_path: Path) -> None:
    command = "sleep 30 & head -c 5000000 /dev/zero > big"
    async with FakeLLM([reply(call("run_shell", command=command)), reply("Done.")]) as server:
        limits = {"tools": {"shell_file_mb": 2}}
        program = Program(tmp_path, server.url, tools=["run_shell"], settings=limits)
        assert (await program.run("exec", "do it", *YOLO)).code == 0
    (told,) = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    assert "the settings allow 2 MB in a file ([tools] shell_file_mb); processes it started" in told


@requires("process limits")
async def test_REL_049_no_command_starts_more_processes_than_the_person_has_set(tmp_path: Path) -> None:
    (tmp_path / "forks.py").write_text(FORKS)
    replies = [reply(call("run_shell", command=f"{sys.executable} {tmp_path}/forks.py")), reply("Done.")]
    async with FakeLLM(replies) as server:
        program = Program(
            tmp_path,
            server.url,
            tools=["run_shell"],
            settings={"tools": {"shell_processes": 60}},
            before=IN_LIMITS,
        )
        for path in (program.folder, *program.folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        assert (await program.run("exec", "do it", "--permission-mode", "yolo")).code == 0
    (told,) = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    born = int(told.partition(" were born")[0].split()[-1])
    assert 0 < born < 60
    assert "Resource temporarily unavailable" in told
    assert "the settings allow 60 processes ([tools] shell_processes)" in told
