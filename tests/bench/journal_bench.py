"""The cost of the journal, and the effects of damage.

    python -m tests.bench.journal_bench append [--records 2000] [--directory DIR]
    python -m tests.bench.journal_bench resume [--megabytes 20] [--records 10000]
    python -m tests.bench.journal_bench huge
    python -m tests.bench.journal_bench damage [--rounds 10000] [--seed 1]

Prints one JSON line each; times in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from buddy.sessions.loading import NAME as SNAPSHOT
from tests.faults.test_store_faults import mutated
from tests.support.session_files import call, replied, result, said, store_in


async def append(root: Path, records: int) -> dict[str, object]:
    """Append and wait for each record, while a ticker looks how long the event loop is kept busy."""
    session = await store_in(root).create()
    text = "x" * 1_500
    waits: list[float] = []
    for number in range(records):
        started = time.perf_counter()
        await session.writer.record_message(1, said(f"u{number}", text))
        waits.append((time.perf_counter() - started) * 1e3)
    started = time.perf_counter()
    futures = [session.writer.record_message(1, said(f"v{number}", text)) for number in range(records)]
    handed_over = time.perf_counter() - started
    await asyncio.gather(*futures)
    together = time.perf_counter() - started
    await session.close()
    return {
        "median_ms": round(statistics.median(waits), 3),
        "p95_ms": round(statistics.quantiles(waits, n=20)[18], 3),
        "max_ms": round(max(waits), 3),
        "hand_over_us_each": round(handed_over / records * 1e6, 1),
        "records_per_s_together": round(records / together),
    }


async def write_session(root: Path, megabytes: float, records: int) -> str:
    """A session of ordinary turns, this large."""
    session = await store_in(root).create(name="large")
    each = int(megabytes * 1e6 / records)
    body = 'def f(x):\n    return "é" + x  # \\\\ \n'
    text = (body * (each // len(body) * 3 + 1))[: int(each * 1.9)]
    for turn in range(records // 4):
        session.writer.record_message(1, said(f"u{turn}", f"prompt {turn}"))
        session.writer.record_message(1, replied(f"a{turn}", "I look", call(f"c{turn}"), finish="calls"))
        session.writer.record_message(1, result(f"t{turn}", f"c{turn}", text))
        session.writer.record_message(1, replied(f"b{turn}", text[:each]))
    await session.close()
    return session.directory


async def resume(root: Path, megabytes: float, records: int) -> dict[str, object]:
    """Load with and without the snapshot, three times each, and open for writing once."""
    directory = await write_session(root, megabytes, records)
    store = store_in(root)
    found: dict[str, object] = {
        "journal_mb": round(os.path.getsize(os.path.join(directory, "journal.jsonl")) / 1e6, 1)
    }
    found["with_snapshot_ms"] = _timed(lambda: store.read("last"))
    Path(directory, SNAPSHOT).unlink()
    found["whole_journal_ms"] = _timed(lambda: store.read("last"))
    found["list_ms"] = _timed(store.list)
    started = time.perf_counter()
    session = await store.open("last")
    found["open_for_writing_ms"] = round((time.perf_counter() - started) * 1e3, 1)
    stalls: list[float] = []
    ticking = asyncio.create_task(_tick(stalls))
    await asyncio.sleep(0.05)
    session.writer.idle()
    await asyncio.sleep(1.0)
    ticking.cancel()
    found["longest_stall_during_snapshot_ms"] = round(max(stalls) * 1e3, 1)
    await session.close()
    found["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return found


async def _tick(stalls: list[float]) -> None:
    while True:
        started = time.perf_counter()
        await asyncio.sleep(0.001)
        stalls.append(time.perf_counter() - started - 0.001)


def _timed(run) -> list[float]:
    times: list[float] = []
    for _ in range(3):
        started = time.perf_counter()
        run()
        times.append(round((time.perf_counter() - started) * 1e3, 1))
    return times


async def huge(root: Path) -> dict[str, object]:
    """One record of 5 MB."""
    session = await store_in(root).create()
    started = time.perf_counter()
    future = session.writer.record_message(1, replied("a", "é\n" * 2_500_000))
    handed_over = time.perf_counter() - started
    await future
    await session.close()
    Path(session.directory, SNAPSHOT).unlink()
    return {
        "hand_over_ms": round(handed_over * 1e3, 1),
        "resume_ms": _timed(lambda: store_in(root).read("last")),
    }


async def damage(root: Path, rounds: int, seed: int) -> dict[str, object]:
    """Random damage; loading must neither raise nor hang."""
    directory = await write_session(root, 0.02, 24)
    Path(directory, SNAPSHOT).unlink()
    journal = Path(directory, "journal.jsonl")
    whole = journal.read_bytes()
    source = random.Random(seed)
    store = store_in(root)
    raised: list[str] = []
    slowest = reported = 0.0
    for _ in range(rounds):
        journal.write_bytes(mutated(whole, source))
        started = time.perf_counter()
        try:
            loaded = store.read(os.path.basename(directory))
            store.list()
            reported += bool(loaded.problems)
        except Exception as error:
            raised.append(repr(error))
        slowest = max(slowest, time.perf_counter() - started)
    return {
        "rounds": rounds,
        "exceptions": raised[:5],
        "with_problems": int(reported),
        "slowest_ms": round(slowest * 1e3, 1),
    }


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["append", "resume", "huge", "damage"])
    parser.add_argument("--records", type=int)
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="journal-", dir=given.directory))
    try:
        match given.what:
            case "append":
                found = asyncio.run(append(root, given.records or 2_000))
            case "resume":
                found = asyncio.run(resume(root, given.megabytes, given.records or 10_000))
            case "huge":
                found = asyncio.run(huge(root))
            case _:
                found = asyncio.run(damage(root, given.rounds, given.seed))
    finally:
        shutil.rmtree(root)
    print(json.dumps(found))
    return 1 if found.get("exceptions") else 0


if __name__ == "__main__":
    sys.exit(main())
