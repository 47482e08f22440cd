"""Kill a scripted session again and again and look for what is lost.

    python -m tests.bench.kill_rounds operations [--turns 30] [--step 1] [--first 1] [--half]
    python -m tests.bench.kill_rounds random [--rounds 1000] [--seed 1]

`operations` kills at every file operation (every `--step`-th), each round in a folder of its own. `random`
kills one and the same session at random times and goes on with it. Each round is resumed, checked and gone on
with. Prints one JSON line; exits 1 when anything was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.line_codec import scan
from buddy.sessions.records import TaskChanged
from tests.faults.scripted_journal import Acked, check, forked, killed_at
from tests.support.session_files import said, store_in

LIFE_S = 0.06


def kill_at_operations(*, turns: int, first: int, step: int, half: bool) -> dict[str, object]:
    """One round for each operation; what was found."""
    failures: list[str] = []
    rounds = acknowledged = 0
    at = first
    total = 0
    while not total or at <= total:
        with tempfile.TemporaryDirectory(prefix="kill-") as folder:
            acked, count = killed_at(Path(folder), at, turns=turns, half=half)
            total = total or count
            rounds += 1
            acknowledged += len(acked)
            try:
                _resume(Path(folder), acked, turns=turns)
            except AssertionError as error:
                failures.append(f"operation {at}: {error}")
        if count:
            break
        at += step
    return {"rounds": rounds, "operations": total, "acknowledged": acknowledged, "failures": failures}


def _resume(root: Path, acked: list[str], *, turns: int) -> None:
    store = store_in(root)
    if not acked:
        return
    loaded = store.read("last")
    check(loaded, acked, turns=turns)

    async def go_on() -> None:
        session = await store.open("last")
        check(session.loaded, acked, turns=turns)
        number = await session.writer.record_message(1, said("after"))
        assert number > loaded.last_number
        await session.close()

    asyncio.run(go_on())
    again = store.read("last")
    assert again.tasks[0].record.history[:-1] == loaded.tasks[0].record.history
    assert again.tasks[0].record.history[-1] == said("after")
    assert again.tasks[0].repairs == ()


def kill_at_random(*, rounds: int, seed: int) -> dict[str, object]:
    """One journal, `rounds` lives."""
    source = random.Random(seed)
    failures: list[str] = []
    acknowledged: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="kill-"))

    async def start() -> None:
        session = await store_in(folder).create()
        await session.writer.record_task(1, TaskChanged("endless", "running"))
        await session.close()

    asyncio.run(start())
    longest_s = LIFE_S
    for life in range(rounds):
        steps, _ = forked(lambda acked, life=life: _live(folder, life, acked), source.uniform(0.0, longest_s))
        longest_s = LIFE_S if steps else longest_s * 1.2  # a slow machine gets to nothing in so short a life
        acknowledged += steps
    loaded = store_in(folder).read("last")
    ids = [message.id for message in loaded.tasks[0].record.history]
    failures += [f"{name} is lost" for name in set(acknowledged) - set(ids)]
    if len(ids) != len(set(ids)):
        failures.append("a prompt is there twice")
    numbers = [
        each.line.number for each in scan((Path(loaded.directory) / "journal.jsonl").read_bytes()).lines
    ]
    if numbers != list(range(1, len(numbers) + 1)):
        failures.append("numbers have gaps")
    shutil.rmtree(folder)
    return {
        "rounds": rounds,
        "records": len(numbers),
        "acknowledged": len(acknowledged),
        "failures": failures,
    }


def _live(folder: Path, life: int, acked: Acked) -> int:
    async def live() -> None:
        session = await store_in(folder, files=JournalFiles()).open("last")
        for number in range(100_000):
            name = f"life-{life}-{number}"
            await session.writer.record_message(1, said(name))
            acked(name)

    asyncio.run(live())
    return 0


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["operations", "random"])
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    started = time.monotonic()
    if given.what == "operations":
        found = kill_at_operations(turns=given.turns, first=given.first, step=given.step, half=given.half)
    else:
        found = kill_at_random(rounds=given.rounds, seed=given.seed)
    print(json.dumps({**found, "seconds": round(time.monotonic() - started, 1)}))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
