"""The parts of a history each server may get, and how little is encoded again."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from buddy.agent.json_codec import dumps, loads
from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    Call,
    Message,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
)
from buddy.agent.provider import ModelRequest
from buddy.llm.direct.anthropic import AnthropicWire
from buddy.llm.direct.openai import ChatWire
from buddy.llm.direct.request_cache import EncodedMessages, alnum9, family, sendable, wire_arguments, wire_id
from buddy.llm.quirks import ANTHROPIC, CHAT, ChatQuirks, anthropic_quirks, chat_quirks, is_local


def user(text: str, name: str = "u") -> UserMessage:
    return UserMessage(name, (Text(text),), "prompt")


def reply(
    *parts: Text | Thinking | Call, name: str = "a", finish: str = "calls", lane: str = "anthropic"
) -> AssistantMessage:
    return AssistantMessage(name, parts, "claude-sonnet-4-5", lane, finish, NO_USAGE)


def result(call_id: str, name: str = "") -> ToolMessage:
    return ToolMessage(name or f"t{call_id}", call_id, "f", "out", "ok")


def test_results_without_their_call_and_second_results_are_never_sent():
    history = [user("go"), result("lost"), reply(Call("c", "f", "{}")), result("c"), result("c", "again")]
    assert sendable(history) == [history[0], history[2], history[3]]


def test_a_cut_reply_keeps_its_text_and_loses_its_calls_with_their_results():
    said = reply(Text("half"), Call("c", "f", "{"), finish="cut")
    only_a_call = reply(Call("d", "f", "{"), finish="cut")
    only_thinking = reply(Thinking("hm", "sig"), finish="stop")
    assert sendable([user("go"), said, result("c"), only_a_call, result("d"), only_thinking]) == [
        user("go"),
        said,
    ]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-5.2", "gpt"),
        ("claude-opus-5", "claude"),
        ("anthropic/claude-opus-5", "anthropic/claude"),
        ("openrouter/google/gemini-3-pro:free", "openrouter/google/gemini"),
        ("o3", "o"),
        ("Qwen3:8b", "qwen"),
        ("4o", "4o"),
    ],
)
def test_models_have_families(model, expected):
    assert family(model) == expected


@pytest.mark.parametrize(
    "call_id", ["call_1", "toolu_01-A", "functions.read:0", "", "x" * 100, "ä", "\ud83d"]
)
def test_ids_become_what_servers_take_always_the_same(call_id):
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wire_id(call_id))
    assert re.fullmatch(r"[A-Za-z0-9]{9}", alnum9(call_id))
    assert (wire_id(call_id), alnum9(call_id)) == (wire_id(call_id), alnum9(call_id))
    assert wire_id("call_1") == "call_1"
    assert alnum9("g6fVbXS8K") == "g6fVbXS8K"


@pytest.mark.parametrize("text", ["[1]", "{", '"x"', "", "nonsense", "{}{}", '{"a": NaN'])
def test_arguments_that_are_no_object_are_wrapped_in_one(text):
    assert json.loads(wire_arguments(text)) == {"malformed_arguments": text}


def test_arguments_that_are_an_object_stay_as_they_were_written():
    assert wire_arguments('{ "b":1,  "a":"\\u00e9" }') == '{ "b":1,  "a":"\\u00e9" }'


def test_a_message_is_encoded_once_and_again_when_another_takes_its_id():
    encoded: list[Message] = []

    def encode(message: Message) -> bytes:
        encoded.append(message)
        return b"x"

    cache = EncodedMessages(encode)
    first, other = user("one"), user("two")
    for message in (first, first, other, other, first):
        cache.bytes_of(message)
    assert encoded == [first, other, first]


def test_a_long_session_keeps_only_what_its_history_holds():
    cache = EncodedMessages(lambda message: b"x")
    messages = [user("x", f"u{number}") for number in range(5_000)]
    for message in messages:
        cache.bytes_of(message)
    cache.forget_others(messages[-10:])
    assert len(cache._known) == 10


@pytest.mark.parametrize(
    "wire", [ChatWire(ChatQuirks(), "m"), AnthropicWire(anthropic_quirks("x", "m"), "m")]
)
def test_a_turn_encodes_only_what_is_new(wire):
    history: list[Message] = [user("go")]
    for turn in range(50):
        history += [reply(Call(f"c{turn}", "f", "{}"), name=f"a{turn}"), result(f"c{turn}")]
    wire.body(ModelRequest("m", "s", tuple(history), ()))
    known = dict(wire._messages._known)
    history += [reply(Call("new", "f", "{}"), name="new"), result("new")]
    wire.body(ModelRequest("m", "s", tuple(history), ()))
    assert set(wire._messages._known) - set(known) == {"new", "tnew"}
    assert all(wire._messages._known[key] is entry for key, entry in known.items())


def test_an_unsigned_call_turn_switches_a_thinking_budget_off():
    wire = AnthropicWire(anthropic_quirks("api.anthropic.com", "claude-sonnet-4-5"), "claude-sonnet-4-5")
    for parts, thinks in (
        ((Thinking("hm", "sig"), Call("c", "f", "{}")), True),
        ((Thinking("hm", ""), Call("c", "f", "{}")), False),
        ((Call("c", "f", "{}"),), False),
    ):
        request = ModelRequest(
            "claude-sonnet-4-5", "", (user("go"), reply(*parts), result("c")), (), 32_000, effort="low"
        )
        assert ("thinking" in json.loads(wire.body(request))) is thinks


def test_a_limit_too_small_for_a_thinking_budget_means_none():
    wire = AnthropicWire(anthropic_quirks("api.anthropic.com", "claude-sonnet-4-5"), "claude-sonnet-4-5")
    body = json.loads(
        wire.body(ModelRequest("claude-sonnet-4-5", "", (user("go"),), (), 2_500, effort="high"))
    )
    assert (body["max_tokens"], "thinking" in body) == (2_500, False)


def test_every_row_of_quirks_names_fields_that_exist_and_says_why():
    for row in CHAT:
        assert set(row.fields) <= set(ChatQuirks.__struct_fields__)
        assert row.why
    for row in ANTHROPIC:
        assert set(row.fields) <= {"effort", "cache_marks", "auth", "headers"}
        assert row.why


def test_quirks_go_by_the_end_of_the_host_and_the_model():
    assert chat_quirks("api.openai.com", "gpt-5.2").max_tokens_field == "max_completion_tokens"
    assert chat_quirks("me.openai.azure.com", "x").max_tokens_field == "max_completion_tokens"
    assert chat_quirks("notapi.openai.com.evil.example", "x") == ChatQuirks()
    assert chat_quirks("192.168.1.5", "qwen").merge is True
    assert (
        chat_quirks("api.together.xyz", "moonshotai/Kimi-K2-Thinking").reasoning_back == "reasoning_content"
    )
    assert anthropic_quirks("api.anthropic.com", "claude-opus-4-6").effort == "adaptive"
    assert anthropic_quirks("api.anthropic.com", "claude-opus-4-20250514").effort == "budget"


def test_local_names_are_known():
    assert all(map(is_local, ["localhost", "127.0.0.1", "::1", "10.1.2.3", "172.20.0.1", "nas.local"]))
    assert not any(map(is_local, ["api.openai.com", "172.40.0.1", "10.example.com.evil", "8.8.8.8"]))


def test_json_is_read_tolerantly_and_written_strictly():
    assert loads(b'{"a": NaN}')["a"] != 0
    assert dumps({"a\ud83d": ["\ud83d\ude0a", ("\udc00",)]}) == '{"a�":["😊",["�"]]}'.encode()
    with pytest.raises(ValueError, match="nested too deeply"):
        loads(b"[" * 100_000)


def test_a_direct_lane_imports_no_http_library():
    heavy = "{'httpcore2', 'h11', 'httpx', 'anyio', 'litellm', 'urllib.request', 'email'}"
    lanes = (
        "buddy.llm.direct.openai, buddy.llm.direct.anthropic, buddy.llm.http.client, buddy.llm.rate_limiter"
    )
    code = f"import sys, {lanes}; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
