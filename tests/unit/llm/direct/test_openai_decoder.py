"""Chunks of OpenAI-compatible servers, as they really are, become pieces of a reply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from buddy.agent.messages import ToolMessage, Usage, thinking_of
from buddy.agent.provider import (
    CallPiece,
    Finished,
    ModelRequest,
    OpaquePiece,
    ProviderError,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.llm.direct.openai import LANE, ChatWire
from buddy.llm.direct.openai_decoder import ChatDecoder, usage_of
from buddy.llm.direct.response_reader import SseEvent
from buddy.llm.quirks import chat_quirks


def event(data: Any, name: str = "") -> SseEvent:
    return SseEvent(name, data if isinstance(data, bytes) else json.dumps(data).encode())


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> SseEvent:
    return event({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more})


DONE = event(b"[DONE]")


def decoded(*events: SseEvent, ended: bool = False) -> list[Any]:
    decoder = ChatDecoder("example.com")
    found = [piece for one in events for piece in decoder.feed(one)]
    return [*found, *(decoder.end() if ended else ())]


def test_text_a_reason_and_done_make_a_finished_reply():
    assert decoded(
        chunk({"role": "assistant", "content": ""}), chunk({"content": "Hi"}), chunk(finish="stop"), DONE
    ) == [
        TextPiece("Hi"),
        Finished("stop"),
    ]


def test_a_clean_end_after_a_reason_finishes_and_one_without_does_not():
    assert decoded(chunk({"content": "Hi"}, "length"), ended=True) == [TextPiece("Hi"), Finished("length")]
    assert decoded(chunk({"content": "Hi"}), ended=True) == [TextPiece("Hi")]


def test_done_without_a_reason_leaves_the_reason_unstated():
    assert decoded(chunk({"content": "Hi"}), DONE) == [TextPiece("Hi"), Finished("unstated")]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("tool_calls", "calls"),
        ("function_call", "calls"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "filter"),
        ("SAFETY", "filter"),
        ("something new", "stop"),
    ],
)
def test_words_for_the_end_are_understood(word, reason):
    assert decoded(chunk(finish=word), DONE) == [Finished(reason)]


@pytest.mark.parametrize("word", ["error", "abort", "network_error"])
def test_a_server_that_gives_up_is_an_error(word):
    (error,) = decoded(chunk(finish=word))
    assert isinstance(error, ProviderError)
    assert (error.kind, error.retryable) == ("server", True)


@pytest.mark.parametrize(
    "field", ["reasoning", "reasoning_content", "thinking", "thought", "thinking_content"]
)
def test_reasoning_comes_under_many_names(field):
    assert decoded(chunk({"content": None, field: "hm"})) == [ThinkingPiece("hm")]


def test_reasoning_given_twice_in_one_chunk_is_shown_once():
    assert decoded(chunk({"reasoning": "hm", "reasoning_content": "hm"})) == [ThinkingPiece("hm")]


def test_content_may_be_a_list_with_thinking_inside():
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
        {"type": "text", "text": "Hi"},
        " you",
        {"type": "image"},
    ]
    assert decoded(chunk({"content": content})) == [
        ThinkingPiece("hm"),
        ThinkingPiece("so"),
        TextPiece("Hi"),
        TextPiece(" you"),
    ]


def test_inline_think_tags_are_split_and_what_was_held_back_comes_at_the_end():
    assert decoded(
        chunk({"content": "<thi"}), chunk({"content": "nk>hm</think>\n\nHi"}), chunk({"content": "!"})
    ) == [
        ThinkingPiece("hm"),
        TextPiece("Hi"),
        TextPiece("!"),
    ]
    assert decoded(chunk({"content": "<thi"}), DONE) == [TextPiece("<thi"), Finished("unstated")]


def test_a_refusal_is_text():
    assert decoded(chunk({"refusal": "No."}), chunk({"refusal": ""})) == [TextPiece("No.")]


@pytest.mark.parametrize(
    ("call", "piece"),
    [
        (
            {"index": 1, "id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a"'}},
            CallPiece(1, "c", "f", '{"a"'),
        ),
        ({"function": {"name": "f", "arguments": None}}, CallPiece(None, "", "f", "")),
        ({"id": None, "index": None, "name": "f", "arguments": "{}"}, CallPiece(None, "", "f", "{}")),
        ({"id": 7, "index": 0, "function": {"arguments": ""}}, CallPiece(0, "7", "", "")),
        (
            {"index": 0, "id": "c", "function": {"name": "f", "arguments": {"a": "é"}}},
            CallPiece(0, "c", "f", '{"a":"é"}', complete=True),
        ),
        (
            {
                "index": 0,
                "id": "c",
                "function": {"name": "f"},
                "extra_content": {"google": {"thought_signature": "s"}},
            },
            CallPiece(0, "c", "f", "", {"extra_content": {"google": {"thought_signature": "s"}}}),
        ),
    ],
)
def test_calls_come_in_many_shapes(call, piece):
    assert decoded(chunk({"tool_calls": [call]})) == [piece]
    assert decoded(chunk({"tool_calls": call})) == [piece]


def test_the_old_function_call_is_a_call():
    assert decoded(chunk({"function_call": {"name": "f", "arguments": "{}"}})) == [
        CallPiece(0, "", "f", "{}")
    ]


def test_fields_to_send_back_are_gathered_into_one_piece_before_the_end():
    details = [
        {"type": "reasoning.text", "index": 0, "text": "let me ", "format": "x"},
        {"type": "reasoning.text", "index": 0, "text": "see"},
        {"type": "reasoning.text", "index": 0, "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "ab", "id": "i"},
    ]
    pieces = decoded(
        *(chunk({"reasoning_details": [one]}) for one in details), chunk({"reasoning_opaque": "o"}), DONE
    )
    assert pieces == [
        OpaquePiece(
            {
                "reasoning_opaque": "o",
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "index": 0,
                        "text": "let me see",
                        "format": "x",
                        "signature": "sig",
                    },
                    {"type": "reasoning.encrypted", "index": 1, "data": "ab", "id": "i"},
                ],
            }
        ),
        Finished("unstated"),
    ]


USAGE = Usage(100, 20, 60, 0, 5, estimated=False)
COUNTS = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


@pytest.mark.parametrize(
    "holder",
    [
        event({"choices": [], "usage": COUNTS}),
        event({"usage": COUNTS}),
        chunk({}, "stop", usage=COUNTS),
        chunk({}, "stop", x_groq={"usage": COUNTS}),
        event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": COUNTS}]}),
    ],
)
def test_usage_comes_in_several_places(holder):
    assert UsagePiece(USAGE) in decoded(holder)


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4},
            Usage(9, 1, 4, 0, 0, estimated=False),
        ),
        ({"input_tokens": 9, "output_tokens": 1}, Usage(9, 1, 0, 0, 0, estimated=False)),
        (
            {
                "prompt_tokens": 12,
                "completion_tokens": 2,
                "total_tokens": 354,
                "completion_tokens_details": {"reasoning_tokens": 340},
            },
            Usage(12, 342, 0, 0, 340, estimated=False),
        ),
        ({"prompt_tokens": None, "completion_tokens": "x"}, Usage(0, 0, 0, 0, 0, estimated=False)),
    ],
)
def test_token_counts_have_many_names(counts, usage):
    assert decoded(event({"choices": [], "usage": counts})) == [UsagePiece(usage)]


@pytest.mark.parametrize("count", ["1e999", "-1e999", "NaN", "-5", '"9"', "[9]", "null", "{}"])
def test_ATTACK3_counts_that_are_no_counts_count_nothing(count):
    counts = json.loads(f'{{"prompt_tokens": {count}, "completion_tokens": {count}, "cost": {count}}}')
    assert decoded(event({"choices": [], "usage": counts})) == [
        UsagePiece(Usage(0, 0, 0, 0, 0, estimated=False))
    ]


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        ({"error": {"message": "Provider returned error", "code": 429}, "choices": []}, "", "rate_limit"),
        (
            {
                "error": {"message": "Token limit reached", "code": 400},
                "choices": [{"delta": {"content": ""}}],
            },
            "",
            "bad_request",
        ),
        ({"error": "boom"}, "", "server"),
        ({"message": "The engine is currently overloaded"}, "error", "overloaded"),
        ({"object": "error", "message": "prompt is too long: 9 tokens > 8 maximum"}, "", "context_overflow"),
    ],
)
def test_an_error_inside_a_good_answer_is_an_error(data, name, kind):
    *_, error = decoded(event(data, name))
    assert isinstance(error, ProviderError)
    assert error.kind == kind


def test_a_null_error_is_none():
    assert decoded(chunk({"content": "Hi"}, error=None)) == [TextPiece("Hi")]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ping",
        b": hello",
        b"{}",
        b'{"choices":null}',
        b'{"choices":[]}',
        b'{"choices":[null]}',
        b'{"choices":[{"index":1,"delta":{"content":"x"}}]}',
    ],
)
def test_noise_makes_nothing(data):
    assert decoded(event(data)) == []


def test_broken_json_cuts_the_reply():
    (error,) = decoded(event(b'{"choices":[{"del'))
    assert isinstance(error, ProviderError)
    assert error.kind == "cut"


def test_bytes_that_are_no_utf8_and_half_surrogates_are_survived():
    assert decoded(event(b'{"choices":[{"delta":{"content":"a\xff"}}]}')) == [TextPiece("a�")]
    assert decoded(event(b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}')) == [TextPiece("a\ud83d")]


def test_an_answer_that_was_not_streamed_is_the_same_reply():
    decoder = ChatDecoder("example.com")
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "hm", "tool_calls": None}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": COUNTS}
    assert list(decoder.whole(answer)) == [
        ThinkingPiece("hm"),
        TextPiece("Hi"),
        UsagePiece(USAGE),
        Finished("stop"),
    ]
    assert decoder.is_done


def test_an_answer_without_choices_is_an_error_in_its_own_words():
    (error,) = ChatDecoder("example.com").whole({"error": {"message": "Invalid API key", "type": "auth"}})
    assert isinstance(error, ProviderError)
    assert (error.kind, "Invalid API key" in error.message) == ("auth", True)
    (error,) = ChatDecoder("example.com").whole({"hello": 1})
    assert isinstance(error, ProviderError)
    assert error.message == "example.com answered without any choices"


def test_RU_4_signed_thinking_of_a_litellm_proxy_is_kept_and_sent_back() -> None:
    def block(**fields: str) -> list[dict[str, str]]:
        return [{"type": "thinking", **fields}]

    decoder, assembler = ChatDecoder("proxy"), ReplyAssembler("r1", "via-anthropic", LANE)
    call = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}}
    signed = block(thinking="", signature="sig")
    redacted = [{"type": "redacted_thinking", "data": "sealed"}]
    for one in (
        chunk({"reasoning_content": "let ", "thinking_blocks": block(thinking="let ")}),
        chunk({"reasoning_content": "me", "thinking_blocks": block(thinking="me")}),
        chunk({"thinking_blocks": signed, "provider_specific_fields": {"thinking_blocks": signed}}),
        chunk({"thinking_blocks": redacted}),
        chunk({"tool_calls": [call]}),
        chunk({}, "tool_calls"),
        DONE,
    ):
        for piece in decoder.feed(one):
            assert not isinstance(piece, ProviderError)
            assembler.feed(piece)
    reply = assembler.finish()
    assert thinking_of(reply) == "let me"
    history = (reply, ToolMessage("t1", "c1", "look", "seen", "ok"))
    asked = ModelRequest("via-anthropic", "", history, ())
    sent = json.loads(ChatWire(chat_quirks("proxy", "via-anthropic"), "via-anthropic").body(asked))
    assert sent["messages"][0]["thinking_blocks"] == [
        {"type": "thinking", "thinking": "let me", "signature": "sig"},
        *redacted,
    ]
    other = json.loads(ChatWire(chat_quirks("proxy", "gpt-9"), "gpt-9").body(asked))
    assert "thinking_blocks" not in other["messages"][0]


@pytest.mark.parametrize(
    ("stated", "cost"),
    [
        ({"cost": 0.25}, 0.25),
        ({"cost": 0}, 0.0),
        ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}}, 0.51),
        ({"cost": 0.5, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.5}}, 0.5),
        ({}, None),
        ({"cost": None}, None),
        ({"cost": "much"}, None),
        ({"cost": -1}, None),
        ({"cost": True}, None),
    ],
)
def test_RU_P5_what_the_provider_bills_is_read(stated: dict[str, Any], cost: float | None) -> None:
    usage = usage_of({"usage": {"prompt_tokens": 10, "completion_tokens": 5, **stated}})
    assert usage is not None
    assert usage.cost_usd == cost
