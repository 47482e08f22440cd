"""The rare ends: records of the wrong shape, files that are no files, races that are lost."""

from __future__ import annotations

import errno
import os
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.sessions.errors import FolderError
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.folder import check_real, make_sessions_folder
from buddy.sessions.journal import Appender
from buddy.sessions.line_codec import LineError, decode, encode, first_line, last_line, scan
from buddy.sessions.lock import LockedError, acquire, is_locked
from tests.support.session_files import add_bytes, replied, said, store_in


async def test_records_of_the_wrong_shape_are_reported_and_left_out(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    await session.writer.record_message(1, said("u1"))
    await session.close()
    deep = b'{"n":5,"kind":"message","task":1,"at":1.0,"data":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    add_bytes(session.directory, encode(3, "message", 1, 1.0, {"role": "narrator"}, session.seal))
    add_bytes(session.directory, encode(4, "renamed", 0, 1.0, ["not", "an", "object"], session.seal))
    add_bytes(session.directory, _with_checksum(deep))
    add_bytes(session.directory, encode(6, "message", 1, 1.0, replied("a1", "yes"), session.seal))
    loaded = store.read("last")
    assert loaded.tasks[0].record.history == (said("u1"), replied("a1", "yes"))
    assert len(loaded.problems) == 4
    assert store.list()[0].name == ""


def _with_checksum(body: bytes) -> bytes:
    return b'{"crc":"%08x",%s\n' % (zlib.crc32(body[1:]), body[1:])


async def test_a_header_of_the_wrong_shape_makes_a_session_foreign(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    await session.close()
    Path(session.directory, "snapshot.json").unlink()
    Path(session.directory, "journal.jsonl").write_bytes(encode(1, "session", 0, 1.0, {"version": "one"}))
    assert store.read(session.session_id).foreign


def test_a_line_is_no_line_when_any_byte_of_it_changed():
    line = encode(1, "message", 1, 1.0, said("u1")).rstrip(b"\n")
    decode(line)
    for at in range(len(line)):
        with pytest.raises(LineError):
            decode(line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :])


def test_a_good_line_behind_half_a_line_is_found():
    whole = encode(2, "message", 1, 1.0, said("u1"))
    found = scan(encode(1, "focus", 1, 1.0, {}) + whole[:40] + whole)
    assert [each.line.number for each in found.lines] == [1, 2]
    assert found.torn == 0


def test_records_that_come_twice_count_once():
    one, two = encode(1, "focus", 1, 1.0, {}), encode(2, "focus", 2, 1.0, {})
    found = scan(one + two + one + two)
    assert [each.line.number for each in found.lines] == [1, 2]
    assert len(found.problems) == 2


def test_only_regular_files_are_opened(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="expected a regular file"):
        JournalFiles().open(str(tmp_path / "pipe"), os.O_RDONLY)


def test_a_disk_that_takes_nothing_is_an_error(tmp_path: Path):
    files = msgspec.structs.replace(JournalFiles(), write=lambda _descriptor, _data, _offset: 0)
    with pytest.raises(OSError, match="wrote none"):
        files.replace(str(tmp_path / "file"), b"data")
    assert os.listdir(tmp_path) == []


def test_a_journal_that_lost_bytes_is_not_moved(tmp_path: Path):
    appender = Appender(JournalFiles(), str(tmp_path / "j"), 0)
    appender.append(b"0123456789\n")
    os.truncate(tmp_path / "j", 4)
    with pytest.raises(OSError, match="expected 11 bytes"):
        appender.move(str(tmp_path / "k"))
    appender.close()
    appender.close()
    assert os.listdir(tmp_path) == ["j"]


async def test_a_session_is_not_moved_onto_another(tmp_path: Path):
    store = store_in(tmp_path)
    one, two = await store.create(), await store.create()
    await two.close()
    with pytest.raises(FileExistsError, match="choose another folder"):
        await one.move_to(two.directory)
    assert not is_locked(two.directory, JournalFiles())
    await one.close()


def test_a_lock_that_was_replaced_while_it_was_taken_is_taken_again(tmp_path: Path):
    real = JournalFiles()
    replaced = []

    def flock(descriptor: int) -> None:
        real.flock(descriptor)
        if not replaced:
            replaced.append(True)
            (tmp_path / "other").write_text("")
            os.replace(tmp_path / "other", tmp_path / "lock")

    lock = acquire(str(tmp_path), msgspec.structs.replace(real, flock=flock))
    with pytest.raises(LockedError):
        acquire(str(tmp_path))
    lock.release()


def test_a_lock_nobody_can_look_at_counts_as_free(tmp_path: Path):
    def flock(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "lock").write_text("")
    assert not is_locked(str(tmp_path), msgspec.structs.replace(JournalFiles(), flock=flock))


def test_folders_that_are_none_are_named(tmp_path: Path):
    (tmp_path / ".buddyx").write_text("a file")
    with pytest.raises(FolderError, match="found a file; move it away"):
        make_sessions_folder(str(tmp_path))
    with pytest.raises(FolderError, match="found nothing"):
        check_real(str(tmp_path / "nothing"))
    with pytest.raises(FolderError, match="can't create"):
        make_sessions_folder(str(tmp_path / "no/such/workspace"))


async def test_a_list_skips_folders_that_are_no_sessions(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    await session.close()
    folder = Path(store.folder)
    (folder / "notes").mkdir()
    (folder / "aaaa-aaaa-aaaa-aaaa").mkdir()
    (folder / "bbbb-bbbb-bbbb-bbbb").symlink_to(session.directory)
    (folder / "cccc-cccc-cccc-cccc").write_text("a file")
    assert [row.session_id for row in store.list()] == [session.session_id]


async def test_a_fork_leaves_behind_a_grant_that_was_written_by_hand(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    await session.writer.record_grant("mine", {"tool": "read_file"})
    await session.close()
    forged = {"grant_id": "forged", "grant": {"tool": "run_shell"}, "seal": "00"}
    add_bytes(session.directory, encode(3, "grant", 0, 1.0, forged, session.seal))
    add_bytes(session.directory, encode(4, "grant", 0, 1.0, {"grant_id": 7}, session.seal))
    assert [grant.grant_id for grant in store.read(store.fork("last")).state.grants] == ["mine"]


_LINES = st.lists(
    st.one_of(
        st.integers(1, 40).map(lambda at: encode(at, "focus", 1, float(at), {"text": "x" * at})),
        st.sampled_from([b"\n", b"\r\n", b"no line\n", b'{"crc":"00000000",\n', b'{"crc":"']),
        st.binary(max_size=30),
    ),
    max_size=8,
)


@given(_LINES, st.integers(0, 60))
def test_one_end_is_found_as_in_the_whole(pieces: list[bytes], cut: int) -> None:
    data = b"".join(pieces)[cut:]
    good = [one.line for one in scan(data).lines]
    assert first_line(data) == (good[0] if good else None)
    last = last_line(data)
    assert last is None if not good else last is not None and last.number <= good[-1].number
    if last is not None and last.number == good[-1].number:
        assert last == good[-1]
