"""Bytes become events, however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.llm.direct.response_reader import MAX_EVENT_BYTES, SseError, SseEvent, SseParser


def events(*chunks: bytes) -> list[tuple[str, bytes]]:
    parser = SseParser()
    found = [event for chunk in chunks for event in parser.feed(chunk)]
    return [(event.name, event.data) for event in [*found, *parser.end()]]


def test_an_event_has_a_name_and_its_lines():
    assert events(b"event: delta\ndata: one\ndata: two\n\n") == [("delta", b"one\ntwo")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_kind_of_line_end_counts_even_cut_in_the_middle(end):
    stream = b"data: a" + end + end + b"event: e" + end + b"data:b" + end + end
    assert events(stream) == [("", b"a"), ("e", b"b")]
    assert events(*[stream[at : at + 1] for at in range(len(stream))]) == [("", b"a"), ("e", b"b")]


def test_comments_blank_lines_ids_and_a_byte_order_mark_make_no_event():
    assert events(b"\xef\xbb\xbf: hello\n\n\n\nid: 7\nretry: 10\nunknown\ndata: x\n\n: bye\n\n") == [
        ("", b"x")
    ]


def test_the_last_event_counts_without_its_blank_line():
    assert events(b"data: a\n\ndata: [DONE]") == [("", b"a"), ("", b"[DONE]")]
    assert events(b"data: a\n\ndata: [DONE]\n") == [("", b"a"), ("", b"[DONE]")]


def test_a_bare_json_line_is_an_event_of_its_own():
    assert events(b'data: a\n\n{"error": "x"}\n') == [("", b"a"), ("", b'{"error": "x"}')]


def test_only_one_blank_after_the_colon_is_taken():
    assert events(b"data:  a\n\ndata:b\n\ndata:\n\n") == [("", b" a"), ("", b"b"), ("", b"")]


def feed_often(parser: SseParser, chunk: bytes) -> None:
    for _ in range(MAX_EVENT_BYTES // len(chunk) + 2):
        parser.feed(chunk)


def test_a_line_without_end_is_refused_before_it_fills_the_memory():
    with pytest.raises(SseError, match="longer than 16 MB"):
        feed_often(SseParser(), b"x" * 1_000_000)


def test_an_event_of_endless_lines_is_refused_too():
    with pytest.raises(SseError):
        feed_often(SseParser(), b"data: " + b"x" * 1_000_000 + b"\n")


def test_a_long_line_that_fits_arrives_whole():
    data = b"y" * 5_000_000
    assert events(b"data: ", *(data[at : at + 65_536] for at in range(0, len(data), 65_536)), b"\n\n") == [
        ("", data)
    ]


lines = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data",
        b"event: e",
        b": c",
        b"",
        b"id: 1",
        b'{"x":1}',
        b"data: \xc3\xa9",
        b"\xff",
    ]
)


@given(
    st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=12),
    st.lists(st.integers(1, 5), min_size=1, max_size=20),
)
def test_any_fragmentation_gives_the_same_events(stream, sizes):
    whole = b"".join(line + end for line, end in stream)
    chunks, at = [], 0
    while at < len(whole):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(whole[at : at + size])
        at += size
    assert events(*chunks) == events(whole)


def test_events_are_records():
    assert SseParser().feed(b"data: x\n\n") == [SseEvent("", b"x")]
