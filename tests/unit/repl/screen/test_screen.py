"""The screen with a REPL on it: typing, streaming, finished blocks, approvals, resizing, leaving."""

from __future__ import annotations

import asyncio

import pytest

from buddy.repl.intents import Prompt
from buddy.repl.view.blocks import NoteBlock
from buddy.repl.view.state import SessionFacts
from buddy.workspace.sandbox.status import NO_SANDBOX
from tests.support.events_for_tests import Tape
from tests.support.screen_harness import resize, running_repl


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
            "▌ go",
            "",
            "First paragraph.",
            "",
            "Second, still op",
            "● writing",
            "─" * 59,
            "❯ my draft",
            "ask · 1 task running · ? keys",
        )
        stage.send(tape.text("en.\n"), tape.reply_done(), tape.done())
        await stage.shows_rows(
            "▌ go",
            "",
            "First paragraph.",
            "",
            "Second, still open.",
            "",
            "done · 3 s",
            "─" * 59,
            "❯ my draft",
            "ask · ? keys",
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


async def test_a_frame_that_comes_before_the_news_of_another_size_is_not_drawn_by_the_old_one() -> None:
    """A loop that stood still hears its timers before the signal that tells of the size."""
    async with running_repl(columns=60, rows=14, environ={"TERM": "xterm-256color", "TMUX": "x"}) as stage:
        await stage.shows("ask · ? keys")
        stage.terminal.screen.resize(14, 40)
        before = len(stage.terminal.written)
        stage.repl.screen._frame()
        assert len(stage.terminal.written) == before
        assert stage.repl.screen._settling.is_on
        stage.terminal.screen.resize(14, 50)
        stage.repl.screen._settling._end()
        assert len(stage.terminal.written) == before
        await stage.until(lambda: "─" * 49 in stage.terminal.rows())


async def test_printing_keeps_what_is_typed() -> None:
    async with running_repl() as stage:
        stage.type("draft")
        await stage.shows("draft")
        stage.repl.print(NoteBlock("info", "a note"))
        await stage.shows("a note")
        assert stage.terminal.rows()[-3:] == ["─" * 59, "❯ draft", "ask · ? keys"]


async def test_after_a_resize_the_last_screenful_is_drawn_again_at_the_new_width() -> None:
    # A terminal that does not wrap lines again, as this one in memory.
    async with running_repl(columns=60, rows=14, environ={"TERM": "linux"}) as stage:
        tape = Tape(at=None)
        text = "Words that fill a line of sixty columns, nearly. " * 4
        stage.send(tape.turn("go"), tape.reply(), tape.text(text))
        stage.send(tape.text("\n\n- item\n- item\n\n"), tape.reply_done(), tape.done())
        await stage.shows("done · 3 s")
        resize(stage, 40, 14)
        await stage.shows_rows(
            "Words that fill a line of sixty",
            "columns, nearly. Words that fill a line",
            "of sixty columns, nearly. Words that",
            "fill a line of sixty columns, nearly.",
            "Words that fill a line of sixty",
            "columns, nearly.",
            "",
            "• item",
            "• item",
            "",
            "done · 3 s",
            "─" * 39,
            "❯",
            "ask · ? keys",
        )


async def test_after_a_suspend_what_was_printed_above_the_shells_lines_is_not_printed_twice() -> None:
    async with running_repl() as stage:
        stage.repl.print(NoteBlock("info", "one"), NoteBlock("info", "two"))
        await stage.shows("two")
        async with stage.repl.screen.lent():
            stage.terminal.write(b"[1]+ Stopped\r\n$ fg\r\n")
        stage.repl.screen.repair()
        await stage.shows_rows("one", "two", "[1]+ Stopped", "$ fg", "─" * 59, "❯", "ask · ? keys")
        stage.repl.print(NoteBlock("info", "three"))
        await stage.shows_rows("one", "two", "[1]+ Stopped", "$ fg", "three", "─" * 59, "❯", "ask · ? keys")


async def test_repainting_keeps_what_the_shell_printed_before() -> None:
    async with running_repl() as stage:
        stage.repl.print(NoteBlock("info", "one"), NoteBlock("info", "two"))
        await stage.shows("two")
        before = stage.terminal.rows()
        stage.type("\x0c")
        await stage.until(lambda: stage.terminal.rows() == before)
        stage.repl.screen.clear()
        await stage.shows_rows("─" * 59, "❯", "ask · ? keys")


async def test_a_terminal_that_stops_reading_stops_only_its_own_writer() -> None:
    async with running_repl() as stage:
        tape = Tape(at=None)
        stage.terminal.is_stalled = True
        written = len(stage.terminal.written)
        stage.send(tape.turn(), tape.reply(), tape.text("One.\n\n"))
        stage.type("draft")
        await stage.until(lambda: stage.repl.editor.text == "draft" and stage.repl.state.tasks[1].is_running)
        await asyncio.sleep(0.1)
        assert len(stage.terminal.written) == written
        stage.terminal.is_stalled = False
        stage.terminal.on_drained()
        await stage.shows("One.")
        await stage.shows("❯ draft")


async def test_every_frame_is_one_write_between_the_marks_of_synchronized_output() -> None:
    async with running_repl() as stage:
        stage.repl.print(NoteBlock("info", "a note"))
        await stage.shows("a note")
        frames = [data for data in stage.terminal.written if b"a note" in data]
        assert len(frames) == 1
        assert frames[0].startswith(b"\x1b[?2026h")
        assert frames[0].endswith(b"\x1b[?2026l")
        assert b"?2004" not in frames[0]


async def test_nothing_is_asked_of_the_terminal_and_no_screen_is_switched() -> None:
    async with running_repl() as stage:
        stage.repl.print(NoteBlock("info", "a note"))
        await stage.line("hello")
        await stage.until(lambda: len(stage.intents) == 1)
        written = b"".join(stage.terminal.written)
    for sequence in (b"\x1b[6n", b"\x1b[c", b"?1049", b"?1000", b"\x1b[2J", b"\x1b[3J", b"\x1b[>"):
        assert sequence not in written


async def test_three_tasks_stream_while_keys_are_typed_and_none_is_lost() -> None:
    async with running_repl(columns=200, rows=30) as stage:
        tapes = [Tape(number, at=None) for number in (1, 2, 3)]
        for tape in tapes:
            stage.send(tape.turn(), tape.reply())
        typed = ""
        for number in range(150):
            stage.send(*(tape.text(f"out{number} " + "\n\n" * (number % 5 == 4)) for tape in tapes))
            key = chr(0x4E00 + number) if number % 3 else "k"
            typed += key
            stage.type(key)
            if number % 4 == 0:
                await asyncio.sleep(0.002)
        await stage.until(lambda: stage.repl.editor.text == typed)
        await stage.shows("out149")
        rows = stage.terminal.rows()
        start = next(index for index, row in enumerate(rows) if row.startswith("❯ k"))
        shown = "".join(row[2:].replace(" ", "") for row in rows[start:-1])
        assert shown == typed


async def test_a_crash_of_a_key_handler_is_raised_after_the_screen_is_gone() -> None:
    async with running_repl() as stage:

        def broken(_intent: object) -> None:
            raise ZeroDivisionError("broken")

        stage.intents = None
        stage.repl.editor.buffer.on_text_changed += broken
        stage.type("x")
        with pytest.raises(ZeroDivisionError):
            await asyncio.shield(stage.ended)
        stage.ended = None


async def test_what_is_printed_last_is_seen_before_it_leaves() -> None:
    async with running_repl(rows=40) as stage:
        stage.repl.print(*(NoteBlock("info", f"note {number}") for number in range(20)))
        stage.repl.end("left")
        await asyncio.shield(stage.ended)
        assert stage.terminal.rows() == [f"note {number}" for number in range(20)]


async def test_what_the_session_says_after_an_intent_is_shown_at_once() -> None:
    async with running_repl() as stage:
        await stage.shows("ask · ? keys")
        stage.facts = SessionFacts(1, "plan", "some-model", NO_SANDBOX, (), {1: ""})
        stage.type("\x1b[Z")
        await stage.shows("plan · some-model")


@pytest.mark.parametrize("sizes", [((40, 3), (60, 20)), ((60, 4), (30, 2), (50, 12), (20, 3), (60, 20))])
async def test_RU_B21_a_storm_of_sizes_ends_with_what_was_said_on_the_screen(
    sizes: tuple[tuple[int, int], ...],
) -> None:
    async with running_repl(rows=20) as stage:
        stage.repl.print(*(NoteBlock("info", text) for text in ("one", "two", "three")))
        await stage.shows("three")
        for columns, rows in sizes:
            resize(stage, columns, rows)
            await asyncio.sleep(0.02)
        await stage.until(lambda: stage.terminal.rows()[:3] == ["one", "two", "three"])
        assert stage.terminal.rows()[3].startswith("─")
