"""Key to echo while litellm is imported in its thread, which the first prompt begins: the real program on a
pty, keys at a typist's pace.

    python -m tests.bench.import_echo [--rounds 3] [--gap 0.02]

Only keys that are typed between the beginning and the end of the import count, and only those count for the
limit during which the host of a virtual machine took no core away (`standstill`). Prints one JSON line; exits
1 when the slowest twentieth of them takes longer than 25 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import select
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.bench.standstill import taken
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import Terminal

P95_MS = 25.0
KEYS = [chr(code) for code in (*range(0x410, 0x450), *range(0x48A, 0x500))]
CHILD = """
import os, sys, time
from buddy.llm.litellm_lane.loader import LitellmLibrary

def timed(self, _import=LitellmLibrary._import):
    with open(os.environ["BENCH_OUT"], "a") as file:
        print(time.monotonic(), file=file, flush=True)
        module = _import(self)
        print(time.monotonic(), file=file, flush=True)
    return module

LitellmLibrary._import = timed
from buddy.__main__ import main
sys.exit(main())
"""


class Key(NamedTuple):
    """A key: when it was typed, how long its echo took, and how much of that the host took at most."""

    at: float
    ms: float
    stolen_ms: float


async def one(folder: Path, gap_s: float) -> tuple[list[Key], float]:
    """Every key typed during the import, and the seconds it took."""
    times = folder / "times"
    async with FakeLLM(lambda _asked: reply("hello")) as server:
        program = Program(folder, server.url, lane="litellm-chat", environment={"BENCH_OUT": str(times)})
        program.files(main__py="print(1)\n")
        terminal = Terminal(program, (sys.executable, "-c", CHILD, "hi"), columns=120, rows=40)
        try:
            await terminal.until(times.exists, "the beginning of the import")
            asyncio.get_running_loop().remove_reader(terminal.master)  # its screen model would take our time
            typed = await asyncio.to_thread(_typed, terminal, times, gap_s)
        finally:
            terminal.close()
    begin, end = map(float, times.read_text().split())
    return [key for key in typed if begin <= key.at <= end], end - begin


def _typed(terminal: Terminal, times: Path, gap_s: float) -> list[Key]:
    """Keys until the import is over."""
    found: list[Key] = []
    number, master = 0, terminal.master
    while times.read_text().count("\n") < 2:
        key = KEYS[number % len(KEYS)].encode()
        number += 1
        before, at = taken(), time.monotonic()
        os.write(master, key)
        seen = b""
        while key not in seen and select.select([master], [], [], 5)[0]:
            seen += os.read(master, 65536)
        ms = (time.monotonic() - at) * 1000
        found.append(Key(at, ms, taken().since(before).host))
        _drained(master, gap_s)
        if number % len(KEYS) == 0:
            os.write(master, b"\x15")
            _drained(master, 0.2)
    return found


def _drained(master: int, seconds: float) -> None:
    """Wait, reading what else is drawn."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([master], [], [], left)[0]:
            os.read(master, 65536)


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gap", type=float, default=0.02)
    given = parser.parse_args()
    everything: list[Key] = []
    imports: list[float] = []
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory(prefix="import-") as folder:
            found, took = asyncio.run(one(Path(folder), given.gap))
        everything += found
        imports.append(took)
    every = sorted(key.ms for key in everything)
    own = sorted(key.ms for key in everything if not key.stolen_ms)
    p95 = own[int(len(own) * 0.95)]
    said = {
        "keys": len(every),
        "p50_ms": round(statistics.median(every), 1),
        "p95_ms": round(every[int(len(every) * 0.95)], 1),
        "max_ms": round(every[-1], 1),
        "undisturbed": {"keys": len(own), "p95_ms": round(p95, 1), "max_ms": round(own[-1], 1)},
        "import_s": [round(took, 2) for took in imports],
    }
    sys.stdout.write(json.dumps(said) + "\n")
    return 1 if p95 > P95_MS else 0


if __name__ == "__main__":
    sys.exit(main())
