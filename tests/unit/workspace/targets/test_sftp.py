"""Answers of an sftp server that lies, goes on for ever or stays silent: each ends one call with an error."""

from __future__ import annotations

import io
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from buddy.workspace.targets import pipes, sftp
from buddy.workspace.targets.sftp import SftpClient
from buddy.workspace.targets.transport import Cancellation, TargetError

STATUS, HANDLE, DATA, NAME, ATTRS = 101, 102, 103, 104, 105
OPEN, CLOSE, READ, OPENDIR, READDIR, REALPATH, READLINK = 3, 4, 5, 11, 12, 16, 19
Answer = Callable[[int, bytes], tuple[int, bytes] | None]
"""Returns kind and content for a request's kind and content; None leaves it without an answer."""


def text(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def status(code: int) -> tuple[int, bytes]:
    return STATUS, struct.pack(">I", code) + text(b"words") + text(b"")


def entry(name: bytes) -> bytes:
    return text(name) + text(b"") + struct.pack(">IQI", 5, 3, 0o100644)


class Server:
    """A scripted server behind two pipes; it answers in a thread until its input ends."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        back, self._to_client = os.pipe()
        self._from_client, to = os.pipe()
        self.back, self.to = io.BufferedReader(io.FileIO(back)), io.BufferedWriter(io.FileIO(to, "w"))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with open(self._from_client, "rb") as requests, suppress(OSError):
            while len(head := requests.read(4)) == 4:
                request = requests.read(struct.unpack(">I", head)[0])
                if request[0] == 1:
                    os.write(self._to_client, text(b"\x02\0\0\0\x03"))
                    continue
                answer = self._answer(request[0], request[5:])
                if answer is not None:
                    os.write(self._to_client, text(bytes((answer[0],)) + request[1:5] + answer[1]))

    def close(self) -> None:
        for stream in (self.to, self.back):
            stream.close()
        os.close(self._to_client)
        self._thread.join(10)


@contextmanager
def client_of(answer: Answer, *, limit_s: float = 20) -> Iterator[SftpClient]:
    server = Server(answer)
    try:
        yield SftpClient(server.to, server.back, lambda reason: TargetError(reason), limit_s=limit_s)
    finally:
        server.close()


def answers(**by_kind: tuple[int, bytes] | None) -> Answer:
    """Return a server that answers each kind of request always the same, and gives handles."""
    kinds = {globals()[name]: answer for name, answer in by_kind.items()}
    usual = {OPEN: (HANDLE, text(b"h")), OPENDIR: (HANDLE, text(b"h")), CLOSE: status(0)}
    return lambda kind, _content: {**usual, **kinds}[kind]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\0\x01",
        b"\0\0\0\x01\xff\xff\xff\xff/",
        struct.pack(">I", 1) + text(b""),
        struct.pack(">I", 1) + text(b"relative"),
        struct.pack(">I", 1) + text(b"/srv/app/../../etc"),
        struct.pack(">I", 1) + text(b"/a\0b"),
    ],
)
def test_a_real_path_that_is_none_is_refused(content: bytes) -> None:
    with client_of(answers(REALPATH=(NAME, content))) as client:
        with pytest.raises(TargetError, match="protocol"):
            client.real_path("a")
        assert not client.is_usable


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\0\x00", b"\xff\xff\xff\xff" + entry(b"a"), b"\0\0\0\x01" + text(b"a") + text(b"")]
)
def test_a_listing_that_breaks_the_protocol_is_refused(content: bytes) -> None:
    with client_of(answers(READDIR=(NAME, content))) as client, pytest.raises(TargetError, match="protocol"):
        client.list("/srv")


def test_an_endless_listing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sftp, "MAX_ENTRIES", 300)  # a number of the module, not its work
    many = struct.pack(">I", 100) + b"".join(entry(b"%d" % number) for number in range(100))
    with client_of(answers(READDIR=(NAME, many))) as client, pytest.raises(OSError, match="more than 300"):
        client.list("/srv")


def test_names_that_no_file_has_are_left_out() -> None:
    names = (b"a", b"", b".", b"..", b"../b", b"/etc/passwd", b"c\0d", b"e f")
    pages = iter([(NAME, struct.pack(">I", len(names)) + b"".join(map(entry, names))), status(1)])
    usual = answers()
    with client_of(lambda kind, content: next(pages) if kind == READDIR else usual(kind, content)) as client:
        assert [name for name, _ in client.list("/srv")] == ["a", "e f"]


@pytest.mark.parametrize("size", [0, 32_769, 900_000])
def test_data_of_a_size_that_was_not_asked_for_is_refused(size: int) -> None:
    with (
        client_of(answers(READ=(DATA, text(b"x" * size)))) as client,
        pytest.raises(TargetError, match="protocol"),
    ):
        client.read("/a", 100_000, 100_000)


def test_a_file_in_single_bytes_without_end_is_given_up() -> None:
    with client_of(answers(READ=(DATA, text(b"x")))) as client, pytest.raises(TargetError, match="protocol"):
        client.read("/a", 10_000_000, 10_000_000)


def test_a_silent_server_ends_the_call() -> None:
    with client_of(answers(READ=None), limit_s=0.2) as client:
        with pytest.raises(TargetError, match=r"did not answer for 0\.2 s"):
            client.read("/a", 100, 100)
        assert not client.is_usable


def test_a_server_that_takes_nothing_ends_the_call() -> None:
    taking, stop = threading.Event(), threading.Event()

    def answer(kind: int, content: bytes) -> tuple[int, bytes] | None:
        if kind == 6:  # a write: from now on nothing is read
            taking.set()
            stop.wait(20)
        return answers()(kind, content) if kind != 6 else None

    with client_of(answer, limit_s=0.3) as client:
        with pytest.raises(TargetError, match="did not answer"):
            client.write_new("/a", bytes(2_000_000), 0o644, None)
        assert taking.is_set()
        stop.set()


def test_a_packet_in_many_pieces_is_read_whole() -> None:
    data = os.urandom(30_000)
    pages = iter([(DATA, text(data)), status(1)])
    usual = answers()
    with client_of(lambda kind, content: next(pages) if kind == READ else usual(kind, content)) as client:
        assert client.read("/a", 60_000, 0) == data


def drops(seconds: float, count: int) -> Answer:
    """Return a server that lists a folder one entry after the other, with a pause before each."""
    pages = iter(range(count))
    usual = answers()

    def answer(kind: int, content: bytes) -> tuple[int, bytes] | None:
        if kind != READDIR:
            return usual(kind, content)
        time.sleep(seconds)
        number = next(pages, None)
        return status(1) if number is None else (NAME, struct.pack(">I", 1) + entry(b"%d" % number))

    return answer


def test_ATTACK10_an_answer_in_drops_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "REQUEST_LIMIT_S", 0.5)  # a number of the module, not its work
    with client_of(drops(0.2, 40)) as client:
        client.begin(None)
        with pytest.raises(TargetError, match="it had not answered in full"):
            client.list("/srv")
        assert not client.is_usable


def test_ATTACK10_a_cancelled_call_waits_for_no_more_drops() -> None:
    with client_of(drops(0.2, 40)) as client:
        client.begin(Cancellation(lambda: True, grace_s=0.3))
        with pytest.raises(TargetError, match="the call was cancelled"):
            client.list("/srv")
        assert not client.is_usable


def test_an_answer_in_drops_is_read_while_there_is_time() -> None:
    with client_of(drops(0.01, 20)) as client:
        client.begin(Cancellation(lambda: False))
        assert len(client.list("/srv")) == 20


@pytest.mark.parametrize("kind", ["READDIR", "OPENDIR", "REALPATH", "READLINK"])
def test_ATTACK10_a_name_longer_than_any_path_breaks_the_protocol(kind: str) -> None:
    long = b"/" + b"n" * 100_000
    content = text(long) if kind == "OPENDIR" else struct.pack(">I", 1) + entry(long)
    answer = (HANDLE if kind == "OPENDIR" else NAME, content)
    with client_of(answers(**{kind: answer})) as client, pytest.raises(TargetError, match="protocol"):
        {"REALPATH": client.real_path, "READLINK": client.read_link}.get(kind, client.list)("/srv")


def test_ATTACK10_the_names_of_a_folder_have_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sftp, "MAX_NAMES_BYTES", 5_000)  # a number of the module, not its work
    page = struct.pack(">I", 1) + entry(b"n" * 1_000)
    with client_of(answers(READDIR=(NAME, page))) as client, pytest.raises(OSError, match="more than"):
        client.list("/srv")
