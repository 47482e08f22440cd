"""Esc to a dead tool tree and Esc to a closed stream: the real program on a pty, a new one for every round.

    python -m tests.bench.cancel_latency [--rounds 50] [--only tool|stream]

Ends of processes come from the kernel (pidfd), ends of streams from the server. What is `taken` is
what the machine kept from the programs meanwhile (`standstill`). Prints a line for every round over its limit
and one JSON line for each kind; exits 1 when a round is over its limit without what was taken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import select
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.bench.standstill import Taken, taken
from tests.fake_llm.script import Stall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import Terminal, on_terminal

ESC = b"\x1b"
COMMAND = "(sleep 60; true) & sleep 60; true"
SLEEPERS = 2
LIMIT_MS = {"tool": 30.0, "stream": 20.0}


class Round(NamedTuple):
    """One Esc: milliseconds until the end, and what the machine took of them."""

    ms: float
    taken: Taken

    @property
    def own_ms(self) -> float:
        """Without what was taken."""
        return max(self.ms - self.taken.host - self.taken.core, 0)


def tree(pid: int) -> list[int]:
    """All descendants of a process."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for path in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            children = [int(word) for word in text_of(path).split()]
            found += children
            waiting += children
    return found


def is_asleep(pid: int) -> bool:
    """Tell whether a process is one of the command's sleepers."""
    return text_of(Path(f"/proc/{pid}/cmdline")) == "sleep\x0060\x00"


def text_of(path: Path) -> str:
    """Return the system's line about a process, "" when it has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def tool(folder: Path) -> Round:
    """Esc while a command with children of its own runs."""
    async with (
        FakeLLM([reply(call("run_shell", command=COMMAND)), reply("never")]) as server,
        on_terminal(program(folder, server), "--permission-mode", "yolo", "--trust") as terminal,
    ):
        await terminal.line("go")
        pid = terminal.process.pid
        await terminal.until(lambda: sum(map(is_asleep, tree(pid))) == SLEEPERS, "the command runs")
        await quiet(terminal)
        ends = {os.pidfd_open(one) for one in tree(pid)}
        watch = select.poll()
        for end in ends:
            watch.register(end, select.POLLIN)
        before, at = taken(), time.monotonic()
        os.write(terminal.master, ESC)
        while ends:
            for end, _event in watch.poll(10_000):
                watch.unregister(end)
                os.close(end)
                ends.discard(end)
        return Round((time.monotonic() - at) * 1000, taken().since(before))


async def stream(folder: Path) -> Round:
    """Esc while a reply has come to a halt."""
    async with (
        FakeLLM([reply("alpha beta gamma delta " * 20, fault=Stall(after=20))]) as server,
        on_terminal(program(folder, server)) as terminal,
    ):
        await terminal.line("go")
        await terminal.shows("beta")
        await quiet(terminal)
        before, at = taken(), time.monotonic()
        os.write(terminal.master, ESC)
        asked = (await server.ended(1))[0]
        assert asked.ended_at is not None
        return Round((asked.ended_at - at) * 1000, taken().since(before))


def program(folder: Path, server: FakeLLM) -> Program:
    """A repository with one file."""
    made = Program(folder, server.url)
    made.files(main__py="print(1)\n")
    return made


async def quiet(terminal: Terminal) -> None:
    """Some time, which differs from round to round; then our own screen model takes none any more."""
    await asyncio.sleep(random.uniform(0.5, 1.0))
    asyncio.get_running_loop().remove_reader(terminal.master)


def measure(kind: str, count: int) -> bool:
    """Play the rounds of a kind, say what came out. Whether all were in time."""
    limit, found = LIMIT_MS[kind], list[Round]()
    for number in range(count):
        with tempfile.TemporaryDirectory(prefix="cancel-") as folder:
            one = asyncio.run((tool if kind == "tool" else stream)(Path(folder)))
        found.append(one)
        if one.ms > limit:
            sys.stdout.write(
                f"{kind} {number}: {one.ms:.1f} ms, taken: {one.taken.host:.0f} + {one.taken.core:.0f}\n"
            )
            sys.stdout.flush()
    late = sum(one.ms > limit for one in found)
    ours = sum(one.own_ms > limit for one in found)
    said = {
        "kind": kind,
        "rounds": count,
        "p50_ms": round(statistics.median(one.ms for one in found), 1),
        "max_ms": round(max(one.ms for one in found), 1),
        "late": late,
        "late_without_taken": ours,
        "max_own_ms": round(max(one.own_ms for one in found), 1),
    }
    sys.stdout.write(json.dumps(said) + "\n")
    return ours == 0


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--only", choices=sorted(LIMIT_MS), default="")
    given = parser.parse_args()
    kinds = [given.only] if given.only else list(LIMIT_MS)
    in_time = [measure(kind, given.rounds) for kind in kinds]
    return 0 if all(in_time) else 1


if __name__ == "__main__":
    sys.exit(main())
