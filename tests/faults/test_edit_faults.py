"""Edits that are interrupted at every step, and edits that meet each other."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.tools.files.edit import edit_file
from buddy.tools.files.write import write_file
from buddy.workspace.files.atomic_replace import DISK, Disk
from buddy.workspace.files.locks import FileLocks
from tests.support.tool_project import ToolProject
from tests.support.undo_logs import undo_log

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW = b"one\r\nold\r\nlast", b"one\r\nnew\r\nlines\r\nlast"


def run_victim(folder: Path, mode: str, number: int) -> subprocess.CompletedProcess[str]:
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "a.txt").write_bytes(OLD)
    (work / "a.txt").chmod(0o640)
    command = [sys.executable, "-m", "tests.faults.edit_victim", str(folder), mode, str(number)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def outside_of(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_mode & 0o7777, status.st_uid, status.st_gid


def step_numbers(folder: Path) -> list[int]:
    """A seeded sample of the steps of one edit, the last ones among them: they are around the rename."""
    undisturbed = run_victim(folder, "kill", 0).stdout
    total = int(undisturbed.removeprefix("done: ").split()[0])
    return sorted(
        {1, total // 2, *range(total - 3, total + 1), *random.Random(64).sample(range(1, total), 3)}
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["kill", "full"])
def test_REL_064_a_file_is_old_or_new_after_a_kill_or_a_full_disk_never_partial(
    mode: str, tmp_path: Path
) -> None:
    outcomes: set[bytes] = set()
    for number in step_numbers(tmp_path / "undisturbed"):
        folder = tmp_path / f"{number}"
        done = run_victim(folder, mode, number)
        path = folder / "work/a.txt"
        assert path.read_bytes() in {OLD, NEW}, number
        assert outside_of(path)[0] == 0o640
        assert outside_of(path)[1:] == (os.geteuid(), os.getegid())
        outcomes.add(path.read_bytes())
        if mode == "full" and done.stdout.startswith("refused"):
            assert path.read_bytes() == OLD, number
            assert "disk is full" in done.stdout
            assert os.listdir(folder / "work") == ["a.txt"], number
        if done.stdout.startswith("done"):
            assert path.read_bytes() == NEW
    assert outcomes == {OLD, NEW} if mode == "kill" else OLD in outcomes


@pytest.mark.slow
def test_REL_065_each_applied_edit_can_be_taken_back_after_a_crash(tmp_path: Path) -> None:
    applied = 0
    for number in step_numbers(tmp_path / "undisturbed"):
        folder = tmp_path / f"{number}"
        done = run_victim(folder, "kill", number)
        path = folder / "work/a.txt"
        log = undo_log(str(folder / "undo"))
        entries = log.entries()
        if path.read_bytes() == NEW:
            applied += 1
            assert len(entries) == 1
        if entries:
            log.undo(FileLocks())
        assert path.read_bytes() == OLD, number
        assert os.listdir(folder / "work") == ["a.txt"], "the temporary file is swept by the next program"
        assert done.returncode in {0, -signal.SIGKILL}
    assert applied > 0


async def test_REL_064_a_disk_that_is_full_for_the_undo_copy_leaves_the_file_alone(tmp_path: Path) -> None:
    def full(_descriptor: int, _data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    project = ToolProject(tmp_path, disk=Disk(full, DISK.sync, DISK.rename, DISK.exchange))
    project.put("a.txt", "old\n")
    answer = await project.ask(edit_file, path="a.txt", old="old", new="new")
    assert answer == "refused: cannot keep what a.txt was for undo: the disk is full; nothing was changed"
    assert project.bytes("a.txt") == b"old\n"


async def test_REL_054_the_second_of_two_tasks_is_refused_when_its_text_is_gone(tmp_path: Path) -> None:
    project = ToolProject(tmp_path)
    project.put("a.txt", "x = 1\n")
    await project.call(edit_file, task_id=1, path="a.txt", old="x = 1", new="x = 2")
    refusal = await project.ask(edit_file, task_id=2, path="a.txt", old="x = 1", new="x = 3")
    assert "not found" in refusal
    assert "x = 2" in refusal
    assert project.bytes("a.txt") == b"x = 2\n"


@pytest.mark.slow
async def test_REL_054_a_thousand_overlapping_edits_of_two_tasks_lose_nothing(tmp_path: Path) -> None:
    project = ToolProject(tmp_path)
    names = [f"f{number}.txt" for number in range(10)]
    for name in names:
        project.put(name, "".join(f"line {n}: 0\n" for n in range(5)))
    rnd = random.Random(54)
    applied = {(name, n): 0 for name in names for n in range(5)}
    believed: dict[tuple[int, str, int], int] = {}
    refusals: list[str] = []

    async def work(task_id: int) -> None:
        for _ in range(500):
            name, n = rnd.choice(names), rnd.randrange(5)
            old = believed.get((task_id, name, n), 0)
            try:
                await project.call(
                    edit_file,
                    task_id=task_id,
                    path=name,
                    old=f"line {n}: {old}\n",
                    new=f"line {n}: {old + 1}\n",
                )
            except ToolError as error:
                refusals.append(str(error))
                lines = project.bytes(name).decode().splitlines()
                believed[task_id, name, n] = int(lines[n].rsplit(" ", 1)[1])
            else:
                applied[name, n] += 1
                believed[task_id, name, n] = old + 1

    await asyncio.gather(work(1), work(2))
    found = {
        (name, n): int(line.rsplit(" ", 1)[1])
        for name in names
        for n, line in enumerate(project.bytes(name).decode().splitlines())
    }
    assert found == applied
    assert sum(applied.values()) + len(refusals) == 1000
    assert refusals
    assert all("line " in refusal for refusal in refusals), "every refusal shows the real text"


async def test_a_cancelled_call_has_finished_its_write_when_it_is_gone(tmp_path: Path) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow_sync(descriptor: int) -> None:
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
        os.fsync(descriptor)

    project = ToolProject(tmp_path, disk=Disk(DISK.write, slow_sync, DISK.rename, DISK.exchange))
    call = asyncio.ensure_future(project.call(write_file, path="a.txt", content="x\n"))
    await started.wait()
    call.cancel()
    await asyncio.sleep(0)
    assert not call.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert project.bytes("a.txt") == b"x\n"
