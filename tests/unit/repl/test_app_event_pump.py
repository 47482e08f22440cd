"""Events are folded a little at a time: keys have their turn, and the screen shows what it would have
shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import count

import pytest
from msgspec.structs import replace

from buddy.agent import events as ev
from buddy.repl.app import SLICE_CHARS, EventPump, slices
from buddy.repl.render.markdown import ABSORBED_CHARS, MarkdownStream
from buddy.repl.view.blocks import Block, TurnSummary
from buddy.repl.view.state import NO_SESSION, Calling, ThinkingPhase, ViewState
from buddy.repl.view.view import fold
from tests.support.events_for_tests import Tape

LINES = "".join(f"- item {n} \x1b[1mwith\x1b[0m é e\u0301 and a `sign`\r\n  more\n\n" for n in range(2000))


async def once(*batches: list[ev.TaskEvent]) -> AsyncIterator[list[ev.TaskEvent]]:
    for batch in batches:
        yield batch


def state_of_one() -> ViewState:
    state = ViewState()
    state.facts = NO_SESSION
    return state


async def test_a_long_piece_of_an_answer_is_folded_in_turns_with_everything_else() -> None:
    tape = Tape()
    batch = [tape.turn(), tape.reply(), tape.text(LINES), tape.reply_done(LINES)]
    whole, together = state_of_one(), list[Block]()
    for event in batch:
        together += fold(whole, event)
    state, shown, turns = state_of_one(), list[Block](), 0
    ticks = count()

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    asyncio.get_running_loop().call_soon(turn)
    await EventPump(state, lambda: NO_SESSION, shown.extend, lambda: float(next(ticks))).run(once(batch))

    assert shown == together
    assert turns >= len(LINES) // SLICE_CHARS


async def test_what_takes_no_time_is_folded_at_once_and_printed_together() -> None:
    tape = Tape()
    shown: list[list[Block]] = []
    batch = [
        tape.turn(),
        tape.reply(),
        *(tape.text(f"word {n}\n\n") for n in range(500)),
        tape.reply_done(""),
    ]

    await EventPump(state_of_one(), lambda: NO_SESSION, shown.append, lambda: 0.0).run(
        once(batch, [tape.turn("again")])
    )

    assert [len(blocks) for blocks in shown] == [501, 1]


async def test_a_turn_over_before_the_next_frame_is_told_by_its_name() -> None:
    tape = Tape(task_id=2)
    shown: list[Block] = []
    facts = replace(NO_SESSION, names={2: "go wrong"})

    await EventPump(state_of_one(), lambda: facts, shown.extend).run(
        once([tape.turn("go wrong"), tape.done("failed", "broken")])
    )

    assert [block.name for block in shown if isinstance(block, TurnSummary)] == ["go wrong"]


async def test_what_has_come_is_folded_to_the_end_when_the_screen_is_left() -> None:
    tape = Tape()
    ticks = count()
    shown: list[Block] = []
    folding = EventPump(state_of_one(), lambda: NO_SESSION, shown.extend, lambda: float(next(ticks)))
    running = asyncio.ensure_future(folding.run(once([tape.turn(), tape.reply(), tape.text(LINES)])))
    while not shown:
        await asyncio.sleep(0)
    assert not running.done()

    folding.step()
    await running

    expected = MarkdownStream()
    expected.feed(LINES)
    assert shown[1:] == expected.take()


@pytest.mark.parametrize("size", [0, 1, SLICE_CHARS, SLICE_CHARS + 1, 5 * SLICE_CHARS])
def test_slices_add_up_to_the_event(size: int) -> None:
    tape = Tape()
    text = ("abcdefg" * size)[:size]
    for event in (ev.TextDelta("r", 2, text), ev.ThinkingDelta("r", 2, text)):
        parts = [part.event for part in slices(tape.event(event))]
        assert all(isinstance(part, type(event)) and len(part.text) <= SLICE_CHARS for part in parts)
        assert "".join(part.text for part in parts if isinstance(part, type(event))) == text
    call = [part.event for part in slices(tape.event(ev.ToolCallDelta("r", "c", "write_file", text)))]
    assert "".join(part.arguments for part in call if isinstance(part, ev.ToolCallDelta)) == text


def test_long_thoughts_and_arguments_show_the_same_in_slices() -> None:
    arguments = json.dumps({"path": "a.py", "content": LINES})
    for event in (ev.ThinkingDelta("r1", 0, LINES), ev.ToolCallDelta("r1", "c1", "write_file", arguments)):
        tape = Tape()
        whole, sliced = state_of_one(), state_of_one()
        before = [tape.turn(), tape.reply()]
        told = tape.event(event)
        for one in (*before, told):
            fold(whole, one)
        for one in (*before, *slices(told)):
            fold(sliced, one)
        match whole.task(1).phase, sliced.task(1).phase:
            case ThinkingPhase() as one, ThinkingPhase() as other:
                assert (one.chars, one.text, one.since) == (other.chars, other.text, other.since)
            case Calling() as one, Calling() as other:
                first, second = one.so_far, other.so_far
                assert (first.path, first.lines(), first.end()) == (second.path, second.lines(), second.end())
                assert one.name == other.name
            case phases:
                pytest.fail(f"unexpected {phases}")


def test_a_line_without_an_end_is_the_same_however_much_of_it_was_cleaned_before() -> None:
    line = "é e\u0301\t漢字 \x1b[1mbold\x1b[0m " * ABSORBED_CHARS
    whole, sliced = MarkdownStream(), MarkdownStream()
    whole.feed(line + "\n")
    for at in range(0, len(line), SLICE_CHARS):
        sliced.feed(line[at : at + SLICE_CHARS])
    sliced.feed("\n")
    assert sliced.tail == whole.tail
    assert sliced.finish() == whole.finish()
