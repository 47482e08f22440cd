"""Blocks are painted before the frame that shows them, and never so long at once that a key would wait."""

from __future__ import annotations

import asyncio
import threading

import pytest

from buddy.agent.display import Command, Diff, FileDiff, FileList, Plain
from buddy.agent.messages import Call
from buddy.repl.screen.paint_queue import AHEAD_BLOCKS, HEAVY_CHARS, KEPT_HEAVY, STEP_S, PaintAhead, is_heavy
from buddy.repl.view.blocks import (
    Block,
    Expanded,
    Fence,
    Markdown,
    NoteBlock,
    PlainText,
    TableBlock,
    Thought,
    ToolCall,
    UserPrompt,
)
from tests.support.events_for_tests import Tape
from tests.support.screen_harness import running_repl

BIG = "x" * (HEAVY_CHARS + 1)


class Canvas:
    """Paints notes as their first letters; knows in which thread and how often. Each takes a millisecond."""

    def __init__(self) -> None:
        self.painted: list[tuple[str, int, bool]] = []
        self.now = 0.0
        self.may_go_on = threading.Event()
        self.broken = False

    def __call__(self, block: Block, columns: int) -> str:
        assert isinstance(block, NoteBlock)
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main:
            assert self.may_go_on.wait(60)
        if self.broken:
            raise ZeroDivisionError("the painter is broken")
        self.painted.append((block.text[:3], columns, is_main))
        self.now += 0.001
        return block.text[:3]


class Ahead:
    """A canvas, what paints on it ahead, and how often it said that something is there."""

    def __init__(self) -> None:
        self.canvas = Canvas()
        self.painted = asyncio.Event()
        self.ahead = PaintAhead(self.canvas, self.painted.set, lambda: self.canvas.now)

    async def until_painted(self) -> None:
        async with asyncio.timeout(60):
            await self.painted.wait()
        self.painted.clear()

    def shown(self, columns: int, *, unpainted: bool = False) -> list[str]:
        """Return the text a frame prints."""
        blocks = self.ahead.take(unpainted=unpainted)
        texts = [self.ahead(block, columns) for block in blocks]
        self.ahead.forget(blocks)
        return texts


def notes(*texts: str) -> list[Block]:
    return [NoteBlock("info", text) for text in texts]


async def test_a_step_is_as_long_as_a_key_may_wait_and_nothing_is_painted_twice() -> None:
    made = Ahead()
    made.ahead.add(notes(*(f"n{number}" for number in range(10))))
    made.ahead.step(80)
    count = round(STEP_S * 1000)
    assert made.canvas.painted == [(f"n{number}", 80, True) for number in range(count)]
    assert made.shown(80) == [f"n{number}" for number in range(count)]
    made.ahead.go_on(80)
    while made.ahead.has_work:
        await made.until_painted()
    assert made.shown(80) == [f"n{number}" for number in range(count, 10)]
    assert len(made.canvas.painted) == 10
    assert made.ahead.is_empty


async def test_a_heavy_block_is_painted_in_another_thread_and_those_behind_it_wait() -> None:
    made = Ahead()
    made.ahead.add(notes("a", BIG, "b"))
    made.ahead.step(80)
    assert made.shown(80) == ["a"]
    assert not made.ahead.has_work
    assert not made.ahead.is_empty
    made.canvas.may_go_on.set()
    await made.until_painted()
    made.ahead.step(80)
    assert made.shown(80) == ["xxx", "b"]
    assert made.canvas.painted == [("a", 80, True), ("xxx", 80, False), ("b", 80, True)]


async def test_what_was_painted_for_another_width_is_painted_again() -> None:
    made = Ahead()
    made.canvas.may_go_on.set()
    made.ahead.add(notes("a", BIG))
    made.ahead.step(80)
    await made.until_painted()
    assert made.shown(40) == ["a", "xxx"]
    assert [(text, columns) for text, columns, _ in made.canvas.painted] == [
        ("a", 80),
        ("xxx", 80),
        ("a", 40),
        ("xxx", 40),
    ]


async def test_an_error_in_the_other_thread_is_met_when_the_block_is_printed() -> None:
    made = Ahead()
    made.canvas.broken = True
    made.canvas.may_go_on.set()
    made.ahead.add(notes(BIG))
    made.ahead.step(80)
    await made.until_painted()
    with pytest.raises(ZeroDivisionError):
        made.shown(80)


async def test_who_leaves_sees_what_was_not_yet_painted() -> None:
    made = Ahead()
    made.ahead.add(notes("a", BIG, "b"))
    made.ahead.step(80)
    assert made.shown(80, unpainted=True) == ["a", "xxx", "b"]
    assert made.ahead.is_empty
    made.ahead.stop()
    made.canvas.may_go_on.set()
    await made.until_painted()
    assert not made.ahead.is_ready(80)


async def test_a_repaint_finds_the_text_of_the_last_heavy_blocks() -> None:
    made = Ahead()
    made.canvas.may_go_on.set()
    blocks = notes(*(f"{number} {BIG}" for number in range(KEPT_HEAVY + 1)))
    made.ahead.add(blocks)
    for _ in blocks:
        made.ahead.step(80)
        await made.until_painted()
    assert len(made.shown(80)) == len(blocks)
    made.canvas.painted.clear()
    assert [made.ahead(block, 80) for block in blocks[1:]] == ["1 x", "2 x", "3 x", "4 x"]
    assert made.canvas.painted == []
    assert made.ahead(blocks[0], 80) == "0 x"
    assert made.canvas.painted == [("0 x", 80, True)]


async def test_not_everything_is_painted_before_the_terminal_takes_it() -> None:
    made = Ahead()
    made.ahead.add(notes(*("n" for _ in range(AHEAD_BLOCKS + 5))))
    while made.ahead.has_work:
        made.ahead.step(80)
    assert len(made.shown(80)) == AHEAD_BLOCKS
    made.ahead.step(80)
    assert len(made.shown(80)) == STEP_S * 1000


def called(display: object) -> ToolCall:
    return ToolCall(Call("c", "t", {}), "t", "low", "ok", "", display, 0.1, cached=False, task_id=0)


@pytest.mark.parametrize(
    ("block", "heavy"),
    [
        (Markdown(BIG), True),
        (Markdown("few words"), False),
        (Markdown("```\nx\n", fence=Fence("py", "x", "", "first")), False),
        (Markdown("x\n", fence=Fence("py", "x", BIG, "middle")), True),
        (UserPrompt(BIG, "prompt", 0, 0), True),
        (PlainText(BIG), True),
        (TableBlock((), (("a", "b"),)), False),
        (TableBlock((), (("a", "b"),) * 1000), True),
        (Thought(BIG, 1.0), False),
        (called(Command("make", BIG, 0, "", 1.0)), True),
        (called(Command("make", "ok", 0, "", 1.0)), False),
        (called(Diff((FileDiff("a", "update", BIG, 1, 1),))), True),
        (called(Plain("s", BIG)), True),
        (called(FileList("s", ("a",), 1)), False),
        (Expanded(Thought("t", 1.0)), True),
    ],
)
def test_what_takes_long_is_known_by_its_size(block: Block, heavy: bool) -> None:
    assert is_heavy(block) == heavy


async def test_a_table_of_a_thousand_rows_is_there_once_and_keys_are_typed_meanwhile() -> None:
    async with running_repl(columns=40, rows=12) as stage:
        tape = Tape(at=None)
        table = "| a | b |\n|---|---|\n" + "".join(f"| row{number} | x |\n" for number in range(1000))
        stage.send(tape.turn("go"), tape.reply(), tape.text(f"Before.\n\n{table}\nAfter.\n\n"))
        stage.send(tape.reply_done(), tape.done())
        stage.type("typed")
        await stage.shows("❯ typed")
        await stage.shows("done")
        text = [line.split()[0] for line in stage.terminal.everything() if line.startswith("row")]
        assert text == [f"row{number}" for number in range(1000)]
        said = [line for line in stage.terminal.everything() if line in ("Before.", "After.")]
        assert said == ["Before.", "After."]


async def test_code_in_a_language_that_is_new_is_printed_in_its_place() -> None:
    async with running_repl() as stage:
        tape = Tape(at=None)
        stage.send(tape.turn("go"), tape.reply())
        stage.send(tape.text("One.\n\n```lua\nlocal x = 1\n```\n\nTwo.\n\n```lua\nx = 2\n```\n\n"))
        stage.send(tape.reply_done(), tape.done())
        await stage.shows("done")
        rows = [row for row in stage.terminal.rows() if row]
        assert rows[1:7] == ["One.", "▎ lua", "▎ local x = 1", "Two.", "▎ lua", "▎ x = 2"]
