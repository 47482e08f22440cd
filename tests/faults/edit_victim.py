"""A program that edits files through a disk that fails or kills it at the n-th call. Run by test_edit_faults.

python -m tests.faults.edit_victim FOLDER MODE NUMBER
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from pathlib import Path

from buddy.agent.tool import ToolError
from buddy.tools.files.edit import edit_file
from buddy.workspace.files.atomic_replace import DISK, Disk
from tests.support.tool_project import ToolProject


class FaultyDisk:
    """Counts calls; the chosen one is half done, then fails or is the program's last."""

    def __init__(self, mode: str, number: int) -> None:
        self._mode, self._number = mode, number
        self.steps = 0

    def _strikes(self) -> bool:
        self.steps += 1
        return self.steps == self._number

    def _strike(self) -> None:
        if self._mode == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(self, descriptor: int, data: memoryview) -> int:
        if self._strikes():
            os.write(descriptor, data[: len(data) // 2])
            self._strike()
        return os.write(descriptor, data[: max(1, len(data) // 2)])  # short writes are legal

    def sync(self, descriptor: int) -> None:
        if self._strikes():
            self._strike()
        os.fsync(descriptor)

    def rename(self, source: str, target: str, folder: int) -> None:
        if self._strikes():
            self._strike()
        DISK.rename(source, target, folder)
        if self._strikes() and self._mode == "kill":  # a rename that happened does not fail
            self._strike()

    def exchange(self, one: str, other: str, folder: int) -> bool:
        if self._strikes():
            self._strike()
        can = DISK.exchange(one, other, folder)
        if self._strikes() and self._mode == "kill":
            self._strike()
        return can


async def main(folder: Path, mode: str, number: int) -> None:
    faults = FaultyDisk(mode, number)
    disk = Disk(faults.write, faults.sync, faults.rename, faults.exchange)
    project = ToolProject(folder / "work", session=folder / "undo", disk=disk)
    try:
        result = await project.call(edit_file, path="a.txt", old="old", new="new\nlines")
    except ToolError as error:
        print(f"refused: {error}")
    else:
        print(f"done: {faults.steps} steps: {result.text}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
