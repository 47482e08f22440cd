"""One life of the program on a terminal, ended by signals at some moment; what has to hold afterwards."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import Terminal

EXIT_S = 50.0
SIGNALS: dict[str, tuple[signal.Signals, int]] = {
    "INT": (signal.SIGINT, 1),
    "INT x2": (signal.SIGINT, 2),
    "INT x100": (signal.SIGINT, 100),
    "TERM": (signal.SIGTERM, 1),
    "HUP": (signal.SIGHUP, 1),
    "QUIT": (signal.SIGQUIT, 1),
}
SCENES = ("stream", "tool", "approval")
LATEST_S = 3.0
_STREAM = "".join(f"Line {number} of what **is** streamed.\n\n" for number in range(3000))


@dataclass(frozen=True)
class Round:
    """A signal, its moment, and the activity it interrupts."""

    number: int
    signals: str
    scene: str
    at_s: float


@dataclass(frozen=True)
class Ended:
    """The end of a round. `had_begun`: the screen was there when the signal came."""

    code: int
    took_s: float
    had_begun: bool
    resumed: bool


def rounds(count: int, seed: int) -> list[Round]:
    """Rounds in a random, repeatable order: every signal as often as every other."""
    source = random.Random(seed)
    names = [name for _ in range(count // len(SIGNALS) + 1) for name in SIGNALS][:count]
    return [
        Round(number, name, source.choice(SCENES), round(source.uniform(0, LATEST_S), 3))
        for number, name in enumerate(names)
    ]


def model(asked: Asked) -> Reply:
    """Plays the scene the prompt names."""
    if "more" in asked.last_user_text:
        return reply("resumed")
    if "stream" in asked.last_user_text:
        return reply(_STREAM, chars=24, delay_s=0.01)
    if not asked.tool_results:
        return reply("I look.", call("run_shell", command="seq 30; sleep 77.7"))
    return reply("done")


async def one(folder: Path, what: Round) -> Ended:
    """Play a round. Raises `AssertionError` that names it."""
    async with FakeLLM(model) as server:
        program = Program(folder, server.url, environment={"PYTHONFAULTHANDLER": "1"})
        program.files(main__py="print(1)\n")
        mode = "ask" if what.scene == "approval" else "yolo"
        command = (sys.executable, "-m", "buddy", "--permission-mode", mode, "--i-know", what.scene)
        terminal = Terminal(program, command, columns=100, rows=30)
        try:
            return await _played(program, terminal, what)
        except AssertionError as error:
            tail = terminal.output[-3500:].decode("utf-8", "replace")
            raise AssertionError(f"{what}: {error}\n{tail!r}") from error
        finally:
            terminal.close()


async def _played(program: Program, terminal: Terminal, what: Round) -> Ended:
    await asyncio.sleep(what.at_s)
    had_begun = b"\x1b[?2004h" in terminal.output
    number, times = SIGNALS[what.signals]
    for _ in range(times):
        if terminal.process.poll() is None:
            os.kill(terminal.process.pid, number)
        await asyncio.sleep(0.001)
    sent_at = time.monotonic()
    if number == signal.SIGINT:
        sent_at = await _left(terminal)
    if not await _soon(lambda: terminal.process.poll() is not None, EXIT_S):
        terminal.process.send_signal(signal.SIGABRT)  # Python says where it is
        await asyncio.sleep(0.5)
        raise AssertionError("it did not end")
    took_s = time.monotonic() - sent_at
    await asyncio.sleep(0.05)
    assert terminal.is_restored(), "the line discipline is another one"
    for mode, wanted in ((b"2004", b"l"), (b"25", b"h"), (b"7", b"h"), (b"2026", b"l")):
        switches = re.findall(rb"\x1b\[\?" + mode + rb"([hl])", terminal.output)
        assert not switches or switches[-1] == wanted, f"mode {mode!r} was left on"
    if had_begun:
        assert b"Traceback" not in terminal.output, "a traceback"
    assert not running(program), "something still runs"
    return Ended(terminal.process.returncode, took_s, had_begun, await _resumed(program))


async def _left(terminal: Terminal) -> float:
    """An interrupt is a key where there is a screen, and ends what runs; then a person leaves. Returns when
    leaving was asked for last."""
    asked_at = time.monotonic()

    def gone() -> bool:
        return terminal.process.poll() is not None

    for _ in range(6):
        if await _soon(gone, 0.8):
            break
        asked_at = time.monotonic()
        terminal.keys("\x15\x04")  # what was not a turn yet is back in the line
    return asked_at


async def _soon(claim: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not claim() and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return claim()


def running(program: Program) -> list[str]:
    """Processes that were started in this home and still run."""
    mark = f"HOME={program.home}".encode()
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


async def _resumed(program: Program) -> bool:
    """Every journal reads, is legal, and its session goes on. Whether there was one."""
    for name in program.sessions():
        await program.history(name)
    if not program.sessions():
        return False
    ran = await program.run("exec", "--continue", "more", "--permission-mode", "yolo", "--i-know")
    assert (ran.code, ran.out) == (0, "resumed\n"), f"not resumed: {ran}"
    return True
