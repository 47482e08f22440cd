"""Characters that a server cut in two arrive whole; halves that stay alone become U+FFFD."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from buddy.agent.messages import Call, Text
from buddy.agent.provider import (
    Alive,
    CallPiece,
    Finished,
    ModelDelta,
    ProviderError,
    TextPiece,
    ThinkingPiece,
)
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.llm.direct.openai_decoder import ChatDecoder
from buddy.llm.direct.response_reader import HalfCharacters, ReplyReader

HIGH, LOW = "\ud83d", "\ude00"
STOP = Finished("stop")


def made_of(*pieces: ModelDelta | ProviderError) -> list[ModelDelta | ProviderError]:
    halves = HalfCharacters()
    made = [found for piece in pieces for found in halves.join([piece])]
    return [*made, *halves.rest()]


def test_two_halves_of_one_text_are_one_character() -> None:
    assert made_of(TextPiece("a" + HIGH), TextPiece(LOW + "b"), STOP) == [
        TextPiece("a"),
        TextPiece("\U0001f600b"),
        STOP,
    ]


def test_what_comes_between_does_not_matter_where_it_says_nothing() -> None:
    assert made_of(TextPiece(HIGH), Alive(), TextPiece(LOW)) == [Alive(), Alive(), TextPiece("\U0001f600")]


def test_a_half_that_stays_alone_is_given_before_what_follows() -> None:
    for follows in (STOP, ThinkingPiece(LOW), TextPiece(LOW, 1), ProviderError("cut", "x")):
        assert made_of(TextPiece("a" + HIGH), follows) == [TextPiece("a"), TextPiece("\ufffd"), follows]
    assert made_of(TextPiece("a" + HIGH), TextPiece("x")) == [TextPiece("a"), TextPiece("\ufffdx")]
    assert made_of(TextPiece("a" + HIGH)) == [TextPiece("a"), TextPiece("\ufffd")]


def test_arguments_of_calls_are_joined_by_their_slot() -> None:
    begun = CallPiece(0, "c", "write", '{"a":"' + HIGH)
    assert made_of(begun, CallPiece(0, "c", "write", LOW + '"}')) == [
        CallPiece(0, "c", "write", '{"a":"'),
        CallPiece(0, "c", "write", '\U0001f600"}'),
    ]
    other = CallPiece(1, "d", "read", "{}")
    assert made_of(begun, other)[1:] == [CallPiece(0, "", "", "\ufffd"), other]


def test_a_block_told_once_more_with_its_signature_is_left_alone() -> None:
    whole = ThinkingPiece("a" + HIGH, signature="s")
    assert made_of(whole) == [whole]


@given(st.text(alphabet=["a", "\U0001f600", "\u00e9", HIGH, LOW], max_size=12), st.lists(st.integers(0, 24)))
def test_text_cut_anywhere_between_halves_comes_out_whole(text: str, cuts: list[int]) -> None:
    whole = _as_decoded(text)
    units = [unit for sign in whole for unit in _units(sign)]
    places = sorted({0, len(units), *(cut for cut in cuts if cut < len(units))})
    pieces = [TextPiece(_as_decoded("".join(units[a:b]))) for a, b in pairwise(places)]
    joined = "".join(piece.text for piece in made_of(*pieces) if isinstance(piece, TextPiece))
    assert _replaced(joined) == _replaced(whole)


def _replaced(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _as_decoded(text: str) -> str:
    """Halves that follow each other in one JSON text are one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _units(sign: str) -> Sequence[str]:
    data = sign.encode("utf-16-le", "surrogatepass")
    return [chr(int.from_bytes(data[at : at + 2], "little")) for at in range(0, len(data), 2)]


def test_an_emoji_in_two_events_reaches_text_and_arguments_whole() -> None:
    events = (
        r'{"choices":[{"index":0,"delta":{"content":"hi \ud83d"}}]}',
        r'{"choices":[{"index":0,"delta":{"content":"\ude00"}}]}',
        r'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":'
        r'{"name":"write_file","arguments":"{\"path\":\"\ud83d"}}]}}]}',
        r'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\ude00\"}"}}]}}]}',
        '{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}',
        "[DONE]",
    )
    reader, assembler = ReplyReader(ChatDecoder("x"), "x"), ReplyAssembler("r", "m", "chat")
    for event in events:
        for piece in reader.feed(f"data: {event}\n\n".encode()):
            assert not isinstance(piece, ProviderError)
            assembler.feed(piece)
    parts = assembler.finish().parts
    assert parts == (Text("hi \U0001f600"), Call("c", "write_file", '{"path":"\U0001f600"}'))
