"""A process with a sandbox that is killed at any instant, and its descendants that are still there.

`python -m tests.faults.sandbox_victim FOLDER LEVEL` opens a sandbox, starts commands that do not want to end,
closes it and begins again, until somebody kills it.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from buddy.safety.paths import Boundary
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest, ProcessSettings
from buddy.workspace.processes.process_tree import adopt_orphans, all_processes, own_children, reap
from buddy.workspace.sandbox.probe import probe
from buddy.workspace.sandbox.profile import Confinement, SandboxRules
from buddy.workspace.sandbox.sandbox import Sandbox
from tests.support.sandbox_machine import LOOKS

GONE_WITHIN_S = 20.0
COMMANDS = (
    "trap '' TERM INT; (setsid sleep 4321 &); sleep 4321; true",
    "(env -i setsid /bin/bash -c 'sleep 4321 & sleep 4321' &) ; sleep 4321",
    "python3 -m http.server 8123 --bind 127.0.0.1; sleep 4321",
)


async def _live(folder: Path, level: int) -> None:
    boundary = Boundary(str(folder), str(folder), str(folder))
    settings = ProcessSettings(str(folder / "spill"))
    environment = ChildEnvironment({"PATH": "/usr/bin:/bin", "HOME": str(folder)}, "session")
    look = LOOKS.get(level, probe)
    while True:
        sandbox = Sandbox(
            SandboxRules, cache=str(folder / "cache"), records=str(folder / "records"), look=look
        )
        await sandbox.ready()
        async with ChildProcesses(environment, settings, sandbox) as children:
            for command in COMMANDS:
                await sandbox.survey(boundary)
                confinement = Confinement("workspace", boundary)
                children.start(CommandRequest(shell_argv(command), str(folder), 1, confinement=confinement))
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
        await sandbox.aclose()


def start_victim(folder: Path, level: int) -> subprocess.Popen[bytes]:
    """Start the process; it writes a byte when its modules are loaded."""
    argv = (sys.executable, "-m", "tests.faults.sandbox_victim", str(folder), str(level))
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True, env=environment)


def kill_after(folder: Path, seconds: float, level: int) -> list[str]:
    """Kill a victim at an instant after its start; return the command lines of what survives it."""
    (folder / "tmp").mkdir(exist_ok=True)
    with start_victim(folder, level) as victim:
        assert victim.stdout is not None
        victim.stdout.read(1)
        time.sleep(seconds)
        victim.kill()
    return until_gone()


def until_gone() -> list[str]:
    """Wait for the end of all processes that were handed to this one, and of what they started; kill the rest
    and return their command lines."""
    until = time.monotonic() + GONE_WITHIN_S
    while (left := descendants(os.getpid())) and time.monotonic() < until:
        time.sleep(0.01)
        for pid in own_children():
            reap(pid)
    lines = [_describe(pid) for pid in left]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return lines


def descendants(pid: int) -> list[int]:
    """Return the processes below one."""
    everyone = all_processes().values()
    found = [pid]
    for parent in found:
        found += [one.pid for one in everyone if one.parent == parent]
    return found[1:]


def _describe(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        where = Path(f"/proc/{pid}/wchan").read_text()
    except OSError as error:
        return f"{pid}: {error}"
    return f"{pid} {state} {where}: {line.strip()}"


def kill_rounds(
    rounds: int, seed: int, *, longest_s: float = 0.4, level: int = 0
) -> tuple[list[str], list[str]]:
    """Kill victims at random instants; return the survivors of all rounds and the temporary folders that a
    last start does not remove. This process adopts what loses its parent."""
    assert adopt_orphans(wanted=True)
    source = random.Random(seed)
    survivors: list[str] = []
    try:
        with tempfile.TemporaryDirectory(prefix=".buddy-kills-", dir=os.path.expanduser("~")) as name:
            folder = Path(name)
            for number in range(rounds):
                after = source.uniform(0, longest_s)
                survivors += [
                    f"round {number}, killed after {after:.3f} s: {line}"
                    for line in kill_after(folder, after, level)
                ]
            asyncio.run(_open_once(folder))
            # Python itself may leave the file by which it tries a temporary folder.
            left = sorted(name for name in os.listdir(folder / "tmp") if "buddy" in name)
    finally:
        adopt_orphans(wanted=False)
    return survivors, left


async def _open_once(folder: Path) -> None:
    argv = (sys.executable, "-m", "tests.faults.sandbox_victim", str(folder), "once")
    process = await asyncio.create_subprocess_exec(*argv, env={**os.environ, "TMPDIR": str(folder / "tmp")})
    assert await process.wait() == 0


async def _once(folder: Path) -> None:
    sandbox = Sandbox(SandboxRules, cache=str(folder / "cache"), records=str(folder / "records"))
    await sandbox.ready()
    await sandbox.swept()
    await sandbox.aclose()


if __name__ == "__main__":
    if sys.argv[2] == "once":
        asyncio.run(_once(Path(sys.argv[1])))
    else:
        os.write(1, b".")
        asyncio.run(_live(Path(sys.argv[1]), int(sys.argv[2])))
