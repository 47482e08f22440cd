"""REL cases of the lock: one writer, a dead holder's lock is free, taking over is explicit."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.lock import Holder, LockedError, acquire, holder_state, is_locked, take_over
from tests.support.session_files import said, store_in

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import asyncio, sys
from pathlib import Path
from tests.support.session_files import said, store_in
async def main():
    session = await store_in(Path(sys.argv[1])).open("last")
    await session.writer.record_message(1, said("theirs"))
    print("held", flush=True)
    for line in iter(sys.stdin.readline, ""):
        saved = session.writer.record_message(1, said(line.strip()))
        while not saved.done() and session.writer.save_state.saved:
            await asyncio.sleep(0.005)
        print("saved" if saved.done() else session.writer.save_state.reason, flush=True)
asyncio.run(main())
"""
HOLD_FILE = """
import sys
from buddy.sessions.lock import acquire
from tests.faults.test_lock_faults import without_flock
lock = acquire(sys.argv[1], without_flock())
print("held", flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def holder(script: str, argument: Path | str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(argument)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        assert child.stdout.readline() == "held\n"
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        child.stdin.close()


def without_flock() -> JournalFiles:
    def flock(_descriptor: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    return msgspec.structs.replace(JournalFiles(), flock=flock)


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    session = await store_in(tmp_path).create()
    await session.close()
    return tmp_path


async def test_REL_015_while_another_process_lives_a_session_is_read_or_forked(workspace: Path):
    store = store_in(workspace)
    with holder(HOLD, workspace) as child:
        with pytest.raises(LockedError, match="Open in another buddy") as caught:
            await store.open("last")
        assert caught.value.state == "alive"
        assert caught.value.holder is not None
        assert caught.value.holder.pid == child.pid
        assert store.read("last").tasks[0].record.history == (said("theirs"),)
        forked = await store.open(store.fork("last"))
        await forked.writer.record_message(1, said("mine"))
        await forked.close()


async def test_REL_015_a_dead_holder_has_no_lock(workspace: Path):
    with holder(HOLD, workspace) as child:
        child.kill()
        child.wait()
        session = await store_in(workspace).open("last")
        assert session.warning == ""
        assert session.loaded.tasks[0].record.history == (said("theirs"),)
        await session.close()


async def test_REL_015_a_stopped_holder_is_recognised_and_can_be_overtaken(workspace: Path):
    store = store_in(workspace)
    with holder(HOLD, workspace) as child:
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(LockedError) as caught:
            await store.open("last")
        if sys.platform == "linux":
            assert caught.value.state == "stopped"
        session = await store.open("last", take_over=True)
        await session.writer.record_message(1, said("mine"))

        os.kill(child.pid, signal.SIGCONT)
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("late\n")
        child.stdin.flush()
        answer = await asyncio.to_thread(child.stdout.readline)
        assert "was deleted, replaced or taken over" in answer
        await session.writer.record_message(1, said("mine too"))
        await session.close()
    assert store.read("last").tasks[0].record.history == (said("theirs"), said("mine"), said("mine too"))
    assert store.read("last").problems == ()


async def test_taking_over_keeps_what_the_holder_saved_at_the_last_moment(workspace: Path):
    store = store_in(workspace)
    session = await store.open("last")
    journal = os.path.join(session.directory, "journal.jsonl")
    real = JournalFiles()
    late = []

    def rename(old: str, new: str) -> None:
        if new == journal:  # between the copy and the rename
            late.append(session.writer.record_message(1, said("last moment")))
            session.writer.journal._thread.join(0.3)
        real.rename(old, new)

    lock = take_over(session.directory, journal, msgspec.structs.replace(real, rename=rename))
    await late[0]
    lock.release()
    assert store.read("last").tasks[0].record.history == (said("last moment"),)
    with contextlib.suppress(Exception):
        await session.close()


def test_a_lock_that_was_released_is_free(tmp_path: Path):
    lock = acquire(str(tmp_path))
    assert is_locked(str(tmp_path), JournalFiles())
    with pytest.raises(LockedError):
        acquire(str(tmp_path))
    lock.release()
    lock.release()
    assert not is_locked(str(tmp_path), JournalFiles())
    acquire(str(tmp_path)).release()


def test_REL_017_without_flock_a_lock_file_guards_the_session_and_a_warning_says_so(tmp_path: Path):
    files = without_flock()
    lock = acquire(str(tmp_path), files)
    assert "no flock" in lock.warning
    assert is_locked(str(tmp_path), files)
    with pytest.raises(LockedError) as caught:
        acquire(str(tmp_path), files)
    assert caught.value.holder is not None
    assert caught.value.holder.pid == os.getpid()
    lock.release()
    assert not is_locked(str(tmp_path), files)
    acquire(str(tmp_path), files).release()
    assert sorted(os.listdir(tmp_path)) == ["lock"]


def test_REL_017_a_dead_holders_lock_file_is_free_at_once(tmp_path: Path):
    files = without_flock()
    with holder(HOLD_FILE, tmp_path) as child:
        with pytest.raises(LockedError):
            acquire(str(tmp_path), files)
        child.kill()
        child.wait()
        assert not is_locked(str(tmp_path), files)
        lock = acquire(str(tmp_path), files)
        assert is_locked(str(tmp_path), files)
        lock.release()


def test_REL_017_of_many_processes_at_a_dead_lock_exactly_one_gets_it(tmp_path: Path):
    files = without_flock()
    with holder(HOLD_FILE, tmp_path) as child:
        child.kill()
        child.wait()
    contender = (
        "import sys, time\n"
        "from buddy.sessions.lock import acquire, LockedError\n"
        "from tests.faults.test_lock_faults import without_flock\n"
        "try:\n"
        "    lock = acquire(sys.argv[1], without_flock()); print('held', flush=True); sys.stdin.readline()\n"
        "except LockedError:\n"
        "    print('locked', flush=True)\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", contender, str(tmp_path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    answers = [child.stdout.readline() for child in children if child.stdout is not None]
    for child in children:
        child.communicate()
    assert sorted(answers) == ["held\n", "locked\n", "locked\n", "locked\n"]
    acquire(str(tmp_path), files).release()


def test_a_lock_of_another_machine_is_never_taken_for_dead(tmp_path: Path):
    files = without_flock()
    (tmp_path / "lock.held").write_text('{"pid": 1, "host": "elsewhere", "since": 1.0}')
    (tmp_path / "lock.held").chmod(0o600)
    with pytest.raises(LockedError) as caught:
        acquire(str(tmp_path), files)
    assert caught.value.state == "unknown"
    (tmp_path / "journal.jsonl").write_bytes(b"")
    lock = take_over(str(tmp_path), str(tmp_path / "journal.jsonl"), files)
    assert is_locked(str(tmp_path), files)
    lock.release()


def test_a_process_number_that_was_used_again_is_another_process():
    here = os.uname().nodename
    assert holder_state(Holder(os.getpid(), here, 0.0)) == "alive"
    if sys.platform == "linux":
        assert holder_state(Holder(os.getpid(), here, 0.0, "12")) == "gone"
    assert holder_state(Holder(2**22 + 1, here, 0.0)) == "gone"


def test_a_disk_that_refuses_locks_altogether_is_an_error(tmp_path: Path):
    def flock(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(OSError, match="Input/output"):
        acquire(str(tmp_path), msgspec.structs.replace(JournalFiles(), flock=flock))
