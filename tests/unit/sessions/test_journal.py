"""The journal's thread: what is acknowledged is on the disk, what the disk refuses stays in memory."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from buddy.sessions.errors import NotSavedError
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.journal import LINGER_S, Appender, Journal, SaveState
from buddy.sessions.line_codec import scan
from tests.support.session_files import Failing, Faults

KIND = "renamed"
DATA = {"name": "n", "title": "t"}


def numbers_in(path: Path) -> list[int]:
    found = scan(path.read_bytes())
    assert found.torn == 0
    assert found.problems == ()
    return [each.line.number for each in found.lines]


def journal_at(
    path: Path, files: JournalFiles | None = None, states: list[SaveState] | None = None
) -> Journal:
    seen = states if states is not None else []
    return Journal(Appender(files or JournalFiles(), str(path), 0), changed=seen.append)


async def until(condition) -> None:
    deadline = asyncio.get_running_loop().time() + 50
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)


async def test_a_record_is_in_the_file_when_it_is_acknowledged(tmp_path: Path):
    journal = journal_at(tmp_path / "j")
    for number in range(1, 6):
        assert await journal.record(KIND, DATA, 3) == number
        assert numbers_in(tmp_path / "j") == list(range(1, number + 1))
    await journal.close()
    assert journal.size == os.path.getsize(tmp_path / "j")


async def test_records_that_wait_together_are_synced_together(tmp_path: Path):
    gate = threading.Event()

    def plan(operation: str, _count: int) -> None:
        if operation == "sync":
            gate.wait(60)

    faults = Faults(plan)
    journal = journal_at(tmp_path / "j", faults.files())
    first = journal.append(KIND, DATA)
    await until(lambda: faults.counts.get("sync") == 1)
    rest = [journal.append(KIND, DATA) for _ in range(100)]
    assert not first.done()
    gate.set()
    assert await asyncio.gather(first, *rest) == list(range(1, 102))
    assert faults.counts["sync"] == 2
    await journal.close()


async def test_a_record_that_may_linger_goes_with_the_next_one(tmp_path: Path):
    faults = Faults(lambda _operation, _count: None)
    journal = journal_at(tmp_path / "j", faults.files())
    company = [journal.append(KIND, DATA, linger_s=LINGER_S) for _ in range(3)]
    last = journal.append(KIND, DATA)
    assert await asyncio.gather(*company, last) == [1, 2, 3, 4]
    assert faults.counts["sync"] == 1
    await journal.close()


async def test_a_record_that_may_linger_gets_there_alone_by_a_flush_and_by_the_end(tmp_path: Path):
    journal = journal_at(tmp_path / "j")
    assert await journal.append(KIND, DATA, linger_s=LINGER_S) == 1, "by itself, a moment later"
    assert numbers_in(tmp_path / "j") == [1]
    second = journal.append(KIND, DATA, linger_s=LINGER_S)
    await journal.flush()
    assert second.done()
    assert numbers_in(tmp_path / "j") == [1, 2]
    third = journal.append(KIND, DATA, linger_s=LINGER_S)
    await journal.close()
    assert await third == 3
    assert numbers_in(tmp_path / "j") == [1, 2, 3]


async def test_the_shortest_wait_counts_for_all_that_linger(tmp_path: Path):
    faults = Faults(lambda _operation, _count: None)
    journal = journal_at(tmp_path / "j", faults.files())
    patient = journal.append(KIND, DATA, linger_s=3600)
    hurried = journal.append(KIND, DATA, linger_s=LINGER_S)
    last = journal.append(KIND, DATA, linger_s=3600)
    assert await asyncio.gather(patient, hurried, last) == [1, 2, 3]
    assert faults.counts["sync"] == 1
    await journal.close()


async def test_a_cancelled_wait_does_not_take_the_record_back(tmp_path: Path):
    journal = journal_at(tmp_path / "j")
    waiting = asyncio.create_task(journal.record(KIND, DATA))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await journal.flush()
    assert numbers_in(tmp_path / "j") == [1]
    await journal.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT])
@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_what_the_disk_refuses_waits_in_memory_until_it_takes_it(
    tmp_path: Path, operation: str, number: int
):
    failing = Failing(operation, number=number)
    states: list[SaveState] = []
    journal = journal_at(tmp_path / "j", Faults(failing).files(), states)
    await journal.record(KIND, DATA)
    failing.on = True
    waiting = [journal.append(KIND, DATA) for _ in range(3)]
    await until(lambda: not journal.state.saved)
    assert os.strerror(number) in journal.state.reason
    assert journal.state.waiting >= 1
    assert not any(saved.done() for saved in waiting)
    assert numbers_in(tmp_path / "j") == [1]
    failing.on = False
    assert await asyncio.gather(*waiting) == [2, 3, 4]
    assert numbers_in(tmp_path / "j") == [1, 2, 3, 4]
    assert [state.saved for state in states][-1]
    assert journal.state == SaveState(saved=True)
    await journal.close()


async def test_a_short_write_is_taken_back_and_written_again(tmp_path: Path):
    short = [True]

    def write(descriptor: int, data: bytes, offset: int) -> int:
        if short[0] and len(data) > 10:
            short[0] = False
            os.pwrite(descriptor, bytes(data)[:10], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwrite(descriptor, bytes(data)[:7], offset)

    journal = journal_at(tmp_path / "j", JournalFiles(write=write))
    assert await journal.record(KIND, DATA) == 1
    assert numbers_in(tmp_path / "j") == [1]
    await journal.close()


async def test_nothing_is_written_behind_a_torn_line_that_could_not_be_cut_off(tmp_path: Path):
    failing = Failing("truncate", "sync")
    journal = journal_at(tmp_path / "j", Faults(failing).files())
    await journal.record(KIND, DATA)
    failing.on = True
    saved = journal.append(KIND, DATA)
    await until(lambda: not journal.state.saved)
    failing.on = False
    await saved
    assert numbers_in(tmp_path / "j") == [1, 2]
    await journal.close()


async def test_closing_says_what_is_lost_and_fails_whoever_waits(tmp_path: Path):
    failing = Failing("write")
    journal = journal_at(tmp_path / "j", Faults(failing).files())
    failing.on = True
    waiting = asyncio.create_task(journal.record(KIND, DATA))
    flushed = asyncio.create_task(journal.flush())
    await until(lambda: not journal.state.saved)
    with pytest.raises(NotSavedError, match="1 records could not be written"):
        await journal.close()
    with pytest.raises(NotSavedError):
        await waiting
    await asyncio.wait([flushed])
    with pytest.raises(NotSavedError, match="came too late"):
        journal.append(KIND, DATA)


async def test_a_record_that_is_no_json_is_refused_and_uses_no_number(tmp_path: Path):
    journal = journal_at(tmp_path / "j")
    with pytest.raises(TypeError):
        journal.append(KIND, {"set": object()})
    assert await journal.record(KIND, DATA) == 1
    await journal.close()


@pytest.mark.parametrize("how", ["deleted", "replaced by a file", "journal deleted", "journal replaced"])
async def test_REL_007_a_run_goes_on_in_memory_when_its_folder_goes_and_can_be_saved_elsewhere(
    tmp_path: Path, how: str
):
    folder = tmp_path / "session"
    folder.mkdir()
    journal = journal_at(folder / "j")
    await journal.record(KIND, DATA)
    if how == "journal deleted":
        (folder / "j").unlink()
    elif how == "journal replaced":
        (folder / "j").unlink()
        (folder / "j").write_text("something else")
    else:
        shutil.rmtree(folder)
        if how == "replaced by a file":
            folder.write_text("now a file")
    second = journal.append(KIND, DATA)
    await until(lambda: not journal.state.saved)
    assert "deleted, replaced or taken over" in journal.state.reason
    third = journal.append(KIND, DATA)
    await asyncio.sleep(0.02)
    assert not second.done()
    assert not third.done()
    with pytest.raises(OSError, match="No such file"):
        await journal.move_to(str(tmp_path / "nowhere/j"))
    assert not second.done()
    (tmp_path / "elsewhere").mkdir()
    await journal.move_to(str(tmp_path / "elsewhere/j"))
    assert await asyncio.gather(second, third) == [2, 3]
    assert await journal.record(KIND, DATA) == 4
    assert numbers_in(tmp_path / "elsewhere/j") == [1, 2, 3, 4]
    assert journal.state == SaveState(saved=True)
    await journal.close()


async def test_a_thread_that_crashes_fails_everybody_who_waits(tmp_path: Path):
    class BugError(Exception):
        pass

    def write(_descriptor: int, _data: bytes, _offset: int) -> int:
        raise BugError

    caught: list[object] = []
    before, threading.excepthook = threading.excepthook, caught.append
    try:
        journal = journal_at(tmp_path / "j", JournalFiles(write=write))
        with pytest.raises(NotSavedError):
            await journal.record(KIND, DATA)
        with pytest.raises(NotSavedError):
            journal.append(KIND, DATA)
        with pytest.raises(NotSavedError):
            await journal.close()
    finally:
        threading.excepthook = before
    assert len(caught) == 1


async def test_the_loop_may_end_without_closing_the_journal(tmp_path: Path):
    def run() -> None:
        async def forget() -> None:
            journal_at(tmp_path / "j").append(KIND, DATA)

        asyncio.run(forget())

    await asyncio.to_thread(run)
    await until(lambda: (tmp_path / "j").exists() and numbers_in(tmp_path / "j") == [1])
