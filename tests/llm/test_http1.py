"""Answers of HTTP/1.1 are parsed the same however they arrive, and nothing malformed is guessed at."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.llm.http1 import (
    MAX_INTERIM_ANSWERS,
    UNZIPPED_PIECE,
    ChunkedBody,
    Head,
    HeadParser,
    HttpError,
    OpenBody,
    SizedBody,
    body_of,
    unzip_for,
)


def head_of(text: str) -> tuple[Head, bytes] | None:
    return HeadParser().feed(text.replace("\n", "\r\n").encode("latin-1"))


def test_a_head_has_a_status_and_headers_in_lower_case():
    assert head_of("HTTP/1.1 200 OK\nContent-Type: text/plain\nX-A: 1\nx-a: 2\n\nbody") == (
        Head(200, {"content-type": "text/plain", "x-a": "1, 2"}, is_reusable=True),
        b"body",
    )


def test_interim_answers_are_skipped():
    found = head_of("HTTP/1.1 100 Continue\n\nHTTP/1.1 103 Early Hints\nlink: x\n\nHTTP/1.1 204 \n\n")
    assert found == (Head(204, {}, is_reusable=True), b"")


@pytest.mark.parametrize("text", ["", "H", "HTTP/1.1 200 OK\n", "HTTP/1.1 100 Continue\n\nHTTP"])
def test_an_incomplete_head_is_waited_for(text):
    assert head_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "SSH-2.0-OpenSSH\n\n",
        "S",
        "HTTP/2 200\n\n",
        "HTTP/1.1 abc\n\n",
        "HTTP/1.1 200 OK\nno colon\n\n",
        "HTTP/1.1 200 OK\n folded: x\n\n",
        "HTTP/1.1 200 OK\nname : x\n\n",
        "HTTP/1.1 200 OK\n" + "x: y\n" * 20_000,
    ],
)
def test_what_is_no_head_is_refused(text):
    with pytest.raises(HttpError):
        head_of(text)


@pytest.mark.parametrize(
    ("text", "is_reusable"),
    [
        ("HTTP/1.1 200 OK\n\n", True),
        ("HTTP/1.1 200 OK\nConnection: Close\n\n", False),
        ("HTTP/1.0 200 OK\n\n", False),
        ("HTTP/1.1 200 OK\ntransfer-encoding: chunked\ncontent-length: 5\n\n", False),
    ],
)
def test_whether_the_connection_lives_on(text, is_reusable):
    found = head_of(text)
    assert found is not None
    assert found[0].is_reusable is is_reusable


def framing(**headers: str) -> type:
    return type(body_of(Head(200, {name.replace("_", "-"): value for name, value in headers.items()}, True)))


def test_the_headers_say_how_a_body_ends():
    assert framing() is OpenBody
    assert framing(content_length="5") is SizedBody
    assert framing(content_length="5, 5") is SizedBody
    assert framing(transfer_encoding="Chunked", content_length="5") is ChunkedBody
    assert type(body_of(Head(204, {}, True))) is SizedBody


@pytest.mark.parametrize(
    "headers",
    [
        {"content-length": "5, 6"},
        {"content-length": "-1"},
        {"content-length": "x"},
        {"transfer-encoding": "gzip, chunked"},
    ],
)
def test_framings_that_contradict_themselves_are_refused(headers):
    with pytest.raises(HttpError):
        body_of(Head(200, headers, True))


def test_a_sized_body_knows_what_is_missing_and_what_is_too_much():
    body = SizedBody(4)
    assert (body.feed(b"ab"), body.is_done) == (b"ab", False)
    with pytest.raises(HttpError, match="2 bytes of the answer are missing"):
        body.end()
    assert body.feed(b"c") == b"c"
    with pytest.raises(HttpError, match="1 byte of the answer is missing"):
        body.end()
    assert (body.feed(b"def"), body.is_done, body.rest) == (b"d", True, b"ef")


def test_an_open_body_ends_with_the_connection():
    body = OpenBody()
    assert body.feed(b"ab") == b"ab"
    body.end()
    assert body.is_done


CHUNKED = b'5;name="x"\r\nhello\r\nA\r\n, world!!!\r\n0\r\ntrailer: x\r\n\r\nrest'


@given(st.lists(st.integers(1, 7), min_size=1, max_size=60))
def test_chunks_are_the_same_however_they_arrive(sizes):
    body, out, at = ChunkedBody(), b"", 0
    index = 0
    while at < len(CHUNKED) and not body.is_done:
        size = sizes[index % len(sizes)]
        out += body.feed(CHUNKED[at : at + size])
        at += size
        index += 1
    assert (out, body.is_done) == (b"hello, world!!!", True)
    assert b"rest".startswith(body.rest)


def test_large_chunks_pass_piece_by_piece():
    body = ChunkedBody()
    assert body.feed(b"186A0\r\n" + b"x" * 10) == b"x" * 10
    assert sum(len(body.feed(b"x" * 9_999)) for _ in range(10)) == 99_990
    assert body.feed(b"\r\n0\r\n\r\n") == b""
    assert body.is_done


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"x\r\n",
        b"-5\r\n",
        b"0x5\r\n",
        b"5_0\r\n",
        b"+5\r\n",
        b"f" * 20 + b"\r\n",
        b"2\r\nabcd\r\n",
        b"1" * 5_000,
    ],
)
def test_malformed_chunks_are_refused(data):
    with pytest.raises(HttpError):
        ChunkedBody().feed(data)


def test_a_chunked_body_without_its_last_chunk_has_no_end():
    body = ChunkedBody()
    body.feed(b"2\r\nab\r\n")
    with pytest.raises(HttpError, match="no end"):
        body.end()


def test_compressed_bodies_are_unpacked_although_nobody_asked():
    packed = gzip.compress(b"hello")
    undo = unzip_for("gzip")
    assert undo is not None
    assert b"".join([*undo.feed(packed[:9]), *undo.feed(packed[9:])]) == b"hello"
    assert unzip_for("identity") is None
    with pytest.raises(HttpError, match="was not asked for"):
        unzip_for("br")


@given(st.binary(max_size=400_000), st.integers(1, 5000))
def test_RU_M2_unpacked_pieces_are_small_and_whole(content, cut):
    packed = gzip.compress(content)
    undo = unzip_for("gzip")
    assert undo is not None
    pieces = [piece for at in range(0, len(packed), cut) for piece in undo.feed(packed[at : at + cut])]
    assert b"".join(pieces) == content
    assert max(map(len, pieces), default=0) <= UNZIPPED_PIECE


def test_RU_M2_a_bomb_is_unpacked_piece_by_piece():
    undo = unzip_for("gzip")
    assert undo is not None
    assert len(next(undo.feed(gzip.compress(b"\0" * 100_000_000)))) == UNZIPPED_PIECE


def test_RU_M3_interim_answers_are_counted():
    parser = HeadParser()
    for _ in range(MAX_INTERIM_ANSWERS):
        assert parser.feed(b"HTTP/1.1 103 Early Hints\r\n\r\n") is None
    with pytest.raises(HttpError, match="interim"):
        parser.feed(b"HTTP/1.1 100 Continue\r\n\r\n")


def test_RU_M3_heads_are_limited_however_many_came_before():
    parser = HeadParser()
    parser.feed(b"HTTP/1.1 103 Early Hints\r\nx: " + b"y" * 60_000 + b"\r\n\r\n")
    assert parser.feed(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 60_000) is None
    with pytest.raises(HttpError, match="headers are longer"):
        parser.feed(b"y" * 60_000)


@given(st.integers(1, 40))
def test_RU_M3_a_head_in_any_fragments_is_the_same(cut):
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: a\r\n\r\n"
    text = interim + b"HTTP/1.1 200 OK\r\nx: y\r\n\r\nbody"
    parser = HeadParser()
    at, found = 0, None
    while found is None:
        found = parser.feed(text[at : at + cut])
        at += cut
    assert found[0] == Head(200, {"x": "y"}, is_reusable=True)
    assert found[1] + text[at:] == b"body"


def test_RU_M3_trailers_are_counted():
    body = ChunkedBody()
    with pytest.raises(HttpError, match="trailers"):
        body.feed(b"0\r\n" + b"a: b\r\n" * 10_000)
