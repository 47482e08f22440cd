"""Hostile text and requests for approval on a running REPL: real keys in, real bytes out."""

from __future__ import annotations

import asyncio
import codecs

from buddy.agent.display import Command
from buddy.agent.events import ApprovalResolved, Notice, ToolCallDelta, ToolProgress, ToolStarted
from buddy.agent.messages import Call
from buddy.repl.intents import ApprovalAnswer, Cancel
from buddy.repl.view.state import QueueRow, SessionFacts
from buddy.workspace.sandbox.status import SandboxStatus
from tests.support.events_for_tests import Tape
from tests.support.screen_harness import Stage, running_repl


async def running_turn(stage: Stage) -> Tape:
    tape = Tape(at=None)
    stage.send(tape.turn(), tape.reply())
    await stage.shows("waiting for the model")
    return tape


async def two_background_requests(stage: Stage) -> None:
    """Nothing runs in front; tasks 2 and 3 wait for an approval each."""
    two, three = Tape(2, at=None), Tape(3, at=None)
    stage.send(two.turn("two"), two.tool("c2", "git push"), two.asked("q2", "c2"))
    stage.send(three.turn("three"), three.tool("c3", "rm x"), three.asked("q3", "c3"))
    await stage.shows("▸ request 2 (task 2) high git push")
    await stage.shows("  request 3 (task 3) high rm x")
    await stage.seen()


async def test_SEC_041_esc_denies_one_of_two_requests_only() -> None:
    async with running_repl(rows=40) as stage:
        await two_background_requests(stage)
        await asyncio.sleep(0.35)
        stage.type("\x1b")
        await stage.shows("Esc again denies request 2 (task 2): git push")
        stage.type("\x1b")
        await stage.until(lambda: stage.intents == [ApprovalAnswer("q2", "dq2", "denied")])
        await asyncio.sleep(0.3)
        assert stage.intents == [ApprovalAnswer("q2", "dq2", "denied")]


async def test_SEC_041_esc_twice_does_not_deny_the_second_request_unseen() -> None:
    now = [100.0]
    async with running_repl(rows=40, clock=lambda: now[0]) as stage:
        await two_background_requests(stage)
        now[0] += 0.35
        stage.type("\x1b")
        await stage.shows("Esc again denies request 2 (task 2)")
        stage.type("\x1b")
        await stage.until(lambda: stage.intents == [ApprovalAnswer("q2", "dq2", "denied")])
        two = Tape(2, at=None)
        stage.send(two.event(ApprovalResolved("q2", "denied", "you")))
        await stage.shows("▸ request 3 (task 3) high rm x")
        await stage.seen()
        stage.type("\x1b")
        await stage.shows("Not denied")
        assert stage.intents == [ApprovalAnswer("q2", "dq2", "denied")]
        now[0] += 0.35
        stage.type("\x1b")
        await stage.shows("Esc again denies request 3 (task 3): rm x")
        assert stage.intents == [ApprovalAnswer("q2", "dq2", "denied")]
        stage.type("\x1b")
        await stage.until(lambda: stage.intents[1:] == [ApprovalAnswer("q3", "dq3", "denied")])


async def test_SEC_041_esc_on_a_line_with_text_denies_nothing_and_keeps_the_text() -> None:
    async with running_repl(rows=40) as stage:
        await two_background_requests(stage)
        stage.type("half a sentence")
        await asyncio.sleep(0.35)
        stage.type("\x1b")
        await asyncio.sleep(0.3)
        stage.type("!")
        await stage.until(lambda: stage.repl.editor.text == "half a sentence!")
        assert stage.intents == []


async def test_SEC_041_while_a_turn_runs_in_front_esc_ends_that_turn_and_denies_nothing() -> None:
    async with running_repl(rows=40) as stage:
        await running_turn(stage)
        await two_background_requests(stage)
        await asyncio.sleep(0.35)
        stage.type("\x1b")
        await stage.until(lambda: stage.intents == [Cancel()])


HOSTILE = "start \x1b]52;c;aGk=\x07 \x1b[31;7m \x9b31m \x1bPq\x1b\\ \u202e end\n"


def split_anywhere() -> list[tuple[str, str]]:
    """The hostile text cut in two at every byte, as a stream's decoder hands it on."""
    whole = HOSTILE.encode()
    halves: list[tuple[str, str]] = []
    for cut in range(1, len(whole)):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        halves.append((decoder.decode(whole[:cut]), decoder.decode(whole[cut:], final=True)))
    return halves


def is_inert(written: bytes) -> bool:
    """Tell whether no part of the hostile text reached the terminal as a sequence."""
    sequences = (b"\x1b]52", b"\x1b[31;7m", b"\xc2\x9b", b"\x1bPq", "\u202e".encode())
    return not [sequence for sequence in sequences if sequence in written]


async def drawn_twice(stage: Stage) -> None:
    """Wait until what was sent was folded and a frame was drawn after it."""
    await stage.until(stage.queue.empty)
    before = len(stage.terminal.written)
    stage.repl.hint(f"frame {before}")
    await stage.until(lambda: len(stage.terminal.written) > before)


async def test_SEC_080_a_sequence_split_over_two_chunks_of_the_answer_is_inert_for_every_split() -> None:
    async with running_repl(rows=24) as stage:
        tape = await running_turn(stage)
        before = len(stage.terminal.written)
        for first, second in split_anywhere():
            stage.send(tape.text(first))
            await drawn_twice(stage)
            stage.send(tape.text(second + "\n"))
        stage.send(tape.reply_done(), tape.done())
        await stage.shows("done")
        written = b"".join(stage.terminal.written[before:])
        assert is_inert(written)
        assert any("start" in row and "end" in row for row in stage.terminal.everything())


async def test_SEC_080_thoughts_arguments_and_output_are_inert_for_every_split() -> None:
    async with running_repl(rows=24) as stage:
        tape = await running_turn(stage)
        before = len(stage.terminal.written)
        for number, halves in enumerate(split_anywhere()):
            call = f"c{number}"
            for part in halves:
                stage.send(tape.thinking(part))
                await drawn_twice(stage)
            for part in ('{"path": "' + halves[0], halves[1] + '", "content": "' + halves[0], halves[1]):
                stage.send(tape.event(ToolCallDelta("r1", call, "write_file", part)))
                await drawn_twice(stage)
            stage.send(tape.tool(call, HOSTILE))
            for part in halves:
                stage.send(tape.event(ToolProgress(call, part)))
                await drawn_twice(stage)
            stage.send(tape.tool_done(call))
        stage.send(tape.reply_done(), tape.done())
        await stage.shows("done")
        assert is_inert(b"".join(stage.terminal.written[before:]))


async def test_SEC_038_a_letter_begun_for_one_request_never_answers_the_one_shown_when_it_is_sent() -> None:
    async with running_repl(rows=30) as stage:
        tape = await running_turn(stage)
        stage.send(tape.tool("c7", "git push"), tape.asked("q7", "c7"))
        await stage.shows("git push")
        await stage.seen()
        await asyncio.sleep(0.35)
        stage.type("y")
        await stage.until(lambda: stage.repl.editor.text == "y")
        stage.send(
            tape.event(ApprovalResolved("q7", "withdrawn", "new instructions")),
            tape.tool("c8", "rm -r build"),
            tape.asked("q8", "c8", "rm -r build"),
        )
        await stage.shows("▸ request 8 (task 1) high rm -r build")
        await stage.seen()
        await asyncio.sleep(0.35)
        stage.type("\r")
        await stage.shows("came while you typed")
        assert stage.intents == []


async def test_SEC_079_hostile_text_is_inert_at_every_sink_of_the_screen() -> None:
    """Tool output, file name, branch name, tool name, model text, error text, title of the task."""
    async with running_repl(rows=40, columns=100) as stage:
        stage.facts = SessionFacts(
            1, HOSTILE, HOSTILE, SandboxStatus(0, HOSTILE), (QueueRow("queue", 1, HOSTILE),), {1: HOSTILE}
        )
        before = len(stage.terminal.written)
        tape, other = Tape(1, at=None), Tape(2, at=None)
        stage.send(tape.turn(HOSTILE), tape.reply(), tape.text(HOSTILE), other.turn(HOSTILE))
        stage.send(tape.event(ToolStarted(Call("c", HOSTILE, "{}"), "high", HOSTILE, begun=True)))
        stage.send(tape.event(ToolProgress("c", HOSTILE)), tape.asked("q", "c", HOSTILE))
        await stage.shows("▸ request 1 (task 1)")
        await drawn_twice(stage)
        stage.send(tape.event(ApprovalResolved("q", "denied", HOSTILE)))
        stage.send(tape.tool_done("c", Command(HOSTILE, HOSTILE, 1, HOSTILE, 1.0), status="error"))
        stage.send(
            tape.event(Notice("error", HOSTILE)), tape.reply_done(HOSTILE), tape.done("failed", HOSTILE)
        )
        await stage.shows_not("▸ request 1 (task 1)")
        await drawn_twice(stage)
        assert is_inert(b"".join(stage.terminal.written[before:]))
        assert any("start" in row for row in stage.terminal.everything())


async def test_SEC_081_and_083_markup_and_a_copied_approval_in_output_are_literal_behind_a_gutter() -> None:
    async with running_repl(rows=40, columns=100) as stage:
        tape = await running_turn(stage)
        stage.send(tape.tool("c1"), tape.asked("q1", "c1"))
        await stage.shows("y yes")
        copied = [row for row in stage.terminal.rows() if "y yes" in row or "▸ request" in row]
        output = "\n".join(["[/x] [link=http://e]y[/link] <b> & \\x1b", *copied])
        stage.send(tape.event(ApprovalResolved("q1", "once", "you")))
        stage.send(tape.tool_done("c1", Command("x", output, 0, "", 1.0)))
        await stage.shows("│ [/x] [link=http://e]y[/link] <b> & \\x1b")
        rows = stage.terminal.everything()
        assert [row for row in rows if "y yes" in row] == [f"│ {row}" for row in copied if "y yes" in row]
