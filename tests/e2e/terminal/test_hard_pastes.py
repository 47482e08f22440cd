"""Pastes into the whole program that no person types: megabytes, control bytes, one without an end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import on_terminal

MEGABYTES = 5


@pytest.mark.slow
async def test_five_megabytes_are_pasted_sent_and_recalled(tmp_path: Path) -> None:
    line = b"The quick brown fox jumps over the lazy dog, line after line.\r\n"
    text = line * (MEGABYTES * 1_000_000 // len(line))
    async with FakeLLM([reply("Read it."), reply("Read it again.")]) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program) as terminal:
            await terminal.shows("sandbox")
            await terminal.feed(b"\x1b[200~" + text + b"\x1b[201~")
            mark = f"[pasted #1, {text.count(10)} lines]"
            await terminal.until(lambda: terminal.input_line() == mark, "the mark")
            for said in ("Read it.", "Read it again."):
                await asyncio.sleep(0.2)
                terminal.keys("\r")
                await terminal.has_shown(said)
                terminal.keys("\x1b[A")
                await terminal.until(lambda: terminal.input_line() == mark, "recalled")
        wanted = text.decode().replace("\r\n", "\n").strip()
        assert [asked.last_user_text.strip() == wanted for asked in server.requests] == [True, True]


@pytest.mark.slow
async def test_control_bytes_in_a_paste_do_nothing_and_one_without_an_end_is_ended(tmp_path: Path) -> None:
    async with FakeLLM([reply("Read it.")]) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program) as terminal:
            await terminal.shows("sandbox")
            hostile = bytes(range(32)) + b"\x7f\x9b31m\x1b[31m\x1b]0;title\x07\xff\xfe after"
            await terminal.feed(b"\x1b[200~before " + hostile + b"\x1b[201~")
            await terminal.shows("31m after")
            assert b"title\x07" not in terminal.output
            terminal.keys("\x03")
            await terminal.until(lambda: terminal.input_line() == "", "cleared")
            await terminal.feed(b"\x1b[200~half of it\r")
            await terminal.has_read()
            await terminal.type("and keys")
            await terminal.has_read()
            await asyncio.sleep(0.7)  # quiet for long enough: a key may end it
            terminal.keys("\x03")
            await terminal.shows("half of it", "and keys")
            assert server.requests == []
