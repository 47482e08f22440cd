"""Pastes without brackets into the whole program on a pty: one draft, no run, no shell command."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import ENTER_S, on_terminal


@pytest.mark.slow
@pytest.mark.parametrize("first", ["Some docs:\r", ""], ids=["behind text", "first"])
async def test_RU_B2_a_raw_paste_runs_nothing_and_one_enter_sends_it_once(tmp_path: Path, first: str) -> None:
    async with FakeLLM([reply("Read it.")]) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program) as terminal:
            await terminal.line("/keys")
            await terminal.has_shown("new background task")
            terminal.keys(f"{first}!touch pwned\rmore text\r")
            await terminal.shows("more text")
            await asyncio.sleep(ENTER_S)
            assert server.requests == []
            assert not (program.repo / "pwned").exists()
            if not first:
                return
            await asyncio.sleep(2 * ENTER_S)
            terminal.keys("\r")
            await terminal.has_shown("Read it.")
        assert [asked.last_user_text.strip() for asked in server.requests] == [
            "Some docs:\n!touch pwned\nmore text"
        ]
        assert not (program.repo / "pwned").exists()


@pytest.mark.slow
async def test_RU_B2_a_single_shell_line_in_one_piece_waits_for_another_enter(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program) as terminal:
            await terminal.line("/keys")
            await terminal.has_shown("new background task")
            terminal.keys("!touch made\r")
            await terminal.shows("Pasted: Enter again runs it in your shell.")
            assert not (program.repo / "made").exists()
            await asyncio.sleep(ENTER_S)
            terminal.keys("\r")
            await terminal.until(lambda: (program.repo / "made").exists(), "the command ran")
