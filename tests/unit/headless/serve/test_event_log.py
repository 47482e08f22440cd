from __future__ import annotations

import random

from buddy.headless.formats import parse_sse_event
from buddy.headless.serve.event_log import EventLog


def _log(count: int, max_bytes: int = 1_000_000) -> EventLog:
    log = EventLog(max_bytes=max_bytes)
    for number in range(1, count + 1):
        log.append("number", b'{"n":%d}' % number)
    return log


def _numbers(data: bytes) -> list[int]:
    return [parse_sse_event(record).data["n"] for record in data.decode().split("\n\n") if record]


def test_a_reader_begins_now() -> None:
    log = _log(3)
    reader = log.follow("")
    assert reader is not None
    assert reader.take(1_000) == b""
    log.append("number", b'{"n":4}')
    assert _numbers(reader.take(1_000)) == [4]


def test_a_reader_continues_after_any_id_that_is_kept() -> None:
    log = _log(5)
    for position in range(6):
        reader = log.follow(log.id_of(position))
        assert reader is not None
        assert _numbers(reader.take(1_000)) == list(range(position + 1, 6))


def test_an_id_that_names_nothing_is_refused() -> None:
    log = _log(5)
    run = log.id_of(0).partition("-")[0]
    for last_id in (
        "x",
        "-1",
        "0-1",
        f"{run}-6",
        f"{run}--1",
        f"{run}-",
        f"{run}-٣",
        f"{run}-1 ",
        run,
        f"{run}-{'9' * 30}",
    ):
        assert log.follow(last_id) is None, last_id
    assert EventLog().follow(log.id_of(3)) is None


def test_taking_is_bounded_and_gives_at_least_one_record() -> None:
    log = _log(100)
    reader = log.follow(log.id_of(0))
    assert reader is not None
    assert _numbers(reader.take(1)) == [1]
    assert 1 < len(_numbers(reader.take(200))) < 10


def test_old_records_go_and_the_newest_stays() -> None:
    log = _log(1_000, max_bytes=2_000)
    assert log.kept_bytes <= 2_000
    assert (log.newest, log.follow(log.id_of(1))) == (1_000, None)
    log.append("number", b'{"n":%s}' % (b"1" * 5_000))
    reader = log.follow(log.id_of(1_000))
    assert reader is not None
    assert len(reader.take(1)) > 5_000


def test_a_reader_that_fell_behind_knows_it() -> None:
    log = _log(1)
    reader = log.follow("")
    assert reader is not None
    log_size = log.kept_bytes
    assert not reader.is_behind
    small = EventLog(max_bytes=10 * log_size)
    slow = small.follow("")
    assert slow is not None
    for number in range(100):
        small.append("number", b'{"n":%d}' % number)
    assert slow.is_behind
    slow.skip_to_end()
    assert (slow.is_behind, slow.take(1_000)) == (False, b"")


def test_readers_see_every_record_once_in_order_whatever_they_take() -> None:
    chance = random.Random(7)
    log = EventLog()
    readers = [log.follow("") for _ in range(5)]
    seen: list[list[int]] = [[] for _ in readers]
    for number in range(2_000):
        log.append("number", b'{"n":%d}' % number)
        at = chance.randrange(5)
        reader = readers[at]
        assert reader is not None
        seen[at] += _numbers(reader.take(chance.randrange(1, 400)))
    for at, reader in enumerate(readers):
        assert reader is not None
        while data := reader.take(100_000):
            seen[at] += _numbers(data)
    assert seen == [list(range(2_000))] * 5


def test_announcing_and_closing_wake_readers() -> None:
    log = _log(1)
    reader = log.follow("")
    assert reader is not None
    log.announce()
    assert reader.wake.is_set()
    reader.wake.clear()
    log.close()
    assert reader.wake.is_set()
    assert log.is_closed
    reader.close()
    assert log.readers == set()


class _Connection:
    """A connection that takes so many chunks."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.chunks: list[bytes] = []

    def push(self, chunk: bytes) -> bool:
        assert chunk, "an empty chunk ends a body of HTTP"
        if len(self.chunks) == self.room:
            return False
        self.chunks.append(chunk)
        return True


def test_live_readers_are_handed_the_same_bytes_and_not_woken() -> None:
    log = _log(3)
    readers, connections = [log.follow("") for _ in range(3)], [_Connection(9) for _ in range(3)]
    for reader, connection in zip(readers, connections, strict=True):
        assert reader is not None
        reader.go_live(connection.push)
    for _ in range(2):
        log.append("number", b'{"n":4}')
        log.append("number", b'{"n":5}')
        log.announce()
        log.announce()  # nothing new
    assert [len(connection.chunks) for connection in connections] == [2, 2, 2]
    assert len({id(connection.chunks[0]) for connection in connections}) == 1
    assert _numbers(b"".join(connections[0].chunks)) == [4, 5, 4, 5]
    assert not any(reader.wake.is_set() for reader in readers if reader is not None)
    assert all(reader.take(1_000) == b"" for reader in readers if reader is not None)
    log.close()
    assert all(reader.wake.is_set() for reader in readers if reader is not None)


def test_a_live_reader_whose_connection_is_full_goes_on_by_itself() -> None:
    log = _log(1)
    reader, connection = log.follow(""), _Connection(1)
    assert reader is not None
    reader.go_live(connection.push)
    for number in (2, 3, 4):
        log.append("number", b'{"n":%d}' % number)
        log.announce()
    assert _numbers(b"".join(connection.chunks)) == [2]
    assert reader.wake.is_set()
    assert _numbers(reader.take(1_000)) == [3, 4]


def test_a_live_reader_that_is_behind_after_one_frame_is_told() -> None:
    log = _log(1, max_bytes=1_000)
    reader, connection = log.follow(""), _Connection(9)
    assert reader is not None
    reader.go_live(connection.push)
    for _ in range(100):
        log.append("number", b'{"n":7}')
    log.announce()
    assert connection.chunks == []
    assert reader.wake.is_set()
    assert reader.is_behind


def test_the_rest_reaches_live_readers_when_the_log_closes() -> None:
    log = _log(1)
    reader, connection = log.follow(""), _Connection(9)
    assert reader is not None
    reader.go_live(connection.push)
    log.append("number", b'{"n":2}')
    log.close()
    assert _numbers(b"".join(connection.chunks)) == [2]
    assert reader.position == log.newest
