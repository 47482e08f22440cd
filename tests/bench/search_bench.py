"""How long searches take, on trees of 1,000 and 36,000 files, with each program that narrows down files, and
how fast a cancelled one ends. `python tests/bench/search_bench.py [FOLDER]`; the trees are made in FOLDER."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from buddy.agent.tool import Tool, ToolContext
from buddy.safety.paths import Boundary
from buddy.tools.find import find_files
from buddy.tools.listing import list_files
from buddy.tools.search import grep
from buddy.workspace.approved import Approved
from buddy.workspace.environment import ChildEnvironment
from buddy.workspace.file_index import Paths, best
from buddy.workspace.processes import ChildProcesses, ProcessSettings
from buddy.workspace.search_run import SearchSettings

WORDS = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "class",
    "def",
    "return",
    "import",
    "self",
    "value",
    "index",
    "token",
)
ROUNDS = 5


def make_tree(root: Path, files: int) -> None:
    chance = random.Random(1)
    for number in range(files):
        path = root / f"pkg{number // 800}" / f"mod{number // 20 % 40}" / f"file_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "".join(" ".join(chance.choices(WORDS, k=8)) + "\n" for _ in range(chance.randint(20, 150)))
        )
    (root / "pkg0" / "mod0" / "file_7.py").write_text("needle_in_haystack = 1\n")
    (root / ".gitignore").write_text("*.pyc\nnode_modules/\n/build/\n*.log\ndocs/**/out\n")
    (root / ".git").mkdir()


def context(root: Path, children: ChildProcesses, engine: Any) -> ToolContext:
    services = {
        Boundary: Boundary(str(root), str(root), "/nonexistent"),
        Approved: Approved(),
        ChildProcesses: children,
        SearchSettings: SearchSettings(engine=engine),
    }
    return ToolContext(1, "c", lambda _text: None, asyncio.Event(), services)


async def measured(root: Path, children: ChildProcesses, engine: str, tool: Tool, **arguments: Any) -> None:
    walls: list[float] = []
    cpus: list[float] = []
    for _ in range(ROUNDS):
        started, used = time.perf_counter(), cpu_s()
        await tool.run(context(root, children, engine), tool.decode(json.dumps(arguments)))
        walls.append(time.perf_counter() - started)
        cpus.append(cpu_s() - used)
    print(
        f"{root.name:>6} {engine:>5} {tool.name} {arguments.get('pattern', ''):<20} "
        f"best {min(walls) * 1e3:7.1f} ms, median {statistics.median(walls) * 1e3:7.1f} ms, "
        f"CPU {min(cpus) * 1e3:7.1f} ms"
    )


def cpu_s() -> float:
    """CPU time of this process and its children: on a busy machine worth more than the clock."""
    both = (resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in both)


async def cancelled(root: Path, children: ChildProcesses, engine: str, pattern: str) -> None:
    waits: list[float] = []
    for round_ in range(ROUNDS):
        ctx = context(root, children, engine)
        task = asyncio.ensure_future(grep.run(ctx, grep.decode(json.dumps({"pattern": pattern}))))
        await asyncio.sleep(0.1 + 0.1 * round_)
        started = time.perf_counter()
        ctx.cancelled.set()
        await asyncio.wait([task])
        waits.append(time.perf_counter() - started)
        task.cancelled() or task.exception()
    print(f"{root.name:>6} {engine:>5} cancel {pattern:<20} worst {max(waits) * 1e3:.1f} ms")


async def main(folder: Path) -> None:
    for files in (1000, 36_000):
        root = folder / str(files)
        if not root.exists():
            make_tree(root, files)
        environment = ChildEnvironment({"PATH": "/usr/bin:/bin"}, "bench")
        async with ChildProcesses(environment, ProcessSettings(str(folder / "out"))) as children:
            for engine in ("auto", "rg", "git", "own"):
                for pattern in ("needle_in", "needle.*=", "xx[0-9]{3}", "alpha beta gamma", r"def \w+"):
                    await measured(root, children, engine, grep, pattern=pattern)
            await measured(root, children, "auto", find_files, pattern="*_7.py")
            await measured(root, children, "auto", list_files, path="pkg0")
            for engine in ("rg", "own"):
                await cancelled(root, children, engine, "needle.*=")
                await cancelled(root, children, engine, "xx[0-9]{3}")
    paths = Paths(
        [f"src/{WORDS[n % 12]}/{WORDS[n % 7]}_{n % 97}/{WORDS[n % 11]}{n}.py" for n in range(100_000)]
    )
    for text in ("a", "gam", "class/value_12", "clsval9", "zzzz"):
        started = time.perf_counter()
        best(paths, text, 20)
        print(f"100,000 paths, {text!r}: {(time.perf_counter() - started) * 1e3:.1f} ms")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(Path(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory() as made:
            asyncio.run(main(Path(made)))
