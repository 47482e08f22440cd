"""Event to client while many tasks stream to many readers of the page: the real `buddy serve`, a fake server
in a process of its own, readers in this one.

    python -m tests.bench.page_readers [--tasks 50] [--readers 20] [--rate 10] [--words 300]

`rate`: deltas a second in each task. Every record carries the time it was emitted, on the clock that all
processes share; of deltas that were merged it is the first one's. One reader more never reads. Prints one
JSON line with milliseconds, the server's CPU seconds and its memory; exits 1 when a reader misses a byte,
when the slowest hundredth takes longer than 50 ms, or when memory grew by more than 60 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psutil

from buddy.agent.events import TaskEvent, TextDelta, TurnFinished
from tests.bench.many_tasks import said
from tests.support.program import ROOT, Program

P99_MS = 50.0
GROWN_MB = 60.0
DEADLINE_S = 400.0
_decode = msgspec.json.Decoder(TaskEvent).decode


class Reader:
    """One reader: the text of each task, and milliseconds of each record."""

    def __init__(self) -> None:
        self.texts: dict[int, list[str]] = defaultdict(list)
        self.delays_ms: list[float] = []
        self.ended = 0
        self.others: set[str] = set()

    async def run(self, port: int, token: str, turns: int) -> None:
        """Read until so many turns have ended."""
        stream, writer = await asyncio.open_connection("127.0.0.1", port, limit=4_000_000)
        writer.write(request(port, token, "GET", "/events"))
        await stream.readuntil(b"\r\n\r\n")
        rest = b""
        while self.ended < turns:
            size = int(await stream.readline(), 16)
            if not size:
                raise EOFError("the stream ended")
            rest += (await stream.readexactly(size + 2))[:-2]
            now = time.monotonic()
            *records, rest = rest.split(b"\n\n")
            for record in records:
                self._take(record, now)
        writer.close()

    def _take(self, record: bytes, now: float) -> None:
        name = record.partition(b"event: ")[2].partition(b"\n")[0]
        if name in (b"reset", b"end"):
            self.others.add(name.decode())
        if name not in (b"text_delta", b"turn_finished"):
            return
        task_event = _decode(record.partition(b"\ndata: ")[2])
        self.delays_ms.append((now - task_event.at) * 1000)
        match task_event.event:
            case TextDelta(text=text):
                self.texts[task_event.task_id].append(text)
            case TurnFinished():
                self.ended += 1
            case _:
                pass


def request(port: int, token: str, method: str, path: str, body: bytes = b"") -> bytes:
    """Return a request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Authorization: Bearer {token}"]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join((*lines, "", "")).encode() + body


async def post(port: int, token: str, path: str, body: dict[str, Any]) -> None:
    """Send a request and check that it was taken."""
    stream, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(port, token, "POST", path, json.dumps(body).encode()))
    line = await stream.readline()
    assert b" 200 " in line, line
    writer.close()


async def measure(options: argparse.Namespace, url: str) -> dict[str, Any]:
    """Run the program and its readers; return the figures."""
    answer = said(options.words)
    with tempfile.TemporaryDirectory() as folder:
        program = Program(Path(folder), url, "chat", ("read_file",))
        process = await program.start("serve", stderr=asyncio.subprocess.DEVNULL)
        assert process.stdout is not None
        address = urlsplit((await process.stdout.readline()).decode().strip())
        port, token = int(address.port or 0), address.fragment
        watched = psutil.Process(process.pid)
        await asyncio.sleep(1)
        before_mb, cpu = watched.memory_info().rss / 1e6, watched.cpu_times()
        readers = [Reader() for _ in range(options.readers)]
        _stopped, silent = await asyncio.open_connection("127.0.0.1", port, limit=1)
        silent.write(request(port, token, "GET", "/events"))
        reading = [asyncio.create_task(reader.run(port, token, options.tasks)) for reader in readers]
        await asyncio.sleep(1)
        started = time.monotonic()
        await post(port, token, "/prompt", {"text": "go"})
        for _ in range(options.tasks - 1):
            await post(port, token, "/prompt", {"text": "go", "new_task": True})
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*reading)
        seconds = time.monotonic() - started
        used, after_mb = watched.cpu_times(), watched.memory_info().rss / 1e6
        silent.close()
        process.send_signal(signal.SIGINT)
        await process.wait()
    delays = sorted(delay for reader in readers for delay in reader.delays_ms)
    whole = sum("".join(pieces) == answer for reader in readers for pieces in reader.texts.values())
    return {
        "tasks": options.tasks,
        "readers": options.readers,
        "records": len(delays),
        "seconds": round(seconds, 1),
        "p50_ms": round(statistics.median(delays), 1),
        "p99_ms": round(delays[int(len(delays) * 0.99)], 1),
        "max_ms": round(delays[-1], 1),
        "whole": f"{whole} of {options.tasks * options.readers}",
        "lost": options.tasks * options.readers - whole,
        "resets": sum(len(reader.others) for reader in readers),
        "cpu_s": round(used.user + used.system - cpu.user - cpu.system, 1),
        "cpu_us_per_record": round(
            (used.user + used.system - cpu.user - cpu.system) * 1e6 / max(1, len(delays) / options.readers)
        ),
        "load": round(os.getloadavg()[0], 1),
        "memory_mb": [round(before_mb), round(after_mb)],
    }


def main() -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("tasks", 50), ("readers", 20), ("rate", 10.0), ("words", 300)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    serving = f"serve({options.rate}, {options.words})"
    code = f"import asyncio; from tests.bench.many_tasks import serve; asyncio.run({serving})"
    server = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = asyncio.run(measure(options, server.stdout.readline().strip()))
    finally:
        server.kill()
        server.wait()
    print(json.dumps(found))
    grown = found["memory_mb"][1] - found["memory_mb"][0]
    return int(bool(found["lost"] or found["resets"]) or found["p99_ms"] > P99_MS or grown > GROWN_MB)


if __name__ == "__main__":
    sys.exit(main())
