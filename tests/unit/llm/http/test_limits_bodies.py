"""Limits on answers: heads and interim answers are measured however they arrive, packed bodies come in
pieces."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.llm.http.engine import MAX_INTERIM_ANSWERS, HeadGauge
from buddy.llm.http.limits import UNZIPPED_PIECE, HttpError, unzip_for


@pytest.mark.parametrize("text", [b"", b"H", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\nHTTP"])
def test_an_incomplete_head_is_waited_for(text: bytes) -> None:
    assert HeadGauge().feed(text) == -1


@given(st.integers(1, 40), st.sampled_from([b"\r\n", b"\n"]))
def test_RU_M3_a_head_in_any_fragments_is_the_same(cut: int, end: bytes) -> None:
    interim = b"HTTP/1.1 100 Continue\n\nHTTP/1.1 103 Hints\nlink: a\n\n"
    text = (interim + b"HTTP/1.1 200 OK\nTransfer-encoding: Chunked\n\n").replace(b"\n", end) + b"body"
    gauge = HeadGauge()
    body_at = -1
    for at in range(0, len(text), cut):
        assert body_at == -1
        body_at = gauge.feed(text[at : at + cut])
        if body_at >= 0:
            break
    assert text[: at + body_at] + b"body" == text
    assert gauge.is_chunked


def test_RU_M3_interim_answers_are_counted() -> None:
    gauge = HeadGauge()
    for _ in range(MAX_INTERIM_ANSWERS):
        assert gauge.feed(b"HTTP/1.1 103 Early Hints\r\n\r\n") == -1
    with pytest.raises(HttpError, match="interim"):
        gauge.feed(b"HTTP/1.1 100 Continue\r\n\r\n")


def test_RU_M3_heads_are_limited_however_many_came_before() -> None:
    gauge = HeadGauge()
    gauge.feed(b"HTTP/1.1 103 Early Hints\r\nx: " + b"y" * 60_000 + b"\r\n\r\n")
    assert gauge.feed(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 60_000) == -1
    with pytest.raises(HttpError, match="headers are longer"):
        gauge.feed(b"y" * 60_000)


def test_compressed_bodies_are_unpacked_although_nobody_asked() -> None:
    packed = gzip.compress(b"hello")
    undo = unzip_for("gzip")
    assert undo is not None
    assert b"".join([*undo.feed(packed[:9]), *undo.feed(packed[9:])]) == b"hello"
    assert unzip_for("identity") is None
    with pytest.raises(HttpError, match="was not asked for"):
        unzip_for("br")


@given(st.binary(max_size=400_000), st.integers(1, 5000))
def test_RU_M2_unpacked_pieces_are_small_and_whole(content: bytes, cut: int) -> None:
    packed = gzip.compress(content)
    undo = unzip_for("gzip")
    assert undo is not None
    pieces = [piece for at in range(0, len(packed), cut) for piece in undo.feed(packed[at : at + cut])]
    assert b"".join(pieces) == content
    assert max(map(len, pieces), default=0) <= UNZIPPED_PIECE


def test_RU_M2_a_bomb_is_unpacked_piece_by_piece() -> None:
    undo = unzip_for("gzip")
    assert undo is not None
    assert len(next(undo.feed(gzip.compress(b"\0" * 100_000_000)))) == UNZIPPED_PIECE
