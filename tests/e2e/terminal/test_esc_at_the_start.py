"""Esc straight after Enter, while the session is still being opened: the line comes back, nothing is sent."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import Terminal, on_terminal

SLOW = """
import importlib, os, sys, time

real = importlib.import_module

def slow(name, *rest):
    while name == "buddy.cli.session_loop" and not os.path.exists(os.environ["GO_ON"]):
        time.sleep(0.01)
    return real(name, *rest)

importlib.import_module = slow
from buddy.__main__ import main
sys.argv[0] = "buddy"
sys.exit(main())
"""
"""The program on a machine that takes its time to import what a session needs."""


@asynccontextmanager
async def sent_at_the_start(folder: Path, server: FakeLLM) -> AsyncIterator[tuple[Program, Terminal]]:
    """A line is sent to a program whose session is still to be opened."""
    program = Program(folder, server.url, environment={"GO_ON": str(folder / "go-on")})
    program.files(main__py="print(1)\n")
    async with on_terminal(program, command=(sys.executable, "-c", SLOW)) as terminal:
        terminal.keys("fix the bug")
        await terminal.until(lambda: terminal.input_line() == "fix the bug", "the line")
        terminal.keys("\r")
        await terminal.until(lambda: terminal.input_line() == "", "it is sent")
        yield program, terminal


@pytest.mark.parametrize("key", ["\x1b", "\x03"], ids=["Esc", "Ctrl+C"])
async def test_a_prompt_is_taken_back_while_the_session_opens_and_can_be_sent_again(
    tmp_path: Path, key: str
) -> None:
    async with (
        FakeLLM(lambda asked: reply("heard")) as server,
        sent_at_the_start(tmp_path, server) as (_program, terminal),
    ):
        terminal.keys(key)
        await terminal.until(lambda: terminal.input_line() == "fix the bug", "it is back")
        (tmp_path / "go-on").touch()
        await terminal.line(" now")
        await terminal.has_shown("heard")
        assert [asked.last_user_text for asked in server.requests] == ["fix the bug now"]
        assert await terminal.leaves() == 0


async def test_who_leaves_while_the_session_opens_is_told_what_was_not_sent(tmp_path: Path) -> None:
    async with FakeLLM(lambda asked: reply("heard")) as server:
        async with sent_at_the_start(tmp_path, server) as (program, terminal):
            terminal.keys("\x04")
            (tmp_path / "go-on").touch()
            await terminal.has_shown("not sent: fix the bug")
            assert await terminal.exit_code() == 0
        assert server.requests == []
        assert program.sessions() == []
