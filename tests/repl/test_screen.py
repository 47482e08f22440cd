"""The screen with a REPL on it: typing, streaming, finished blocks, approvals, resizing, leaving."""

from __future__ import annotations

import asyncio

from buddy.repl.blocks import Note
from buddy.repl.intents import Prompt
from tests.repl.events_for_tests import Tape
from tests.repl.screen_harness import running_repl


async def test_the_prompt_is_there_at_once_and_a_line_is_sent() -> None:
    async with running_repl() as stage:
        await stage.shows("❯")
        await stage.line("hello there")
        await stage.until(lambda: stage.intents == [Prompt("hello there")])
        await stage.shows_not("hello there")


async def test_text_streams_above_the_prompt_while_somebody_types() -> None:
    async with running_repl() as stage:
        tape = Tape(at=None)
        stage.type("my draft")
        stage.send(tape.turn("go"), tape.reply(), tape.text("First paragraph.\n\nSecond, still op"))
        await stage.shows_rows(
            "❯ go",
            "",
            "First paragraph.",
            "● writing",
            "  Second, still op",
            "─" * 59,
            "❯ my draft",
            "ask · 1 task running",
        )
        stage.send(tape.text("en.\n"), tape.reply_done(), tape.done())
        await stage.shows_rows(
            "❯ go",
            "",
            "First paragraph.",
            "",
            "Second, still open.",
            "",
            "done · 3 s",
            "─" * 59,
            "❯ my draft",
            "ask",
        )


async def test_finished_blocks_reach_the_native_scrollback_once_each() -> None:
    async with running_repl(rows=12) as stage:
        tape = Tape()
        stage.send(tape.turn(), tape.reply())
        for number in range(60):
            stage.send(tape.text(f"paragraph {number}\n\n"))
            if number % 7 == 0:
                await asyncio.sleep(0.01)
        await stage.shows("paragraph 59")
        found = [line for line in stage.terminal.everything() if line.startswith("paragraph")]
        assert found == [f"paragraph {number}" for number in range(60)]


async def test_printing_keeps_what_is_typed() -> None:
    async with running_repl() as stage:
        stage.type("draft")
        await stage.shows("draft")
        stage.repl.print(Note("info", "a note"))
        await stage.shows("a note")
        assert stage.terminal.rows()[-3:] == ["─" * 59, "❯ draft", "ask"]
