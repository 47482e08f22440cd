"""Joined chunks are the same body, however they arrive and whatever follows them."""

from __future__ import annotations

import h11
from hypothesis import given
from hypothesis import strategies as st

from buddy.llm.http.limits import ChunkJoiner

PIECES = st.lists(st.binary(min_size=1, max_size=70), max_size=12)
ENDS = st.one_of(
    st.sampled_from([b"0\r\n\r\n", b"0\r\na: b\r\n\r\n", b"5;x=y\r\nhello\r\n0\r\n\r\n", b"", b"0"]),
    st.binary(max_size=40),
    st.lists(st.sampled_from([b"\r\n", b"\r", b"\n", b"0", b"5", b"f", b"-", b" ", b"hello", b"1" * 20])).map(
        b"".join
    ),
)


def outcome(parts: list[bytes], *, joined: bool) -> tuple[bytes, str]:
    """The body that h11 reads from these bytes, and how it ends."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    connection.next_event()
    joiner = ChunkJoiner()
    body = b""
    try:
        for part in [*parts, b""]:
            data = joiner.feed(part) if joined and part else part
            if data or not part:
                connection.receive_data(data)
            while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.EndOfMessage):
                    return body, f"end {event.headers.raw_items()} {connection.trailing_data[0]!r}"
                if isinstance(event, h11.Data):
                    body += event.data
    except h11.RemoteProtocolError:
        return body, "error"
    return body, "cut"


@given(PIECES, ENDS, st.lists(st.integers(1, 50), min_size=1), st.booleans())
def test_a_joined_body_is_the_same_body(
    pieces: list[bytes], end: bytes, cuts: list[int], upper: bool
) -> None:
    size = b"%X" if upper else b"%x"
    text = b"".join(size % len(piece) + b"\r\n" + piece + b"\r\n" for piece in pieces) + end
    parts: list[bytes] = []
    at = 0
    while at < len(text):
        cut = cuts[len(parts) % len(cuts)]
        parts.append(text[at : at + cut])
        at += cut
    plain, joined = outcome(parts, joined=False), outcome(parts, joined=True)
    if plain[1].startswith("end"):
        assert joined[0] == plain[0]
        assert joined[1].startswith("end")
    else:
        assert (joined[0], joined[1]) == plain


def test_chunks_that_arrive_together_become_one() -> None:
    assert ChunkJoiner().feed(b"2\r\nab\r\n3\r\ncde\r\n") == b"5\r\nabcde\r\n"


def test_no_byte_of_a_body_waits() -> None:
    joiner = ChunkJoiner()
    assert joiner.feed(b"2\r\nab\r\nA\r\n01") == b"2\r\nab\r\nA\r\n01"
    assert joiner.feed(b"23456789\r") == b"23456789\r"
    assert joiner.feed(b"\n1\r\nx\r\n1") == b"\n1\r\nx\r\n"
    assert joiner.feed(b"\r\ny\r\n0\r\n\r\n") == b"1\r\ny\r\n0\r\n\r\n"
