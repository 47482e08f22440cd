"""The REPL of a dumb terminal, over pipes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import time
from collections.abc import AsyncGenerator, Callable

import pytest
from msgspec.structs import replace

from buddy.agent.display import Diff, FileDiff
from buddy.agent.events import ApprovalRequested, ApprovalResolved, TaskEvent
from buddy.agent.messages import Call
from buddy.repl.intents import ApprovalAnswer, Cancel, Intent, Prompt, ShellLine, Slash
from buddy.repl.plain import LineRepl
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import ASCII, Look
from buddy.repl.view.blocks import NoteBlock, Thought
from buddy.repl.view.state import NO_SESSION, SessionFacts
from tests.support.events_for_tests import Tape


def made(
    stdin: int,
    stdout: int,
    intents: list[Intent],
    encoding: str = "utf-8",
    clock: Callable[[], float] = time.monotonic,
    facts: Callable[[], SessionFacts] = lambda: NO_SESSION,
) -> LineRepl:
    """A line REPL between two descriptors."""
    return LineRepl(
        look=Look("mono", ASCII, ansi=False),
        stdin=stdin,
        stdout=stdout,
        encoding=encoding,
        facts=facts,
        act=intents.append,
        clock=clock,
    )


class Pipes:
    """A line REPL between two pipes. Its clock stands unless a test moves it: what has to come quickly does,
    however slow the machine is."""

    def __init__(self, encoding: str) -> None:
        self.from_us, self.to_us = os.pipe()
        self.from_it, self.to_it = os.pipe()
        os.set_blocking(self.from_it, False)
        self.text = b""
        self.now = 100.0
        self.intents: list[Intent] = []
        self.queue: asyncio.Queue[list[TaskEvent]] = asyncio.Queue()
        self.facts = NO_SESSION
        self.repl = made(self.from_us, self.to_it, self.intents, encoding, self.clock, lambda: self.facts)

    def clock(self) -> float:
        return self.now

    async def events(self) -> AsyncGenerator[list[TaskEvent], None]:
        while True:
            yield await self.queue.get()

    async def until(self, claim: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 50
        while not claim():
            try:
                self.text += os.read(self.from_it, 65536)
            except BlockingIOError:
                await asyncio.sleep(0.003)
            assert time.monotonic() < deadline, (self.text, self.intents)

    def close(self) -> None:
        for fd in (self.from_us, self.from_it, self.to_it):
            os.close(fd)


@contextlib.asynccontextmanager
async def line_repl(encoding: str = "utf-8") -> AsyncGenerator[Pipes]:
    """A line REPL that has shown its prompt; left at the end."""
    pipes = Pipes(encoding)
    running = asyncio.ensure_future(pipes.repl.run(pipes.events()))
    try:
        await pipes.until(lambda: pipes.text == b"> ")
        yield pipes
    finally:
        pipes.repl.end("left")
        await running
        os.close(pipes.to_us)
        pipes.close()


async def test_REL_062_a_dumb_terminal_reads_from_top_to_bottom_and_says_nothing_twice() -> None:
    async with line_repl() as pipes:
        tape = Tape(at=None)
        os.write(pipes.to_us, b"fix it\n")
        await pipes.until(lambda: pipes.intents == [Prompt("fix it")])
        pipes.queue.put_nowait([tape.turn("fix it"), tape.reply(), tape.text("Some **bold** text.\n\n")])
        await pipes.until(lambda: b"bold" in pipes.text)
        await asyncio.sleep(0.3)
        pipes.queue.put_nowait([tape.text("- a\n- b\n"), tape.reply_done(), tape.done()])
        await pipes.until(lambda: pipes.text.endswith(b"done - 3 s\n> "))
        pipes.repl.print(NoteBlock("info", "something from beside"))
        await pipes.until(lambda: pipes.text.endswith(b"beside\n> "))
        os.write(pipes.to_us, b"\n")
        await pipes.until(lambda: pipes.text.endswith(b"> > "))
    assert pipes.text.decode().splitlines() == [
        "> Some bold text.",  # the terminal has shown what was typed behind the prompt, and its end
        "",
        "* a",
        "* b",
        "",
        "done - 3 s",
        "> ",
        "",
        "something from beside",
        "> > ",  # between them the terminal showed Enter
    ]


async def test_a_request_of_any_task_is_announced_in_full_and_a_letter_answers_it() -> None:
    async with line_repl() as pipes:
        two, three = Tape(2, at=None), Tape(3, at=None)
        diff = Diff((FileDiff("a.py", "update", "@@ -1 +1 @@\n" + "+line\n" * 90, 90, 0, ""),))
        call = Call("c2", "edit_file", "{}")
        pipes.queue.put_nowait([two.turn("two"), two.tool("c2", "edit_file a.py")])
        pipes.queue.put_nowait(
            [two.event(ApprovalRequested("q2", call, "medium", "it edits", diff, "", "d2", "edits", 2))]
        )
        pipes.queue.put_nowait([three.turn("three"), three.tool("c3", "rm x"), three.asked("q3", "c3")])
        await pipes.until(lambda: pipes.text.endswith(b"| git push\n> "))
        assert pipes.text.count(b"+line") == 90, "nothing of a request is folded: no key unfolds it here"
        assert (
            b"[waiting for you] request 2 (task 2), medium: edit_file a.py\n"
            b"y = yes, a = this session: edits, n" in pipes.text
        )
        os.write(pipes.to_us, b"y\n")
        await pipes.until(lambda: b"Not answered" in pipes.text)
        pipes.now += 0.35
        os.write(pipes.to_us, b"y\n")
        await pipes.until(lambda: pipes.intents == [ApprovalAnswer("q2", "d2", "once")])
        pipes.queue.put_nowait([two.event(ApprovalResolved("q2", "once", "you"))])
        await pipes.until(lambda: pipes.text.endswith(b"withdraws this\n> "))
        last = pipes.text.decode().rsplit("[waiting for you]", 1)[1]
        assert last == (
            " request 3 (task 3), high: rm x\n"
            "y = yes, a = this session, p = always: git push *, n = no (n WORDS says why); "
            "another line goes to task 3 and withdraws this\n> "
        )


async def test_SEC_040_lines_that_come_at_once_are_one_pasted_text_and_answer_nothing() -> None:
    async with line_repl() as pipes:
        tape = Tape(at=None)
        pipes.queue.put_nowait([tape.turn(), tape.tool(), tape.asked()])
        await pipes.until(lambda: pipes.text.endswith(b"withdraws this\n> "))
        pipes.now += 0.35
        os.write(pipes.to_us, b"y\ny\n")
        await pipes.until(lambda: b"Not answered: pasted" in pipes.text)
        os.write(pipes.to_us, b"look\n")  # a terminal hands over one line at a time, however they came
        os.write(pipes.to_us, b"y\n")
        os.write(pipes.to_us, b"!rm -r x\n")
        await pipes.until(lambda: b"Pasted, 3 lines: Enter sends it" in pipes.text)
        pipes.now += 0.35
        os.write(pipes.to_us, b"\n")
        await pipes.until(lambda: pipes.intents == [Prompt("look\ny\n!rm -r x")])


async def test_SEC_040_no_pasted_command_answers_nor_does_what_a_slow_line_brings_behind_a_paste() -> None:
    async with line_repl() as pipes:
        tape = Tape(at=None)
        pipes.queue.put_nowait([tape.turn(), tape.tool(), tape.asked()])
        await pipes.until(lambda: pipes.text.endswith(b"withdraws this\n> "))
        pipes.now += 0.35
        os.write(pipes.to_us, b"/ok all\n/appr all\n/mode auto\n/trust yes\n/status\n")
        await pipes.until(lambda: pipes.text.count(b"Not answered: pasted") == 4)
        assert pipes.intents == [Slash("/status")]
        pipes.now += 0.4
        os.write(pipes.to_us, b"look\nat this\n")
        await pipes.until(lambda: b"Pasted, 2 lines" in pipes.text)
        pipes.now += 0.35
        os.write(pipes.to_us, b"\n")
        await pipes.until(lambda: pipes.intents[1:] == [Prompt("look\nat this")])
        os.write(pipes.to_us, b"y\n")
        await pipes.until(lambda: pipes.text.count(b"Not answered: pasted") == 5)
        pipes.now += 0.35
        os.write(pipes.to_us, b"y\n")
        await pipes.until(lambda: isinstance(pipes.intents[-1], ApprovalAnswer))


async def test_SEC_039_ok_all_says_no_yes_to_what_came_with_it() -> None:
    async with line_repl() as pipes:
        tape = Tape(at=None)
        pipes.queue.put_nowait([tape.turn(), tape.tool(), tape.asked()])
        await pipes.until(lambda: pipes.text.endswith(b"withdraws this\n> "))
        os.write(pipes.to_us, b"/ok all\n")
        await pipes.until(lambda: b"Not answered: the request came while you typed" in pipes.text)
        assert pipes.intents == []
        pipes.now += 0.35
        os.write(pipes.to_us, b"/ok all\n")
        await pipes.until(lambda: pipes.intents == [Slash("/ok all")])


async def test_commands_that_come_at_once_are_carried_out_one_by_one() -> None:
    async with line_repl() as pipes:
        os.write(pipes.to_us, b"/status\n/cost\n")
        await pipes.until(lambda: pipes.intents == [Slash("/status"), Slash("/cost")])


async def test_a_backslash_goes_on_with_the_next_line_and_a_question_mark_shows_help() -> None:
    async with line_repl() as pipes:
        os.write(pipes.to_us, b"one \\\n")
        await pipes.until(lambda: pipes.repl._continued_lines == ["one "])
        os.write(pipes.to_us, b"two &\n")
        await pipes.until(lambda: pipes.intents == [Prompt("one \ntwo &")])
        pipes.now += 0.35
        os.write(pipes.to_us, b"?\n")
        await pipes.until(lambda: b"background task" in pipes.text)
        assert len(pipes.intents) == 1


async def test_an_interrupt_cancels_what_runs_and_twice_when_idle_leaves() -> None:
    pipes = Pipes("utf-8")
    running = asyncio.ensure_future(pipes.repl.run(pipes.events()))
    await pipes.until(lambda: pipes.text == b"> ")
    tape = Tape(at=None)
    pipes.queue.put_nowait([tape.turn(), tape.reply()])
    await pipes.until(lambda: bool(pipes.repl.state.running()))
    os.kill(os.getpid(), signal.SIGINT)
    await pipes.until(lambda: pipes.intents == [Cancel()])
    pipes.queue.put_nowait([tape.done("cancelled")])
    await pipes.until(lambda: pipes.text.endswith(b"cancelled - 3 s\n> "))
    os.kill(os.getpid(), signal.SIGINT)
    await pipes.until(lambda: pipes.text.endswith(b"Ctrl+C again exits\n> "))
    os.kill(os.getpid(), signal.SIGINT)
    assert await running == "left"
    os.close(pipes.to_us)
    pipes.close()


async def test_an_interrupt_is_for_a_prompt_of_which_no_event_has_told() -> None:
    async with line_repl() as pipes:
        pipes.facts = replace(NO_SESSION, coming=True)
        os.kill(os.getpid(), signal.SIGINT)
        await pipes.until(lambda: pipes.intents == [Cancel()])


async def test_the_end_of_the_input_asks_while_tasks_run() -> None:
    pipes = Pipes("utf-8")
    running = asyncio.ensure_future(pipes.repl.run(pipes.events()))
    await pipes.until(lambda: pipes.text == b"> ")
    pipes.queue.put_nowait([Tape(at=None).turn()])
    await pipes.until(lambda: bool(pipes.repl.state.running()))
    os.close(pipes.to_us)  # a pipe ends for good: the second end comes at once
    assert await running == "left"
    await pipes.until(lambda: b"is running. Ctrl+D again within 10 s ends it and exits." in pipes.text)
    pipes.close()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
async def test_REL_063_what_the_encoding_does_not_hold_is_replaced(encoding: str) -> None:
    async with line_repl(encoding) as pipes:
        tape = Tape(at=None)
        pipes.queue.put_nowait([tape.turn("fix it"), tape.reply(), tape.text("Some **bold** é text.\n")])
        pipes.queue.put_nowait([tape.reply_done(), tape.done()])
        await pipes.until(lambda: pipes.text.endswith(b"done - 3 s\n> "))
        assert b"\x1b" not in pipes.text
        wanted = "Some bold é text." if encoding == "utf-8" else "Some bold ? text."
        assert wanted.encode() in pipes.text
        assert b"> fix it\n" in pipes.text, "a prompt that was not typed here is shown"


async def test_a_terminal_that_was_stopped_holds_up_nothing_but_its_own_output() -> None:
    pipes = Pipes("utf-8")
    master, slave = pty.openpty()
    repl = made(pipes.from_us, slave, pipes.intents)
    running = asyncio.ensure_future(repl.run(pipes.events()))
    await asyncio.sleep(0)
    repl.print(NoteBlock("info", "a line of output\n" * 20_000 + "the last one"))
    os.write(pipes.to_us, b"still heard\n")
    await pipes.until(lambda: pipes.intents == [Prompt("still heard")])
    os.set_blocking(master, False)
    text = b""
    while b"the last one" not in text:
        with contextlib.suppress(BlockingIOError):
            text += os.read(master, 65536)
        await asyncio.sleep(0)
    assert text.count(b"a line of output") == 20_000
    repl.end("left")
    assert await running == "left"
    for fd in (master, slave, pipes.to_us):
        os.close(fd)
    pipes.close()


async def test_an_output_nobody_reads_ends_it() -> None:
    pipes = Pipes("utf-8")
    os.close(pipes.from_it)
    assert await pipes.repl.run(pipes.events()) == "gone"
    pipes.from_it = os.dup(pipes.from_us)
    os.close(pipes.to_us)
    pipes.close()


async def test_an_error_of_the_source_is_raised() -> None:
    async def broken() -> AsyncGenerator[list[TaskEvent], None]:
        yield []
        raise RuntimeError("broken")

    pipes = Pipes("utf-8")
    with pytest.raises(RuntimeError, match="broken"):
        await pipes.repl.run(broken())
    os.close(pipes.to_us)
    pipes.close()


class Typed(Pipes):
    """A line REPL whose input is a terminal."""

    def __init__(self) -> None:
        super().__init__("utf-8")
        os.close(self.from_us)
        os.close(self.to_us)
        self.to_us, self.from_us = pty.openpty()
        self.repl = made(self.from_us, self.to_it, self.intents, "utf-8", self.clock)


async def at_prompt() -> tuple[Typed, asyncio.Future[str]]:
    """A session at its prompt, and how it will end."""
    pipes = Typed()
    running = asyncio.ensure_future(pipes.repl.run(pipes.events()))
    await pipes.until(lambda: pipes.text == b"> ")
    return pipes, running


async def test_what_was_typed_before_ctrl_d_is_kept_and_enter_sends_it() -> None:
    pipes, running = await at_prompt()
    os.write(pipes.to_us, b"half a li\x04")
    await pipes.until(lambda: pipes.repl._unsent() == "half a li")
    os.write(pipes.to_us, b"\x04")
    await pipes.until(
        lambda: pipes.text.endswith(b"not sent: Enter sends it, Ctrl+D again exits\n> half a li")
    )
    os.write(pipes.to_us, b"ne\n")
    await pipes.until(lambda: pipes.intents == [Prompt("half a line")])
    pipes.repl.end("left")
    assert await running == "left"
    assert pipes.text.count(b"not sent") == 1
    os.close(pipes.to_us)
    pipes.close()


async def test_who_leaves_with_a_line_that_was_not_sent_sees_it_once_more() -> None:
    pipes, running = await at_prompt()
    os.write(pipes.to_us, b"begun \\\n")
    await pipes.until(lambda: pipes.repl._unsent() == "begun ")
    os.write(pipes.to_us, b"half\x04")
    await pipes.until(lambda: pipes.repl._unsent() == "begun \nhalf")
    os.write(pipes.to_us, b"\x04")
    await pipes.until(lambda: b"Ctrl+D again exits\n" in pipes.text)
    os.write(pipes.to_us, b"\x04")
    assert await running == "left"
    await pipes.until(lambda: pipes.text.endswith(b"not sent: begun \nhalf\n"))
    assert pipes.intents == []
    os.close(pipes.to_us)
    pipes.close()


async def test_a_pipe_that_ends_within_a_line_says_what_was_not_sent() -> None:
    pipes = Pipes("utf-8")
    os.write(pipes.to_us, b"half a line")
    os.close(pipes.to_us)
    assert await pipes.repl.run(pipes.events()) == "left"
    await pipes.until(lambda: pipes.text.endswith(b"not sent: half a line\n"))
    pipes.close()


async def test_RU_B2_a_pasted_text_that_begins_with_a_bang_runs_only_after_another_enter() -> None:
    async with line_repl() as pipes:
        os.write(pipes.to_us, b"!touch owned\nmore text\n")
        await pipes.until(lambda: b"Pasted, 2 lines: Enter runs it in your shell, Ctrl+C drops" in pipes.text)
        assert pipes.intents == []
        pipes.now += 0.35
        os.write(pipes.to_us, b"\n")
        await pipes.until(lambda: pipes.intents == [ShellLine("touch owned\nmore text", private=False)])


async def test_RU_B2_a_burst_becomes_one_draft_however_slowly_its_lines_come() -> None:
    async with line_repl() as pipes:
        os.write(pipes.to_us, b"one\ntwo\n")
        await pipes.until(lambda: b"Pasted, 2 lines" in pipes.text)
        for number, line in enumerate((b"!touch owned\n", b"/quit\n", b"\n"), 3):
            pipes.now += 0.2
            os.write(pipes.to_us, line)
            await pipes.until(lambda number=number: f"Pasted, {number} lines".encode() in pipes.text)
        assert pipes.intents == []
        pipes.now += 0.35
        os.write(pipes.to_us, b"read this\n")
        await pipes.until(lambda: pipes.intents == [Prompt("one\ntwo\n!touch owned\n/quit\n\nread this")])


async def test_RU_B2_a_bang_right_behind_a_line_does_not_run() -> None:
    async with line_repl() as pipes:
        os.write(pipes.to_us, b"docs:\n")
        await pipes.until(lambda: pipes.intents == [Prompt("docs:")])
        pipes.now += 0.2
        os.write(pipes.to_us, b"!touch owned\n")
        await pipes.until(lambda: b"Pasted, 1 line: Enter runs it in your shell" in pipes.text)
        assert len(pipes.intents) == 1


async def test_RU_B2_ctrl_c_drops_what_was_pasted_and_a_command_leaves_it() -> None:
    async with line_repl() as pipes:
        os.write(pipes.to_us, b"one\ntwo\n")
        await pipes.until(lambda: b"Pasted, 2 lines" in pipes.text)
        pipes.now += 0.35
        os.write(pipes.to_us, b"/status\n")
        await pipes.until(lambda: pipes.intents == [Slash("/status")])
        pipes.repl._interrupt()
        await pipes.until(lambda: b"dropped the pasted text" in pipes.text)
        pipes.now += 0.35
        os.write(pipes.to_us, b"three\n")
        await pipes.until(lambda: pipes.intents[1:] == [Prompt("three")])


async def test_RU_B18_no_key_is_named_where_none_works() -> None:
    look = Look("mono", ASCII, ansi=False, unfold="/more")
    assert Painter(look).ansi(Thought("why\nnot", 2.0), 80) == "- thought for 2 s (/more)\n"
