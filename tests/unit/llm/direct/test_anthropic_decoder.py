"""Events of the Anthropic format become pieces of a reply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from buddy.agent.messages import Usage
from buddy.agent.provider import (
    CallPiece,
    Finished,
    ProviderError,
    ServerPiece,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from buddy.llm.direct.anthropic_decoder import AnthropicDecoder
from buddy.llm.direct.response_reader import SseEvent


def event(kind: str, **fields: Any) -> SseEvent:
    return SseEvent(kind, json.dumps({"type": kind, **fields}).encode())


def start(index: int, **block: Any) -> SseEvent:
    return event("content_block_start", index=index, content_block=block)


def delta(index: int, kind: str, **fields: Any) -> SseEvent:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def stop(index: int) -> SseEvent:
    return event("content_block_stop", index=index)


def ending(reason: str | None, **usage: Any) -> list[SseEvent]:
    return [event("message_delta", delta={"stop_reason": reason}, usage=usage), event("message_stop")]


def decoded(*events: SseEvent, ended: bool = False) -> list[Any]:
    decoder = AnthropicDecoder("example.com")
    found = [piece for one in events for piece in decoder.feed(one)]
    return [*found, *(decoder.end() if ended else ())]


def test_thinking_text_and_a_call_in_their_blocks():
    assert decoded(
        event(
            "message_start",
            message={"usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}},
        ),
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        event("ping"),
        delta(0, "signature_delta", signature="si"),
        delta(0, "signature_delta", signature="g"),
        stop(0),
        start(1, type="text", text=""),
        delta(1, "text_delta", text="Hi"),
        stop(1),
        start(2, type="tool_use", id="c", name="f", input={}),
        delta(2, "input_json_delta", partial_json=""),
        delta(2, "input_json_delta", partial_json='{"a":1}'),
        stop(2),
        *ending("tool_use", output_tokens=30),
    ) == [
        UsagePiece(Usage(15, 1, 5, 0, 0, estimated=False)),
        ThinkingPiece("hm", 0),
        ThinkingPiece("", 0, "sig"),
        TextPiece("Hi", 1),
        CallPiece(2, "c", "f", ""),
        CallPiece(2, "", "", '{"a":1}'),
        UsagePiece(Usage(15, 30, 5, 0, 0, estimated=False)),
        Finished("calls"),
    ]


def test_the_counts_at_the_end_replace_those_of_the_start_where_they_are_given():
    *_, last, _ = decoded(
        event("message_start", message={"usage": {"input_tokens": 3, "cache_creation_input_tokens": 100}}),
        *ending("end_turn", input_tokens=7, output_tokens=2, cache_creation_input_tokens=None),
    )
    assert last == UsagePiece(Usage(107, 2, 0, 100, 0, estimated=False))


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("tool_use", "calls"),
        ("max_tokens", "length"),
        ("refusal", "filter"),
        (None, "unstated"),
    ],
)
def test_stop_reasons(word, reason):
    assert decoded(*ending(word)) == [Finished(reason)]


def test_a_clean_end_after_a_reason_finishes_and_one_without_does_not():
    said = event("message_delta", delta={"stop_reason": "end_turn"})
    assert decoded(said, ended=True) == [Finished("stop")]
    assert decoded(start(0, type="text", text="a"), ended=True) == [TextPiece("a", 0)]


def test_a_call_whose_input_stands_in_its_start_is_whole():
    assert decoded(start(0, type="tool_use", id="c", name="f", input={"a": 1}), stop(0)) == [
        CallPiece(0, "c", "f", ""),
        CallPiece(0, "", "", '{"a":1}', complete=True),
    ]


def test_items_the_provider_ran_come_whole_with_their_input():
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    assert decoded(
        start(0, type="server_tool_use", id="s", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":'),
        delta(0, "input_json_delta", partial_json='"x"}'),
        stop(0),
        start(1, **result),
        stop(1),
    ) == [
        ServerPiece({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}),
        ServerPiece(result),
    ]


def test_redacted_thinking_is_kept_to_be_sent_back():
    block = {"type": "redacted_thinking", "data": "xyz"}
    assert decoded(start(0, **block), stop(0)) == [ThinkingPiece("", 0, opaque=block)]


def test_a_second_start_at_the_same_index_is_another_block():
    assert decoded(
        start(0, type="thinking", thinking="a"),
        delta(0, "signature_delta", signature="sa"),
        start(0, type="thinking", thinking="b"),
        delta(0, "signature_delta", signature="sb"),
        start(0, type="tool_use", id="c", name="f"),
        start(0, type="tool_use", id="d", name="g"),
        *ending("tool_use"),
    ) == [
        ThinkingPiece("a", 0),
        ThinkingPiece("", 0, "sa"),
        ThinkingPiece("b", 1),
        ThinkingPiece("", 1, "sb"),
        CallPiece(2, "c", "f", ""),
        CallPiece(3, "d", "g", ""),
        Finished("calls"),
    ]


def test_deltas_without_a_start_find_their_kind():
    assert decoded(
        delta(0, "thinking_delta", thinking="hm"),
        delta(1, "text_delta", text="Hi"),
        delta(2, "input_json_delta", partial_json="{}"),
    ) == [ThinkingPiece("hm", 0), TextPiece("Hi", 1), CallPiece(2, "", "", "{}")]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", "overloaded"),
        ("rate_limit_error", "rate_limit"),
        ("api_error", "server"),
        ("authentication_error", "auth"),
    ],
)
def test_an_error_event_is_an_error(kind, expected):
    (error,) = decoded(event("error", error={"type": kind, "message": "sorry"}))
    assert isinstance(error, ProviderError)
    assert (error.kind, error.message.endswith("sorry")) == (expected, True)


def test_a_foreign_error_object_is_an_error_too():
    (error,) = decoded(SseEvent("error", b'{"error":{"message":"no credits left: insufficient balance"}}'))
    assert isinstance(error, ProviderError)
    assert error.kind == "quota"


@pytest.mark.parametrize(
    "data", [b"", b"[DONE]", b'{"type":"new_kind"}', b'{"type":"content_block_stop","index":9}', b"{}"]
)
def test_noise_makes_nothing(data):
    assert decoded(SseEvent("", data)) == []


def test_an_answer_that_was_not_streamed_is_the_same_reply():
    answer = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    assert list(AnthropicDecoder("example.com").whole(answer)) == [
        ThinkingPiece("hm", 0),
        ThinkingPiece("", 0, "sig"),
        TextPiece("Hi", 1),
        CallPiece(2, "c", "f", ""),
        CallPiece(2, "", "", '{"a":1}', complete=True),
        UsagePiece(Usage(3, 4, 0, 0, 0, estimated=False)),
        Finished("calls"),
    ]


def test_an_answer_without_content_is_an_error():
    (error,) = AnthropicDecoder("example.com").whole(
        {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}
    )
    assert isinstance(error, ProviderError)
    assert error.kind == "not_found"


def test_arguments_given_as_an_object_are_taken_as_its_text():
    found = decoded(
        start(0, type="tool_use", id="t", name="read", input={}),
        delta(0, "input_json_delta", partial_json={"path": "a"}),
        stop(0),
    )
    assert "".join(piece.arguments for piece in found if isinstance(piece, CallPiece)) == '{"path":"a"}'
