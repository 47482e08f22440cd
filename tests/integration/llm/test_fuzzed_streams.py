"""Whatever bytes come, a reply or a typed error comes out: no crash, no hang, the same however it is cut."""

from __future__ import annotations

import json
import random

import pytest

from buddy.agent.messages import AssistantMessage, Call
from buddy.agent.provider import ProviderError
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.llm.direct.anthropic_decoder import AnthropicDecoder
from buddy.llm.direct.openai_decoder import ChatDecoder
from buddy.llm.direct.response_reader import ReplyReader

SEED = 28
STREAMS = 1_000
VALUES = [
    None,
    "",
    "x",
    "é😊",
    0,
    1,
    -1,
    1.5,
    True,
    [],
    {},
    [None],
    {"type": "text"},
    "<think>",
    '{"a":',
    "stop",
]
CHAT_KEYS = [
    "content",
    "reasoning",
    "tool_calls",
    "finish_reason",
    "delta",
    "choices",
    "usage",
    "error",
    "index",
]
CHAT_KEYS += ["id", "function", "name", "arguments", "message", "reasoning_details", "role", "x_groq"]
CLAUDE_KEYS = [
    "type",
    "index",
    "delta",
    "content_block",
    "text",
    "thinking",
    "signature",
    "partial_json",
    "id",
    "name",
]
CLAUDE_KEYS += ["input", "usage", "message", "stop_reason", "error", "data"]
CLAUDE_TYPES = [
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
]
CLAUDE_TYPES += [
    "message_start",
    "error",
    "ping",
    "text_delta",
    "thinking_delta",
    "input_json_delta",
    "tool_use",
    "text",
]
CLAUDE_TYPES += ["thinking", "signature_delta", "redacted_thinking"]


def some(rng: random.Random, keys: list[str], depth: int = 0) -> object:
    """A value that looks a little like what a provider sends."""
    if depth > 3 or rng.random() < 0.25:
        return rng.choice(VALUES)
    if rng.random() < 0.3:
        return [some(rng, keys, depth + 1) for _ in range(rng.randint(0, 2))]
    found = {key: some(rng, keys, depth + 1) for key in rng.sample(keys, rng.randint(1, 5))}
    if "type" in found:
        found["type"] = rng.choice(CLAUDE_TYPES)
    return found


def chat_event(rng: random.Random) -> object:
    call = {
        "index": rng.choice([0, 0, 1, None, "x"]),
        "id": rng.choice(["a", "b", "", None]),
        "function": {
            "name": rng.choice(["f", "g", ""]),
            "arguments": rng.choice(["{}", '{"a"', ":1}", "", None]),
        },
    }
    delta = rng.choice(
        [{"content": rng.choice(["a", "</think>", None, "é"])}, {"tool_calls": [call]}, some(rng, CHAT_KEYS)]
    )
    return {
        "choices": [
            {
                "index": 0,
                "delta": delta,
                "finish_reason": rng.choice([None, None, None, "stop", "tool_calls"]),
            }
        ]
    }


def claude_event(rng: random.Random) -> object:
    kind = rng.choice(CLAUDE_TYPES[:6])
    block = {
        "type": rng.choice(CLAUDE_TYPES[8:]),
        "id": rng.choice(["a", "b"]),
        "name": "f",
        "text": "t",
        "thinking": "h",
    }
    delta = {
        "type": rng.choice(CLAUDE_TYPES[8:]),
        "text": "a",
        "thinking": "b",
        "partial_json": rng.choice(["{}", "{"]),
        "signature": "s",
    }
    return {
        "type": kind,
        "index": rng.choice([0, 1, 2, None]),
        "content_block": rng.choice([block, some(rng, CLAUDE_KEYS)]),
        "delta": rng.choice([delta, some(rng, CLAUDE_KEYS)]),
    }


def stream(rng: random.Random, name: str) -> bytes:
    """A stream with everything wrong that can be."""
    out = b""
    end = rng.choice([b"\n", b"\r\n", b"\r"])
    for _ in range(rng.randint(1, 25)):
        keys = CHAT_KEYS if name == "chat" else CLAUDE_KEYS
        data = rng.choice([chat_event, claude_event])(rng) if rng.random() < 0.7 else some(rng, keys)
        text = json.dumps(data, ensure_ascii=rng.random() < 0.5).encode()
        if rng.random() < 0.05:
            text = text[: rng.randint(0, len(text))]
        if rng.random() < 0.05:
            text = text.replace(b"a", b"\xff", 1)
        prefix = rng.choice(
            [b"data: ", b"data: ", b"data: ", b"data:", b"", b"event: error" + end + b"data: ", b": "]
        )
        out += prefix + text + end + (end if rng.random() < 0.9 else b"")
    return out + rng.choice([b"data: [DONE]" + end + end, b"", b"data: [DONE]"])


def outcome(raw: bytes, sizes: list[int], name: str) -> tuple[AssistantMessage, str]:
    """The reply and the error one fragmentation gives."""
    decoder = ChatDecoder("x") if name == "chat" else AnthropicDecoder("x")
    reader, assembler = ReplyReader(decoder, "x"), ReplyAssembler("r", "m", name)
    at, index = 0, 0
    while True:
        is_end = at >= len(raw)
        size = sizes[index % len(sizes)]
        pieces = reader.end() if is_end else reader.feed(raw[at : at + size])
        at, index = at + size, index + 1
        for piece in pieces:
            if isinstance(piece, ProviderError):
                return assembler.partial(), piece.message
            assembler.feed(piece)
        if is_end:
            break
    try:
        return assembler.finish(), ""
    except ProviderError as error:
        return assembler.partial(), error.message


@pytest.mark.parametrize("name", ["chat", "anthropic"])
def test_REL_028_a_thousand_fuzzed_streams(name):
    rng = random.Random(SEED)
    for number in range(STREAMS // 2):
        raw = stream(rng, name)
        whole = outcome(raw, [len(raw)], name)
        assert outcome(raw, [rng.randint(1, 40) for _ in range(20)], name) == whole, number
        if number % 10 == 0:
            assert outcome(raw, [1], name) == whole, number
        ids = [part.id for part in whole[0].parts if isinstance(part, Call)]
        assert len(ids) == len(set(ids)), number
