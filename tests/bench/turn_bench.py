"""The cost of a tool turn, with a short and with a long history. Run by hand.

    python -m tests.bench.turn_bench [--turns 30 200] [--rounds 5] [--lane chat anthropic] [--tool shell]
                                     [--program one/bin/buddy another/bin/buddy]

A server without delay makes a fresh `buddy exec` call one tool a turn. Several programs take turns. Prints a
JSON line for each program, lane and length, times in milliseconds: from the last byte of a reply to the whole
next request (the median of all turns, of the first and of the last sixth), and CPU for each turn beyond the
first. Each is the least of the rounds: a machine that does other things only adds to it. Flat is what `first`
and `last` have in common.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILES = 200

TOOLS: dict[str, Callable[[int], dict[str, str]]] = {
    "read_file": lambda turn: {"path": f"f{turn % FILES}.txt"},
    "search": lambda turn: {"pattern": f"file {turn % FILES} line"},
    "shell": lambda turn: {"command": f"cat f{turn % FILES}.txt"},
    "write_file": lambda turn: {"path": f"new{turn}.txt", "content": f"line of {turn}\n"},
}
"""The arguments of the tools that can be measured, turn by turn."""


def chat(tool: str, turn: int, *, is_last: bool) -> list[Any]:
    """The events of one chat completion."""
    function = {"name": tool, "arguments": json.dumps(TOOLS[tool](turn))}
    call = {"index": 0, "id": f"call_{turn}", "type": "function", "function": function}
    delta = {"content": "Done."} if is_last else {"tool_calls": [call]}
    reason = "stop" if is_last else "tool_calls"
    return [
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
    ]


def anthropic(tool: str, turn: int, *, is_last: bool) -> list[Any]:
    """The events of one Anthropic message."""
    call = {"type": "tool_use", "id": f"toolu_{turn}", "name": tool, "input": {}}
    arguments = json.dumps(TOOLS[tool](turn))
    block = {"type": "text", "text": ""} if is_last else call
    delta = (
        {"type": "text_delta", "text": "Done."}
        if is_last
        else {"type": "input_json_delta", "partial_json": arguments}
    )
    usage = {"input_tokens": 100, "output_tokens": 1}
    return [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn" if is_last else "tool_use"},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]


class Server:
    """Answers every request at once and notes when it came and when its answer was out."""

    def __init__(self, turns: int, tool: str) -> None:
        self._turns, self._tool = turns, tool
        self.came: list[float] = []
        self.answered: list[float] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"POST "):  # a look at the server's models
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    continue
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
                self.came.append(time.perf_counter())
                writer.write(self._answer(head))
                await writer.drain()
                self.answered.append(time.perf_counter())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        turn = len(self.came)
        wire = anthropic if b"/messages " in head.split(b"\r\n")[0] else chat
        events = wire(self._tool, turn, is_last=turn > self._turns)
        lines = "".join(f"event: {event.get('type', '')}\ndata: {json.dumps(event)}\n\n" for event in events)
        body = (lines.replace("event: \n", "") + ("" if wire is anthropic else "data: [DONE]\n\n")).encode()
        status = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
        return status % len(body) + body


def workplace(root: Path, url: str, lane: str) -> dict[str, str]:
    """A home, a repository with files to read, and the environment to start buddy in."""
    home, work = root / "home", root / "work"
    (home / ".config" / "buddy").mkdir(parents=True)
    work.mkdir()
    model = "anthropic/claude-sonnet-4-5" if lane == "anthropic" else "openai/some-model"
    (home / ".config" / "buddy" / "buddy.toml").write_text(
        f'[api]\nmodel = "{model}"\nbase_url = "{url}{"" if lane == "anthropic" else "/v1"}"\n'
        'api_key_env = "BENCH_KEY"\ncontext_limit = 1000000\n[agent]\nmax_iterations = 1000\n'
    )
    for number in range(FILES):
        (work / f"f{number}.txt").write_text(f"file {number} line one\nfile {number} line two\n")
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    path = os.environ.get("PATH", "/usr/bin:/bin")
    return {"HOME": str(home), "PATH": path, "BENCH_KEY": "sk-bench", "NO_PROXY": "127.0.0.1"}


async def one_run(program: str, lane: str, turns: int, tool: str) -> tuple[list[float], float]:
    """Milliseconds between answer and next request, and CPU seconds of the program."""
    server = Server(turns, tool)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 22)
    port = listening.sockets[0].getsockname()[1]
    root = Path(tempfile.mkdtemp(prefix="turn-bench-"))
    try:
        environment = workplace(root, f"http://127.0.0.1:{port}", lane)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = await asyncio.create_subprocess_exec(
            program, "exec", "--permission-mode", "yolo", "--trust", "read them",
            cwd=root / "work", env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        code = await child.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    finally:
        listening.close()
        shutil.rmtree(root, ignore_errors=True)
    if code or len(server.came) != turns + 1:
        sys.exit(f"exit code {code} after {len(server.came)} requests; expected 0 after {turns + 1}")
    gaps = [(came - out) * 1e3 for out, came in zip(server.answered, server.came[1:], strict=False)]
    return gaps, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


Run = tuple[list[float], float]


def figures(runs: list[Run], short: list[float], turns: int) -> dict[str, float]:
    """The least of the runs."""
    few = max(3, turns // 6)
    parts = {"gap_med": slice(None), "gap_first": slice(few), "gap_last": slice(-few, None)}
    found = {name: min(statistics.median(gaps[part]) for gaps, _ in runs) for name, part in parts.items()}
    found["cpu_each"] = (min(cpu for _, cpu in runs) - min(short)) / (turns - 1) * 1e3
    return {name: round(value, 2) for name, value in found.items()}


def measure(programs: list[str], lane: str, turns: int, rounds: int, tool: str) -> None:
    """Let the programs take turns, and print a line for each."""
    runs: list[list[Run]] = [[] for _ in programs]
    short: list[list[float]] = [[] for _ in programs]
    for _ in range(rounds):
        for program, its_runs, its_short in zip(programs, runs, short, strict=True):
            its_runs.append(asyncio.run(one_run(program, lane, turns, tool)))
            its_short.append(asyncio.run(one_run(program, lane, 1, tool))[1])
    for program, its_runs, its_short in zip(programs, runs, short, strict=True):
        which: dict[str, Any] = {"program": program, "lane": lane, "tool": tool, "turns": turns}
        print(json.dumps(which | figures(its_runs, its_short, turns)), flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="What a tool turn costs.")
    parser.add_argument("--turns", type=int, nargs="+", default=[30, 200])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lane", nargs="+", choices=["chat", "anthropic"], default=["chat", "anthropic"])
    parser.add_argument("--tool", nargs="+", choices=list(TOOLS), default=["read_file"])
    parser.add_argument("--program", nargs="+", default=[str(Path(sys.executable).with_name("buddy"))])
    given = parser.parse_args()
    for lane in given.lane:
        for tool in given.tool:
            for turns in given.turns:
                measure(given.program, lane, turns, given.rounds, tool)


if __name__ == "__main__":
    main()
