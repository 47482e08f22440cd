"""Key to echo while many tasks stream (REL-051): the real program on a pty, a fake server in a process of its
own, keys at a typist's pace.

    python -m tests.bench.many_tasks [--tasks 50] [--rate 50] [--keys 300] [--gap 0.03] [--trace FILE]

`rate`: deltas a second in each task. `--trace` writes a py-spy profile of the program while keys are typed
(`pip install py-spy`). Afterwards the streams end, and every task's saved reply is compared with what the
server sent. Prints one JSON line; exits 1 when the slowest hundredth takes 50 ms or longer, when a byte is
missing, or when 500 descriptors are open.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from buddy.agent.messages import AssistantMessage, text_of
from tests.fake_llm.script import Reply, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import ROOT, Program
from tests.support.terminal import Terminal, on_terminal

P99_MS = 50.0
DESCRIPTORS = 500
CHARS = 12
KEYS = [chr(code) for code in (*range(0x410, 0x450), *range(0x48A, 0x500))]


def said(words: int) -> str:
    """The answer to every task."""
    return "".join(f"word{number} " if number % 40 else f"word{number}.\n\n" for number in range(words))


async def serve(rate: float, words: int) -> None:
    """The server's process: says its address, serves until it is ended."""
    answer: Reply = reply(said(words), chars=CHARS, delay_s=1 / rate)
    async with FakeLLM(lambda _asked: answer) as server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def typed(terminal: Terminal, count: int, gap_s: float) -> list[float]:
    """Milliseconds of each key from the write to its echo; infinite for one that never came."""
    found: list[float] = []
    for number in range(count):
        key = KEYS[number % len(KEYS)].encode()
        at = time.monotonic()
        os.write(terminal.master, key)
        seen = b""
        while key not in seen and select.select([terminal.master], [], [], 5)[0]:
            seen += os.read(terminal.master, 65536)
        found.append((time.monotonic() - at) * 1000 if key in seen else float("inf"))
        drained(terminal, gap_s)
        if number % 60 == 59:
            os.write(terminal.master, b"\x15")
            drained(terminal, 0.2)
    os.write(terminal.master, b"\x15")
    return found


def drained(terminal: Terminal, seconds: float) -> None:
    """Wait, reading what else is drawn."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([terminal.master], [], [], left)[0]:
            os.read(terminal.master, 65536)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(
    folder: Path, given: argparse.Namespace, server: subprocess.Popen[str]
) -> dict[str, object]:
    """Start the tasks, type, let them end, compare."""
    assert server.stdout is not None
    program = Program(folder, server.stdout.readline().strip())
    program.files(main__py="print(1)\n")
    async with on_terminal(program, columns=120, rows=40) as terminal:
        await terminal.shows("sandbox")
        for number in range(given.tasks):
            terminal.keys(f"/bg stream {number}")
            await terminal.until(lambda at=number: terminal.input_line().endswith(f"stream {at}"), "the line")
            terminal.keys("\r")
            await terminal.until(lambda: terminal.input_line() == "", "sent")
        await terminal.shows(f"{given.tasks} tasks running")
        pid = terminal.process.pid
        asyncio.get_running_loop().remove_reader(terminal.master)  # its screen model would take our time
        spy = traced(pid, given)
        before, begun = cpu_s(pid), time.monotonic()
        lat = sorted(await asyncio.to_thread(typed, terminal, given.keys, given.gap))
        share = (cpu_s(pid) - before) / (time.monotonic() - begun)
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        if spy is not None:
            spy.wait()
        asyncio.get_running_loop().add_reader(terminal.master, terminal._read)
        terminal.keys("\x0c")
        await terminal.shows("running")
        await ended(terminal)
        await left(terminal)
    whole = [await is_whole(program, number, said(given.words)) for number in range(2, given.tasks + 2)]
    return {
        "tasks": given.tasks,
        "p50_ms": round(statistics.median(lat), 1),
        "p95_ms": round(lat[int(len(lat) * 0.95)], 1),
        "p99_ms": round(lat[int(len(lat) * 0.99)], 1),
        "max_ms": round(lat[-1], 1),
        "cpu_share": round(share, 2),
        "descriptors": descriptors,
        "whole": sum(whole),
    }


async def left(terminal: Terminal) -> None:
    """Leave; it may ask, because notes wait."""
    for _ in range(20):
        terminal.keys("\x04")
        await asyncio.sleep(0.5)
        if terminal.process.poll() is not None:
            return


def traced(pid: int, given: argparse.Namespace) -> subprocess.Popen[bytes] | None:
    """py-spy, beside the typing."""
    if not given.trace:
        return None
    seconds = str(max(1, int(given.keys * given.gap)))
    options = ("--nonblocking", "-r", "500", "-d", seconds, "-f", "raw", "-o", given.trace, "-p", str(pid))
    return subprocess.Popen(["py-spy", "record", *options], stdout=subprocess.DEVNULL)


async def ended(terminal: Terminal) -> None:
    """Wait for the end of every stream, however long that takes."""
    deadline = time.monotonic() + 300
    quiet = 0
    while quiet < 10:  # one look may find the screen between two frames
        footer = terminal.rows()[-1]
        quiet = quiet + 1 if "sandbox" in footer and "running" not in footer else 0
        assert time.monotonic() < deadline, "the streams never ended"
        await asyncio.sleep(0.1)


async def is_whole(program: Program, task_id: int, text: str) -> bool:
    """Tell whether a task's last reply equals the server's, to the last byte."""
    history = await program.history("last", task_id)
    last = history[-1]
    return isinstance(last, AssistantMessage) and text_of(last) == text


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--words", type=int, default=2500)
    parser.add_argument("--keys", type=int, default=300)
    parser.add_argument("--gap", type=float, default=0.03)
    parser.add_argument("--trace", default="")
    parser.add_argument("--serve", action="store_true", help="be the server")
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.rate, given.words))
    command = [sys.executable, "-m", "tests.bench.many_tasks", "--serve"]
    command += ["--rate", str(given.rate), "--words", str(given.words)]
    with (
        tempfile.TemporaryDirectory(prefix="many-") as folder,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server,
    ):
        try:
            found = asyncio.run(measure(Path(folder), given, server))
        finally:
            server.kill()
    sys.stdout.write(json.dumps(found) + "\n")
    p99, descriptors = found["p99_ms"], found["descriptors"]
    assert isinstance(p99, float)
    assert isinstance(descriptors, int)
    return 1 if p99 >= P99_MS or descriptors >= DESCRIPTORS or found["whole"] != given.tasks else 0


if __name__ == "__main__":
    sys.exit(main())
