"""The REPL of a dumb terminal, over pipes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable

import pytest

from buddy.agent.events import TaskEvent
from buddy.repl.intents import Answer, Intent, Prompt, Slash
from buddy.repl.line_mode import LineRepl
from buddy.repl.style import choose_look
from buddy.repl.view_state import NO_DESK
from tests.repl.events_for_tests import Tape


class Pipes:
    """A line REPL between two pipes."""

    def __init__(self, encoding: str) -> None:
        self.from_us, self.to_us = os.pipe()
        self.from_it, self.to_it = os.pipe()
        os.set_blocking(self.from_it, False)
        self.text = b""
        self.intents: list[Intent] = []
        self.queue: asyncio.Queue[list[TaskEvent]] = asyncio.Queue()
        look = choose_look(
            environ={"TERM": "dumb"}, color="auto", theme="default", encoding=encoding, is_terminal=True
        )
        self.repl = LineRepl(
            look=look,
            stdin=self.from_us,
            stdout=self.to_it,
            encoding=encoding,
            desk=lambda: NO_DESK,
            act=self.intents.append,
            clock=time.monotonic,
        )

    async def events(self) -> AsyncGenerator[list[TaskEvent], None]:
        while True:
            yield await self.queue.get()

    async def until(self, claim: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 8
        while not claim():
            try:
                self.text += os.read(self.from_it, 65536)
            except BlockingIOError:
                await asyncio.sleep(0.003)
            assert time.monotonic() < deadline, (self.text, self.intents)

    def close(self) -> None:
        for fd in (self.from_us, self.from_it, self.to_it):
            os.close(fd)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
async def test_REL_062_a_dumb_terminal_gets_plain_lines(encoding: str) -> None:
    pipes = Pipes(encoding)
    running = asyncio.ensure_future(pipes.repl.run(pipes.events()))
    tape = Tape(at=None)
    os.write(pipes.to_us, b"fix \xc3\xa9 it\n")
    await pipes.until(lambda: len(pipes.intents) == 1)
    assert isinstance(pipes.intents[0], Prompt)
    pipes.queue.put_nowait(
        [tape.turn("fix it"), tape.reply(), tape.text("Some **bold** é text.\n\n- a\n- b\n")]
    )
    pipes.queue.put_nowait([tape.reply_done(), tape.tool(), tape.asked()])
    await pipes.until(lambda: b"[waiting for you]" in pipes.text)
    os.write(pipes.to_us, b"y\n")
    await pipes.until(lambda: b"not answered" in pipes.text)
    await asyncio.sleep(0.35)
    os.write(pipes.to_us, b"y\ny\n")
    await pipes.until(lambda: pipes.text.count(b"not answered") == 3)
    os.write(pipes.to_us, b"y\n")
    await pipes.until(lambda: pipes.intents[1:] == [Answer("q1", "dq1", "once")])
    os.write(pipes.to_us, b"/quit\n")
    await pipes.until(lambda: pipes.intents[2:] == [Slash("/quit")])
    os.close(pipes.to_us)
    assert await running == "left"
    assert b"\x1b" not in pipes.text
    wanted = "Some bold é text." if encoding == "utf-8" else "Some bold ? text."
    assert wanted.encode() in pipes.text
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
