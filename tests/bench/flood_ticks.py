"""The real program under commands that flood, and a person who types: how long a key takes to show, how long
the loop is busy without a look at the keys, how much memory is added.

    python -m tests.bench.flood_ticks [NAME…]

Prints a line for each flood whose name contains one of the words: growth in MB, milliseconds to echo (median,
95 of 100, slowest), the longest stretches of the loop in milliseconds on a core, and what the machine took
meanwhile (`standstill`). REL-045 asks for less than 20 MB and 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from pathlib import Path

from tests.bench.standstill import taken
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.loop_watch import LoopWatch
from tests.support.program import YOLO, Program
from tests.support.terminal import on_terminal
from tests.support.typist import Typist, resident_kb

SECONDS = 15
FLOODS = {
    "10 MB": "head -c 10000000 /dev/zero | tr '\\0' x",
    "1 GB in one line": "head -c 1G /dev/zero | tr '\\0' x",
    "endless lines": "yes 'a line of output that never ends'",
    "endless empty lines": "yes ''",
    "endless bytes of any kind": "cat /dev/urandom",
    "endless single bytes": "python3 -c 'import os\nwhile True: os.write(1, b\"x\")'",
    "endless names of secrets": "yes 'API_KEY=abc password: secret token=1234abcd'",
}


async def one(name: str, command: str) -> None:
    """One flood, until the command ends or the time is over."""

    def model(asked: Asked) -> Reply:
        if len(asked.tool_results) == 0:
            return reply("First.", call("run_shell", command="echo warm"))
        if asked.last_user_text == "go on" and len(asked.tool_results) == 1:
            return reply("I run it.", call("run_shell", command=command))
        return reply("That is all.")

    with tempfile.TemporaryDirectory() as folder:
        watch = LoopWatch(Path(folder))
        async with FakeLLM(model) as server:
            program = Program(Path(folder), server.url)
            program.files(main__py="print(1)\n")
            async with on_terminal(program, *YOLO, command=watch.program) as terminal:
                await terminal.line("go first")
                await terminal.has_shown("That is all.")
                begun_kb = resident_kb(terminal.process.pid)
                await terminal.line("go on")
                await terminal.has_shown("I run it.")
                watch.begin()
                before, typist = taken(), Typist(terminal)
                end = asyncio.get_running_loop().time() + SECONDS
                while asyncio.get_running_loop().time() < end and len(server.requests[-1].tool_results) < 2:
                    await typist.key()
                    await asyncio.sleep(0.01)
                took = taken().since(before)
                keys = sorted(seconds * 1000 for seconds in typist.seconds)
                grown = (typist.peak_kb - begun_kb) / 1000
                echo = (statistics.median(keys), keys[int(len(keys) * 0.95)], keys[-1])
                stretches = ", ".join(f"{ms:.1f}" for ms in watch.stretches_ms()[:5])
                sys.stdout.write(
                    f"{name:28} +{grown:4.1f} MB  echo {echo[0]:5.1f} {echo[1]:5.1f} {echo[2]:6.1f} ms"
                    f"  loop {stretches} ms  taken {took.host:.0f} + {took.core:.0f} ms\n"
                )
                sys.stdout.flush()


async def main() -> None:
    """The floods that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    wanted = parser.parse_args().names
    for name, command in FLOODS.items():
        if not wanted or any(word in name for word in wanted):
            await one(name, command)


if __name__ == "__main__":
    asyncio.run(main())
