"""The cost of 20,000 streamed deltas in `buddy exec`: CPU of the whole run, start and end included, against
the fake server. Run by hand.

    python tests/bench/headless_deltas.py            # five runs, the least and the median
    python tests/bench/headless_deltas.py 15 json    # so many runs, in this output format

The server's own CPU is not counted. One run with a single delta is measured beside it: the difference is what
the deltas cost.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.fake_llm.script import reply  # noqa: E402 - the path above
from tests.fake_llm.server import FakeLLM  # noqa: E402
from tests.support.program import Program  # noqa: E402

DELTAS = 20_000
PIECE = "tok "


async def cpu_of(program: Program, output_format: str, expected: int) -> float:
    """Seconds of CPU, user and system, of one whole run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = await program.run("exec", "--output-format", output_format, "hi")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.code or ran.out.count(PIECE.strip()) < expected:
        raise SystemExit(f"expected {expected} pieces, found exit code {ran.code}: {ran.err}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


async def main(runs: int, output_format: str) -> None:
    """Alternate long and short runs, so that both see the same machine."""
    with tempfile.TemporaryDirectory() as folder:
        found: dict[int, list[float]] = {DELTAS: [], 1: []}
        for _ in range(runs):
            for count, seconds in found.items():
                answer = reply(PIECE * count, chars=len(PIECE))
                async with FakeLLM([answer]) as server:
                    place = Path(folder) / str(count)
                    place.mkdir(exist_ok=True)
                    seconds.append(await cpu_of(Program(place, server.url), output_format, count))
    for count, seconds in found.items():
        print(f"{count:6} deltas: CPU min {min(seconds):.3f} s, median {statistics.median(seconds):.3f} s")
    print(f"{(min(found[DELTAS]) - min(found[1])) / DELTAS * 1e6:.1f} us each")


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 5, sys.argv[2] if sys.argv[2:] else "text"))
