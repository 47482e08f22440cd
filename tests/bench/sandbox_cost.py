"""The sandbox's price: python -m tests.bench.sandbox_cost [cost|esc|memory…]

`cost`: p50 of `true` bare, inside, and in the read-only profile. `esc`: 200 confined commands that leave
their group and ignore signals, each cancelled at another moment; prints how many left a process behind.
`memory`: a REPL that idles, and one-shot runs, with the sandbox on and off. By hand, on a quiet machine.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.pool import CommandRequest
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.processes import processes_with
from tests.support.program import Program
from tests.support.sandbox_machine import LOOKS, sandbox_machine
from tests.support.terminal import on_terminal

ROUNDS = 200
STUBBORN = "trap '' TERM INT; (setsid sleep {mark} &); sleep {mark} & echo x; sleep {mark}; true"


async def cost() -> None:
    """Alternate the kinds, so that a busy moment hits all of them."""
    for level, look in sorted(LOOKS.items(), reverse=True):
        async with sandbox_machine(look=look) as machine:
            kinds = {
                "bare": None,
                "inside": machine.confinement(),
                "read-only": machine.confinement("read-only"),
            }
            taken: dict[str, list[float]] = {name: [] for name in kinds}
            for _ in range(ROUNDS):
                for name, confinement in kinds.items():
                    begin = time.perf_counter()
                    await machine.sandbox.survey(machine.boundary)
                    assert (await machine.finished("true", confinement)).ok
                    taken[name].append(time.perf_counter() - begin)
            shown = ", ".join(
                f"{name} p50 {statistics.median(times) * 1000:.1f} ms, best {min(times) * 1000:.1f} ms"
                for name, times in taken.items()
            )
            print(f"level {level}: {shown}")


async def esc() -> None:
    """Cancel at moments from 0 to 60 ms after the start."""
    for level, look in sorted(LOOKS.items(), reverse=True):
        async with sandbox_machine(look=look) as machine:
            mark, survived, slowest = f"4321.{os.getpid()}{level}", 0, 0.0
            for turn in range(ROUNDS):
                await machine.sandbox.survey(machine.boundary)
                request = CommandRequest(
                    shell_argv(STUBBORN.format(mark=mark)),
                    str(machine.work),
                    1,
                    confinement=machine.confinement(),
                )
                cancelled = asyncio.Event()
                work = asyncio.ensure_future(
                    machine.children.run(request, timeout_s=None, cancelled=cancelled)
                )
                await asyncio.sleep(turn % 20 * 0.003)
                begin = time.perf_counter()
                cancelled.set()
                await asyncio.wait({work})
                slowest = max(slowest, time.perf_counter() - begin)
                survived += bool(processes_with(mark))
            print(
                f"level {level}: {ROUNDS - survived} of {ROUNDS} without a survivor, slowest {slowest:.2f} s"
            )


async def memory() -> None:
    """Compare a REPL a few seconds after its start, and a run that answers."""
    for sandbox in ("auto", "off", "auto", "off"):
        with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as folder:
            async with FakeLLM([reply("Done.")] * 9) as server:
                program = Program(Path(folder), server.url)
                program.configure({"sandbox": {"level": sandbox}})
                program.files(main__py="print(1)\n")
                runs = [await _one_shot(program) for _ in range(5)]
                begin = time.perf_counter()
                async with on_terminal(program) as terminal:
                    ready = time.perf_counter() - begin
                    await asyncio.sleep(4)
                    status = Path(f"/proc/{terminal.process.pid}/smaps_rollup").read_text()
                    pss = next(line for line in status.splitlines() if line.startswith("Pss:")).split()[1]
        idle = f"idle {int(pss) / 1024:.1f} MB (PSS)"
        print(f"{sandbox}: prompt {ready:.2f} s, {idle}, one-shot p50 {statistics.median(runs):.2f} s")


async def _one_shot(program: Program) -> float:
    begin = time.perf_counter()
    assert (await program.run("exec", "hi")).code == 0
    return time.perf_counter() - begin


PARTS = {"cost": cost, "esc": esc, "memory": memory}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        asyncio.run(PARTS[part]())
