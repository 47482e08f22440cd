"""A person at work while much happens: nothing typed is lost, nothing streamed gets into the line, and what
was there when the program was killed is there again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from buddy.workspace.processes.process_tree import strays
from tests.capabilities import requires
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, Stall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.legal_history import is_legal
from tests.support.program import YOLO, Program
from tests.support.terminal import on_terminal

linux = requires("proc")
STREAM = "".join(f"Line {number} of what **is** streamed, with `code` in it.\n\n" for number in range(3000))
HEAVY = """
litellm pydantic mcp httpx rich.markdown tree_sitter markdown_it pygments jinja2
buddy.tasks.board buddy.sessions.store buddy.llm.catalog buddy.tools.builtin
pathlib difflib urllib.parse ipaddress buddy.safety.secrets.redact buddy.repl.plain
"""
FIRST_FRAME = """
import os, sys
from buddy.cli.arguments import parse
from buddy.cli.interactive import open_surface
from buddy.app.launch import find_launch, read_settings
from buddy.repl.early import Controller
from buddy.repl.early import LateCompleter
from buddy.repl.view.state import NO_SESSION

options = parse([])
launch = find_launch(options, os.environ)
open_surface(launch, read_settings(launch, options), Controller(NO_SESSION, print), LateCompleter())
print("imported", *sys.modules, sep="\\n")
"""
"""Everything up to the first frame, which imports nothing more."""


def streams(asked: Asked) -> Reply:
    """Streams without an end."""
    return reply(STREAM, chars=24, delay_s=0.01)


def journal(program: Program) -> str:
    """Return the session's content on disk."""
    (path,) = (program.repo / ".buddyx/sessions").glob("*/journal.jsonl")
    return path.read_text("utf-8", "replace")


@pytest.mark.slow
async def test_five_hundred_keys_while_three_tasks_stream(tmp_path: Path) -> None:
    seeded = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,;:-_+=()[]{}<>äöüß€"
    typed = "".join(seeded.choice(letters) for _ in range(500))
    async with FakeLLM(streams) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program, columns=110, rows=40) as terminal:
            await terminal.line("stream one")
            await terminal.line("stream two &")
            await terminal.line("stream three &")
            await terminal.shows("3 tasks running")
            for start in range(0, len(typed), 5):
                for key in typed[start : start + 5]:
                    terminal.keys(key)
                    await asyncio.sleep(0.004)
                shown = terminal.input_line()
                assert typed.startswith(shown[-4000:]), "something else is in the line"
            await terminal.until(lambda: terminal.input_line() == typed, "every key once")
            assert not [
                row for row in terminal.everything() if typed[:40] in row and not row.startswith(("❯", "▌"))
            ]


@pytest.mark.slow
async def test_killed_while_it_streams_everything_is_in_the_next_request(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if "Continue exactly" in asked.last_user_text or len(server.requests) > 2:
            return reply("and here it ends")
        if not asked.tool_results:
            return reply("I look.", call("read_file", path="main.py"))
        return reply("The program prints one and " * 20, fault=Stall(after=30), delay_s=0.002)

    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program) as terminal:
            await terminal.line("explain it")
            await terminal.shows("The program prints one")
            await terminal.until(lambda: "prints one" in journal(program), "streamed text on the disk")
            await terminal.kill()
        async with on_terminal(program, "-c") as terminal:
            await terminal.has_shown("explain it", "The program prints one", "this reply broke off here")
            await terminal.line("/continue")
            await terminal.has_shown("and here it ends")
            assert await terminal.leaves() == 0
    turns = server.requests[-1].turns
    assert ("user", "explain it") in turns
    assert any("print(1)" in text for text in server.requests[-1].tool_results)
    assert any(role == "assistant" and "The program prints one" in text for role, text in turns)
    assert is_legal(await program.history()) == []


@pytest.mark.slow
async def test_killed_while_notes_wait_they_go_with_the_next_prompt_once(tmp_path: Path) -> None:
    async with FakeLLM(lambda asked: reply(f"heard {asked.last_user_text.rpartition(chr(10))[2]}")) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program) as terminal:
            await terminal.line("count the files &")
            await terminal.shows("→ goes with your next prompt: task 2's answer")
            await terminal.line("!echo shared $((6 * 7))")
            await terminal.shows("prompt: ! echo shared $((6 * 7)) (Backspace drops it)")
            await terminal.until(lambda: "shared 42" in journal(program), "the note on the disk")
            await terminal.kill()
        async with on_terminal(program, "-c") as terminal:
            await terminal.shows("task 2's answer (count the files)", "prompt: ! echo")
            await terminal.line("and now?")
            await terminal.has_shown("heard and now?")
            assert not any("→ goes" in row for row in terminal.rows())
            await terminal.kill()
        async with on_terminal(program, "-c") as terminal:
            await terminal.has_shown("heard and now?")
            await terminal.line("and then?")
            await terminal.has_shown("heard and then?")
            assert not any("→ goes" in row for row in terminal.rows())
    told = server.requests[-2].last_user_text
    assert "[Background task 2, 'count the files', has finished. Its answer:]\nheard count the files" in told
    assert "[I ran `echo shared $((6 * 7))` (exit code 0):]\nshared 42" in told
    assert told.endswith("and now?")
    assert server.requests[-1].last_user_text == "and then?"


@linux
@pytest.mark.slow
async def test_killed_while_jobs_run_it_is_told_once_what_became_of_them(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if asked.last_user_text != "start them":
            return reply("then so be it")
        if asked.tool_results:
            return reply("both run")
        return reply(
            call("run_shell", command="sleep 4711", background=True),
            call("run_shell", command="sleep 4712", background=True),
        )

    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program, *YOLO) as terminal:
            await terminal.line("start them")
            await terminal.shows("both run")
            await terminal.kill()
        pids = {one.command: one.process.pid for one in strays() if one.session_id in program.sessions()}
        os.kill(pids["sleep 4712"], signal.SIGKILL)
        alive = f"it still runs (process {pids['sleep 4711']}): sleep 4711"
        try:
            async with on_terminal(program, "-c") as terminal:
                await terminal.has_shown(f"job 1 was running when buddy was killed; {alive}")
                await terminal.has_shown(
                    "job 2 was running when buddy was killed; it has ended too: sleep 4712"
                )
                await terminal.line("well?")
                await terminal.shows("then so be it")
                assert await terminal.leaves() == 0
            told = server.requests[-1].last_user_text
            async with on_terminal(program, "-c") as terminal:
                left = f"still running from before: sleep 4711 (process {pids['sleep 4711']})"
                await terminal.has_shown(left)
                await terminal.line("/jobs")
                await terminal.has_shown("left1", "left by an earlier run")
                await terminal.line("/jobs stop left1")
                await terminal.has_shown("ended: sleep 4711")
                assert not any("was running when buddy was killed; " in row for row in terminal.everything())
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids["sleep 4711"], signal.SIGKILL)
    assert f"buddy was killed while job 1 ran, and has been restarted. State of the job:]\n{alive}" in told
    assert "it has ended too: sleep 4712" in told
    assert told.endswith("well?")


@pytest.mark.slow
async def test_a_session_in_which_nothing_was_said_leaves_no_trace(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program) as terminal:
            await terminal.shows("sandbox")
            await terminal.line("/status")
            await terminal.has_shown("fake-model")
            await terminal.line("exit")
            assert await terminal.exit_code() == 0
            assert not any("buddy resume" in row for row in terminal.everything())
        assert program.sessions() == []
        assert program.git("status", "--short") == ""


@pytest.mark.slow
async def test_the_demo_plays_by_what_the_person_types(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        async with on_terminal(program, "demo") as terminal:
            await terminal.shows("DEMO", "fix the bug", "then the command)", "@2 … steers it)")
            await terminal.line("fix the bug")
            await terminal.shows("waiting for you", "y yes")
            await terminal.answer("/ok all", "approved")
            await terminal.line("tell me a story")
            assert await terminal.leaves() == 0
            told = terminal.everything()
            assert any("That was the demo; its folder is gone." in row for row in told)
            assert not any("buddy resume" in row for row in told)
        assert server.requests == []


@pytest.mark.slow
async def test_without_a_key_one_screen_says_what_to_do(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url, environment={"FAKE_LLM_KEY": "\0"})
        (program.config / "buddy.toml").unlink()
        async with on_terminal(program) as terminal:
            await terminal.shows("Welcome to buddy", "buddy login", "buddy demo")
            assert len(terminal.everything()) <= 36
            await terminal.line("hello")
            await terminal.has_shown("no model")


async def test_nothing_heavy_is_imported_before_the_first_frame(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        command = (sys.executable, "-c", FIRST_FRAME)
        async with on_terminal(program, command=command, ready="imported", rows=2000) as terminal:
            await terminal.exit_code()
            modules = terminal.rows()
    assert "buddy.repl.screen.screen" in modules
    assert [name for name in HEAVY.split() if name in modules] == []
