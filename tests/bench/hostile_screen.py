"""Every hostile string at every sink of a running REPL, one after the other; those that arrive are listed.

    python -m tests.bench.hostile_screen [FIRST [STEP]]

All of them take some minutes; every fortieth is part of the tests.
"""

from __future__ import annotations

import asyncio
import sys

from tests.security.test_hostile_strings import fresh, prepared, show
from tests.support.terminal_bytes import EVERYTHING, text_forms


async def arrived(first: int, step: int) -> list[str]:
    """A sequence that reached the terminal, and the string it came from."""
    found: list[str] = []
    async with prepared() as (stage, own):
        for data in EVERYTHING[first::step]:
            for form in text_forms(data):
                await show(stage, [form])
                found.extend(f"{form[:60]!a}: {what}" for what in fresh(stage, own))
    return found


if __name__ == "__main__":
    given = [*map(int, sys.argv[1:]), *(0, 1)[len(sys.argv) - 1 :]]
    first_, step_ = given[0], given[1]
    wrong = asyncio.run(arrived(first_, step_))
    print("\n".join(wrong))
    print(f"{len(EVERYTHING[first_::step_])} strings in two forms each: {len(wrong)} arrived")
    sys.exit(bool(wrong))
