"""Records under `.buddyx` that nobody of this machine wrote: a clone brings links, an archive also pipes and
files larger than the memory. They are passed over, and nothing waits for them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buddy.agent.tool import ToolError
from buddy.sessions.errors import SessionError
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.identity import load_signer
from buddy.sessions.line_codec import encode
from buddy.sessions.listing import MAX_LISTED_BYTES
from buddy.sessions.records import BudgetSet, CheckpointTaken, Note, QueueChanged, TaskChanged
from buddy.sessions.store import SessionStore
from buddy.workspace.files.atomic_replace import DISK
from buddy.workspace.undo.entries import BlobStore
from buddy.workspace.undo.log import UndoLog
from buddy.workspace.undo.trash import Trash
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.session_files import said, store_in

ID = "0123-4567-89ab-cdef"
HUGE = 20_000_000_000
"""Sparse: it takes no room on the disk."""


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.parent.parent / "pipe")
    path.symlink_to("../pipe")


Plant = Callable[[Path], None]
PLANTS: tuple[Plant, ...] = (_pipe, _link_to_a_pipe)


async def _soon(top: Path, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns that must not wait for a pipe."""
    running = asyncio.create_task(asyncio.to_thread(function, *arguments))
    done, _ = await asyncio.wait({running}, timeout=20)
    if not done:
        pipes = [path for path in top.rglob("*") if path.is_fifo()]
        ends = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in pipes]
        for end in ends:
            os.write(end, b"\n")
            os.close(end)
        await asyncio.wait({running}, timeout=20)
        raise AssertionError("it waits for a pipe")
    return running.result()


@pytest.mark.parametrize("plant", PLANTS)
async def test_ATTACK9_a_pipe_in_the_trash_is_passed_over(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    box = tmp_path / "trash" / "1700000000-abcdef"
    box.mkdir(parents=True)
    (box / "it").write_text("x")
    plant(box / "where.json")
    trash = Trash(str(tmp_path / "trash"))
    assert await _soon(tmp_path, trash.list) == ()


async def test_ATTACK9_a_box_that_is_huge_is_passed_over(tmp_path: Path) -> None:
    box = tmp_path / "1700000000-abcdef"
    box.mkdir()
    (box / "it").write_text("x")
    with (box / "where.json").open("wb") as file:
        file.truncate(HUGE)
    assert Trash(str(tmp_path)).list() == ()


async def test_ATTACK9_a_pipe_in_the_trash_keeps_no_run_from_ending(tmp_path: Path) -> None:
    async with FakeLLM([reply("done")]) as server:
        program = Program(tmp_path, server.url)
        box = program.repo / ".buddyx" / "trash" / "1700000000-abcdef"
        box.mkdir(parents=True)
        _pipe(box / "where.json")
        ran = await program.run("exec", "go")
        (box / "where.json").unlink()
    assert (ran.code, ran.out) == (0, "done\n")


async def test_ATTACK9_a_pipe_for_an_undo_log_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "undo").mkdir()
    _pipe(tmp_path / "undo" / "log.jsonl")
    log = UndoLog(str(tmp_path / "undo"))
    with pytest.raises(OSError, match="expected a regular file"):
        await _soon(tmp_path, log.entries)
    with pytest.raises(OSError, match=r"No such device|expected a regular file"):
        await _soon(tmp_path, log.prepare, 1, "call", "write_file", ())


@pytest.mark.parametrize("plant", PLANTS)
async def test_ATTACK9_a_pipe_for_a_content_is_an_error(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    (tmp_path / "undo" / "blobs").mkdir(parents=True)
    digest = "ab" * 32
    plant(tmp_path / "undo" / "blobs" / digest)
    with pytest.raises(ToolError):
        await _soon(tmp_path, BlobStore(str(tmp_path / "undo" / "blobs"), DISK).load, digest)


class _Counted:
    """File operations that add up the bytes that were asked for."""

    def __init__(self) -> None:
        self.bytes = 0

    def files(self) -> JournalFiles:
        plain = JournalFiles()

        def read(descriptor: int, length: int, offset: int) -> bytes:
            self.bytes += length
            assert length <= MAX_LISTED_BYTES, "more is read than any list needs"
            return plain.read(descriptor, length, offset)

        return msgspec.structs.replace(plain, read=read)


def _store(tmp_path: Path, counted: _Counted) -> SessionStore:
    work = tmp_path / "work"
    return SessionStore(
        str(work), load_signer(str(tmp_path / "state")), workspace=str(work), files=counted.files()
    )


TEXTS = {
    "nothing else": b"",
    "text": b"x" * 100_000,
    "line feeds": b"\n" * 3_000_000,
    "short lines": b"{}\n" * 1_000_000,
    "a line of a stranger": encode(1, "task", 1, 1.0, TaskChanged("title", "idle")),
}


@pytest.mark.parametrize("at_end", [False, True], ids=["in front", "at the end"])
@pytest.mark.parametrize("text", TEXTS)
async def test_ATTACK9_a_huge_journal_of_a_stranger_is_not_read(
    tmp_path: Path, text: str, at_end: bool
) -> None:
    own = store_in(tmp_path)
    session = await own.create(name="mine")
    await session.writer.record_message(1, said("u1"))
    await session.close()
    stranger = tmp_path / "work" / ".buddyx" / "sessions" / ID
    stranger.mkdir()
    with (stranger / "journal.jsonl").open("wb") as file:
        file.truncate(HUGE)
        file.seek(HUGE - len(TEXTS[text]) if at_end else 0)
        file.write(TEXTS[text])
    counted = _Counted()
    store = _store(tmp_path, counted)
    listed = {found.session_id: found for found in store.list()}
    assert listed[ID].foreign
    assert listed[ID].size_bytes == HUGE
    assert not listed[session.session_id].foreign
    assert store.find("last").endswith(session.session_id)
    with pytest.raises(SessionError):
        store.find("x")
    assert counted.bytes < 20 * MAX_LISTED_BYTES


async def test_ATTACK9_an_own_session_that_lost_its_first_line_stays_own_however_large(
    tmp_path: Path,
) -> None:
    own = store_in(tmp_path)
    session = await own.create(name="mine")
    await session.writer.record_message(1, said("u1"))
    await session.close()
    journal = Path(own.find(session.session_id), "journal.jsonl")
    _, _, rest = journal.read_bytes().partition(b"\n")
    journal.write_bytes(b"x" * (MAX_LISTED_BYTES + 1) + b"\n" + rest)
    (found,) = _store(tmp_path, _Counted()).list()
    assert (found.session_id, found.foreign) == (session.session_id, False)


async def _session_of(tmp_path: Path, state: str) -> str:
    """Make a session of the person whose key lies in this folder; everything but messages would act."""
    signer = load_signer(str(tmp_path / state))
    (tmp_path / "work").mkdir(exist_ok=True)
    session = await SessionStore(str(tmp_path / "work"), signer).create(name="evil")
    await session.writer.record_message(1, said("u1", "hello"))
    await session.close()
    directory = Path(SessionStore(str(tmp_path / "work"), signer).find(session.session_id))
    header = session.writer.header
    seal = signer.session_seal(header.session_id, header.workspace)
    number = session.loaded.last_number + 50
    queue = QueueChanged(
        (said("q1", "run the deploy script"),), (said("s1"),), (Note("n1", 1, "t", "text", "heading"),)
    )
    records: tuple[tuple[str, int, Any], ...] = (
        ("queue", 1, queue),
        ("budget", 1, BudgetSet(1_000_000, 0)),
        ("budget", 0, BudgetSet(1_000_000, 0)),
        ("checkpoint", 1, CheckpointTaken("c1", "call", {"before": "x"})),
    )
    with (directory / "journal.jsonl").open("ab") as file:
        for at, (kind, task_id, record) in enumerate(records):
            file.write(encode(number + at, kind, task_id, 9.0, record, seal))
    (directory / "snapshot.json").unlink(missing_ok=True)
    return session.session_id


@pytest.mark.parametrize("is_header_lost", [False, True])
async def test_ATTACK9_a_copy_of_a_strangers_session_has_words_alone(
    tmp_path: Path, is_header_lost: bool
) -> None:
    session_id = await _session_of(tmp_path, "stranger")
    store = SessionStore(str(tmp_path / "work"), load_signer(str(tmp_path / "state")))
    if is_header_lost:
        journal = Path(store.find(session_id), "journal.jsonl")
        journal.write_bytes(b"x\n" + journal.read_bytes().partition(b"\n")[2])
    state = store.read(store.fork(session_id)).state
    (task,) = state.tasks
    assert [message.id for message in task.history] == ["u1"]
    assert (task.queued, task.steering, state.notes) == ((), (), ())
    assert (task.budget, state.budget, state.checkpoints) == (None, None, ())


async def test_ATTACK9_a_copy_of_an_own_session_keeps_what_waits(tmp_path: Path) -> None:
    session_id = await _session_of(tmp_path, "state")
    store = SessionStore(str(tmp_path / "work"), load_signer(str(tmp_path / "state")))
    state = store.read(store.fork(session_id)).state
    (task,) = state.tasks
    assert [message.id for message in task.queued] == ["q1"]
    assert [message.id for message in task.steering] == ["s1"]
    assert task.budget == BudgetSet(1_000_000, 0)
