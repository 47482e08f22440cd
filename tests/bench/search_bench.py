"""The duration of searches, on trees of 1,000 and 36,000 files, and of cancelling one.
`python tests/bench/search_bench.py [FOLDER]`; the trees are made in FOLDER. Ends with 1
when a median is over its figure; what bare rg takes on the same tree tells how busy the machine is."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from buddy.agent.tool import Tool, ToolContext
from buddy.safety.paths import Boundary
from buddy.tools.files.listing import find_files, list_files
from buddy.tools.grep import grep
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.name_index import Paths, best
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.pool import ChildProcesses, ProcessSettings
from buddy.workspace.search.runner import SearchSettings

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
ROUNDS = 7
PATTERNS: tuple[dict[str, Any], ...] = (
    {"pattern": "needle_in"},
    {"pattern": "needle.*="},
    {"pattern": "xx[0-9]{3}"},
    {"pattern": "nothing|neither"},
    {"pattern": "NEEDLE_IN", "ignore_case": True},
    {"pattern": "alpha beta gamma"},
    {"pattern": r"def \w+"},
    {"pattern": "def.*self"},
    {"pattern": r"def \w+", "mode": "files"},
    {"pattern": r"\bneedle_in\b"},
    {"pattern": "alpha(?! beta).*needle"},
    {"pattern": r"class\s+\w+.*return$", "multiline": True},
)
FIGURES_MS = {"1000": 30, "36000": 1000}
"""The most a median may be, by tree."""


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


def context(root: Path, children: ChildProcesses) -> ToolContext:
    services = {
        Boundary: Boundary(str(root), str(root), "/nonexistent"),
        Approved: Approved(),
        ChildProcesses: children,
        SearchSettings: SearchSettings(),
    }
    return ToolContext(1, "c", lambda _text: None, asyncio.Event(), services)


async def measured(root: Path, children: ChildProcesses, tool: Tool, **arguments: Any) -> bool:
    """Print one line; whether the figure was kept."""
    walls: list[float] = []
    cpus: list[float] = []
    for _ in range(ROUNDS):
        started, used = time.perf_counter(), cpu_s()
        await tool.run(context(root, children), tool.decode(json.dumps(arguments)))
        walls.append(time.perf_counter() - started)
        cpus.append(cpu_s() - used)
    what = " ".join(str(value) for value in arguments.values())
    return reported(f"{root.name:>6} {tool.name} {what}", walls, cpus, FIGURES_MS[root.name])


def reported(what: str, walls: list[float], cpus: list[float], most_ms: float) -> bool:
    median = statistics.median(walls) * 1e3
    print(
        f"{what:<44} best {min(walls) * 1e3:7.1f} ms, median {median:7.1f} ms, CPU {min(cpus) * 1e3:7.1f} ms"
        + (f"   OVER {most_ms:.0f} ms" if median > most_ms else "")
    )
    return median <= most_ms


def floor(root: Path, *options: str) -> None:
    """Measure the same work without buddy: rg alone on the same tree."""
    rg = shutil.which("rg")
    if rg is None:
        return
    walls: list[float] = []
    cpus: list[float] = []
    for _ in range(ROUNDS):
        started, used = time.perf_counter(), cpu_s()
        subprocess.run([rg, "--hidden", *options, "."], cwd=root, stdout=subprocess.DEVNULL, check=False)
        walls.append(time.perf_counter() - started)
        cpus.append(cpu_s() - used)
    reported(f"{root.name:>6} bare rg {' '.join(options)}", walls, cpus, float("inf"))


def cpu_s() -> float:
    """CPU time of this process and its children: on a busy machine worth more than the clock."""
    both = (resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in both)


async def cancelled(root: Path, children: ChildProcesses, pattern: str) -> None:
    waits: list[float] = []
    for round_ in range(ROUNDS):
        ctx = context(root, children)
        task = asyncio.ensure_future(grep.run(ctx, grep.decode(json.dumps({"pattern": pattern}))))
        await asyncio.sleep(0.1 + 0.1 * round_)
        started = time.perf_counter()
        ctx.cancelled.set()
        await asyncio.wait([task])
        waits.append(time.perf_counter() - started)
        task.cancelled() or task.exception()
    print(f"{root.name:>6} cancel {pattern:<20} worst {max(waits) * 1e3:.1f} ms")


async def main(folder: Path) -> int:
    kept: list[bool] = []
    for files in (1000, 36_000):
        root = folder / str(files)
        if not root.exists():
            make_tree(root, files)
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        floor(root, "-l", "needle_in")
        floor(root, "-c", r"def \w+")
        environment = ChildEnvironment({"PATH": "/usr/bin:/bin"}, "bench")
        async with ChildProcesses(environment, ProcessSettings(str(folder / "out"))) as children:
            for arguments in PATTERNS:
                kept.append(await measured(root, children, grep, **arguments))
            kept.append(await measured(root, children, find_files, pattern="*_7.py"))
            kept.append(await measured(root, children, find_files, pattern="*.py"))
            kept.append(await measured(root, children, list_files, path="pkg0"))
            await cancelled(root, children, "needle.*=")
            await cancelled(root, children, "xx[0-9]{3}")
    ranked()
    print(f"{kept.count(False)} of {len(kept)} medians are over their figure")
    return int(not all(kept))


def ranked() -> None:
    paths = Paths(
        [f"src/{WORDS[n % 12]}/{WORDS[n % 7]}_{n % 97}/{WORDS[n % 11]}{n}.py" for n in range(100_000)]
    )
    for text in ("a", "gam", "class/value_12", "clsval9", "zzzz"):
        started = time.perf_counter()
        best(paths, text, 20)
        print(f"100,000 paths, {text!r}: {(time.perf_counter() - started) * 1e3:.1f} ms")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(asyncio.run(main(Path(sys.argv[1]))))
    with tempfile.TemporaryDirectory() as made:
        sys.exit(asyncio.run(main(Path(made))))
