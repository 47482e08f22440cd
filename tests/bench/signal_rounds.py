"""End the program by signals at random times and look for what is not as it was.

    python -m tests.bench.signal_rounds [--rounds 200] [--seed 1] [--first 0]

Prints one line per failed round and one JSON line; exits 1 when anything failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.signal_round import Ended, one, rounds


def main() -> int:
    """Play the rounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    ended: list[Ended] = []
    failures: list[str] = []
    for what in rounds(given.rounds, given.seed)[given.first :]:
        with tempfile.TemporaryDirectory(prefix="signal-") as folder:
            try:
                ended.append(asyncio.run(one(Path(folder), what)))
            except AssertionError as error:
                failures.append(str(error))
                sys.stdout.write(f"{error}\n")
                sys.stdout.flush()
    longest = max((one.took_s for one in ended), default=0)
    said = {
        "rounds": len(ended) + len(failures),
        "failures": len(failures),
        "longest_s": round(longest, 2),
        "screen_was_there": sum(one.had_begun for one in ended),
        "resumed": sum(one.resumed for one in ended),
        "codes": Counter(str(one.code) for one in ended),
    }
    sys.stdout.write(json.dumps(said) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
