"""A disk of a few megabytes under what buddy writes (its sessions, and its state with the history), which a
test can fill and empty while the program runs: a memory file system in a mount namespace of its own.

    disk = SmallDisk(program)
    async with on_terminal(program, command=disk.program) as terminal:
        await disk.fill(leave_kb=0)
        …
        await disk.empty()
    await disk.bring_back()    # what the disk held lies where it would without it
"""

from __future__ import annotations

import asyncio
import shutil
import sys

from tests.support.program import Program

SIZE_MB = 3
INSIDE = f"""
import os, shutil, subprocess, sys, time

small, marks, *places = sys.argv[1:5]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size={SIZE_MB}m,mode=700", "tmpfs", small], check=True)
for place in places:
    inside = small + "/" + os.path.basename(place)
    os.makedirs(inside, mode=0o700)
    os.makedirs(place, exist_ok=True)
    subprocess.run(["mount", "--bind", inside, place], check=True)

def fill(leave_kb):
    fd = os.open(small + "/filler", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.pwrite(fd, bytes(4096), os.lseek(fd, 0, os.SEEK_END))
    except OSError:
        os.ftruncate(fd, max(os.fstat(fd).st_size - leave_kb * 1024, 0))
    os.close(fd)

buddy = os.getpid()
if os.fork() == 0:
    os.setsid()
    for fd in range(3):
        os.close(fd)
    while os.getppid() == buddy:
        for mark in os.listdir(marks):
            word, _, leave_kb = mark.partition(" ")
            if word == "fill":
                fill(int(leave_kb))
            elif word == "empty":
                os.unlink(small + "/filler")
            else:
                continue
            os.unlink(marks + "/" + mark)
        time.sleep(0.01)
    shutil.copytree(small, marks + "/kept.part", ignore=shutil.ignore_patterns("filler"))
    os.rename(marks + "/kept.part", marks + "/kept")
    os._exit(0)
os.execv(sys.executable, [sys.executable, "-m", "buddy", *sys.argv[5:]])
"""


class SmallDisk:
    """The disk of one program. `program` is to be started instead of buddy."""

    def __init__(self, program: Program) -> None:
        self._marks = program.folder / "marks"
        self._small = program.folder / "small"
        self._places = (program.repo / ".buddyx", program.home / ".local" / "state")
        for folder in (self._marks, self._small):
            folder.mkdir()
        arguments = (self._small, self._marks, *self._places)
        self.program = ("unshare", "-rm", sys.executable, "-c", INSIDE, *map(str, arguments))

    async def fill(self, *, leave_kb: int = 0) -> None:
        """Leave hardly anything, or so much."""
        await self._done(f"fill {leave_kb}")

    async def empty(self) -> None:
        """There is room again."""
        await self._done("empty ")

    async def _done(self, mark: str) -> None:
        (self._marks / mark).touch()
        for _ in range(2500):
            if not (self._marks / mark).exists():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"the disk never heard: {mark}")

    async def bring_back(self) -> None:
        """After the program: what it wrote, where another program finds it."""
        for _ in range(2500):
            if (self._marks / "kept").exists():
                break
            await asyncio.sleep(0.01)
        for place in self._places:
            shutil.rmtree(place)
            shutil.copytree(self._marks / "kept" / place.name, place)
