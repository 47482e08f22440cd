"""Every tool cancelled 200 times at random moments; the exit code is 1 when anything was left behind. `python
tests/bench/cancel_every_tool.py [COUNT [TOOL…]]`."""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.cancel_rounds import SCENARIOS, cancel_session, rounds


async def main(count: int, names: list[str]) -> int:
    failed = 0
    for name in names or SCENARIOS:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            async with cancel_session(Path(folder)) as session:
                problems, cancelled = await rounds(session, name, count, random.Random(name))
        failed += bool(problems)
        seconds = time.monotonic() - started
        print(
            f"{name:<16} {cancelled:>4} of {count} in the middle, {seconds:6.1f} s, {len(problems)} problems"
        )
        for problem in problems[:5]:
            print(f"    {problem}")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(asyncio.run(main(int(given[0]) if given else 200, given[1:])))
