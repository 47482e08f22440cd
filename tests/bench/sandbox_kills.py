"""Kill a process with a sandbox at random instants and look for what survives it.

    python -m tests.bench.sandbox_kills [--rounds 200] [--seed 1] [--longest 0.4] [--level 2]

Prints a line for each survivor and a JSON line; exits 1 when there was any. Run it as root and as an ordinary
user: their namespaces are made in different ways.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from tests.faults.sandbox_victim import kill_rounds


def main() -> int:
    """Play the rounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=0.4)
    parser.add_argument("--level", type=int, default=0)
    options = parser.parse_args()
    begin = time.monotonic()
    survivors, left = kill_rounds(
        options.rounds, options.seed, longest_s=options.longest, level=options.level
    )
    for line in survivors:
        sys.stdout.write(f"{line}\n")
    report = {
        "rounds": options.rounds,
        "user": os.geteuid(),
        "survivors": len(survivors),
        "folders_left": left,
        "seconds": round(time.monotonic() - begin, 1),
    }
    sys.stdout.write(json.dumps(report) + "\n")
    return 1 if survivors or left else 0


if __name__ == "__main__":
    sys.exit(main())
