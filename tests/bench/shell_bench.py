"""Child processes by the clock: `python -m tests.bench.shell_bench`. Run by hand; prints, asserts nothing."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from buddy.tools.git import git_diff, git_log, git_status
from buddy.tools.shell import run_shell
from tests.support.processes import processes_with
from tests.support.tool_project import CommandProject, tool_project

TREE = "(setsid sleep {n} >/dev/null 2>&1 &); sleep {n} & bash -c 'sleep {n}; true'"


def row(name: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    figures = [f"{value * 1e3:8.2f}" for value in (statistics.median(ordered), p95, ordered[-1])]
    print(f"{name:46} ms: p50 {figures[0]}   p95 {figures[1]}   worst {figures[2]}")


async def timed(name: str, rounds: int, act: Callable[[], Awaitable[object]]) -> None:
    found: list[float] = []
    for _ in range(rounds):
        begin = time.perf_counter()
        await act()
        found.append(time.perf_counter() - begin)
    row(name, found)


def resident_mb(field: str = "VmRSS") -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0


async def spawning(project: CommandProject) -> None:
    found: list[float] = []
    for _ in range(300):
        begin = time.perf_counter()
        child = project.children.start(project.request("true"))
        found.append(time.perf_counter() - begin)
        await child.wait()
    row("start (the loop is held so long)", found)
    await timed("run_shell `true`", 300, lambda: project.call(run_shell, command="true"))
    await timed("run_shell `seq 1 20000`", 50, lambda: project.call(run_shell, command="seq 1 20000"))


async def ending(project: CommandProject, command: str, name: str, rounds: int) -> None:
    found: list[float] = []
    for turn in range(rounds):
        mark = f"{7000 + turn}.4321"
        child = project.children.start(project.request(command.replace("{n}", mark)))
        while len(processes_with(mark)) < command.count("{n}"):
            await asyncio.sleep(0.01)
        begin = time.perf_counter()
        await child.end("bench")
        found.append(time.perf_counter() - begin)
        assert processes_with(mark) == []
    row(name, found)


async def flood(project: CommandProject, command: str, name: str) -> None:
    before, slowest, done = resident_mb(), 0.0, asyncio.Event()
    peak = before

    async def watch() -> None:
        nonlocal slowest, peak
        while not done.is_set():
            begin = time.perf_counter()
            await asyncio.sleep(0.002)
            slowest, peak = max(slowest, time.perf_counter() - begin - 0.002), max(peak, resident_mb())

    watcher = asyncio.ensure_future(watch())
    begin, cpu = time.perf_counter(), time.process_time()
    result = await project.call(run_shell, command=command, timeout=5)
    done.set()
    await watcher
    for job in project.jobs.all():
        await project.jobs.stop(job.id)
    print(
        f"{name:46} {time.perf_counter() - begin:5.2f} s, CPU {time.process_time() - cpu:5.2f} s, "
        f"RSS +{peak - before:.1f} MB, slowest tick {slowest * 1e3:.1f} ms, {len(result.text)} characters"
    )


async def git(project: CommandProject) -> None:
    folder = project.root
    for number in range(200):
        (folder / f"f{number}.txt").write_text("line\n" * 50)
    run = ["git", "-c", "user.name=A", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*run, *arguments], cwd=folder, check=True)  # noqa: ASYNC221 - nothing else runs here
    (folder / "f1.txt").write_text("changed\n")
    await timed("git_status, 200 files", 50, lambda: project.call(git_status))
    await timed("git_diff", 50, lambda: project.call(git_diff))
    await timed("git_log", 50, lambda: project.call(git_log))


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with tool_project(Path(folder)) as project:
            await project.run("true")
            await spawning(project)
            await ending(project, "sleep {n}", "end: one process", 50)
            await ending(project, TREE, "end: child, grandchild, setsid double fork", 50)
            await ending(project, "trap '' TERM; sleep {n}; sleep {n}", "end: ignores TERM", 3)
            await flood(project, "head -c 1000000000 /dev/zero", "1 GB")
            await flood(project, "yes", "endless")
            await flood(
                project,
                f"{sys.executable} -c 'import os\nwhile 1: os.write(1, b\"x\")'",
                "endless single bytes",
            )
            await git(project)
    print(f"resident {resident_mb():.0f} MB, peak {resident_mb('VmHWM'):.0f} MB")


if __name__ == "__main__":
    asyncio.run(main())
