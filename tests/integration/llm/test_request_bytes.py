"""Requests: one history, in the form each kind of server expects.

UPDATE_GOLDEN=1 writes the golden files. The bodies are compared as text with their order of keys, indented
only to be readable.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    Call,
    Finish,
    Image,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
)
from buddy.agent.provider import ModelRequest, ToolDefinition
from buddy.llm.direct.anthropic import AnthropicWire
from buddy.llm.direct.openai import ChatWire
from buddy.llm.quirks import anthropic_quirks, chat_quirks

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "requests"

TOOLS = (
    ToolDefinition(
        "read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}
    ),
    ToolDefinition("list_files", "List a folder.", {"type": "object", "properties": {}}),
)
PICTURE = Image("image/png", "iVBORw0=")


def said(*parts: Text | Image, id: str = "u1") -> UserMessage:
    return UserMessage(id, parts, "prompt")


def replied(
    *parts: Text | Thinking | Call | ServerItem,
    id: str = "a1",
    model: str,
    lane: str = "chat",
    finish: Finish = "calls",
    opaque: dict[str, object] | None = None,
) -> AssistantMessage:
    return AssistantMessage(id, parts, model, lane, finish, NO_USAGE, opaque or {})


def answered(call_id: str, text: str, *images: Image, status: str = "ok") -> ToolMessage:
    return ToolMessage(f"t-{call_id}", call_id, "read_file", text, status, images)


def story(model: str, lane: str = "chat", opaque: dict[str, object] | None = None) -> tuple[Message, ...]:
    """A picture, thinking, two calls, a failed one, steering, a cut reply, a call that never ran."""
    signed = Thinking("let me see", "sig-1") if lane == "anthropic" else Thinking("let me see", "")
    return (
        said(Text("What is this?"), PICTURE),
        replied(
            signed,
            Text("Looking."),
            Call("call_abc-1", "read_file", '{ "path": "a.py" }'),
            Call("functions.read:2", "read_file", '{"path": '),
            model=model,
            lane=lane,
            opaque=opaque,
        ),
        answered("call_abc-1", "print('é 😊')", PICTURE),
        answered("functions.read:2", "", status="error"),
        said(Text("Use pytest."), id="u2"),
        replied(
            Text("Half an ans"),
            Call("never", "read_file", "{"),
            Thinking("cut", ""),
            id="a2",
            model=model,
            lane=lane,
            finish="cut",
        ),
        answered("never", "not run"),
        said(Text("Go on."), Text("And lone \ud83d surrogates."), id="u3"),
    )


def requested(model: str, history: tuple[Message, ...], **more: object) -> ModelRequest:
    return ModelRequest(model, "You are buddy.", history, TOOLS, **more)


CHAT = {
    "openai": ("api.openai.com", requested("gpt-5.2", story("gpt-5.2"), max_tokens=1_000, effort="high")),
    "deepseek": (
        "api.deepseek.com",
        requested("deepseek-reasoner", story("deepseek-reasoner"), temperature=0.5),
    ),
    "mistral": (
        "api.mistral.ai",
        requested("devstral-medium", story("devstral-medium"), max_tokens=1_000, effort="high"),
    ),
    "ollama": ("127.0.0.1", requested("qwen3:8b", story("qwen3:8b"), top_p=0.9)),
    "gemma": ("localhost", requested("gemma-2-9b", story("gemma-2-9b"))),
    "openrouter": (
        "openrouter.ai",
        requested(
            "anthropic/claude-opus-5",
            story(
                "anthropic/claude-opus-5",
                opaque={
                    "reasoning_details": [{"type": "reasoning.text", "text": "let me see", "signature": "s"}]
                },
            ),
            effort="low",
        ),
    ),
    "gemini_compatible": (
        "generativelanguage.googleapis.com",
        requested(
            "gemini-3-pro",
            (
                said(Text("Hi")),
                replied(
                    Call("c1", "list_files", "{}", {"extra_content": {"google": {"thought_signature": "s"}}}),
                    model="gemini-3-pro",
                ),
                answered("c1", "a.py"),
            ),
        ),
    ),
    "chat_after_another_family": (
        "api.openai.com",
        requested(
            "gpt-5.2",
            (
                said(Text("Hi")),
                replied(
                    Thinking("signed elsewhere", "sig"),
                    Call("toolu_1", "list_files", "{}", {"extra_content": {"x": 1}}),
                    ServerItem({"type": "web_search_tool_result"}),
                    model="claude-opus-5",
                    lane="anthropic",
                    opaque={"reasoning_details": [1]},
                ),
                answered("toolu_1", "a.py"),
            ),
        ),
    ),
    "chat_without_tools": ("api.openai.com", ModelRequest("gpt-5.2", "", (said(Text("Hi")),), ())),
}

SIGNED = story("claude-sonnet-4-5", "anthropic")
ANTHROPIC = {
    "anthropic": ("api.anthropic.com", requested("claude-sonnet-4-5", SIGNED, temperature=0.3)),
    "anthropic_thinking": (
        "api.anthropic.com",
        requested("claude-sonnet-4-5", SIGNED, max_tokens=32_000, effort="high", temperature=0.3),
    ),
    "anthropic_adaptive": (
        "api.anthropic.com",
        requested("claude-opus-5", story("claude-opus-5", "anthropic"), effort="max"),
    ),
    "anthropic_server_items": (
        "api.anthropic.com",
        requested(
            "claude-sonnet-4-5",
            (
                said(Text("Search.")),
                replied(
                    Thinking("", "", {"type": "redacted_thinking", "data": "xyz"}),
                    ServerItem({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
                    ServerItem({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}),
                    Text("Found."),
                    model="claude-sonnet-4-5",
                    lane="anthropic",
                    finish="stop",
                ),
                said(Text("   "), id="u2"),
            ),
        ),
    ),
    "anthropic_after_another_family": (
        "api.anthropic.com",
        requested(
            "claude-sonnet-4-5",
            (
                said(Text("Hi")),
                replied(
                    Thinking("unsigned", ""),
                    Call("functions.list:0", "list_files", '{"a":1}', {"extra_content": {"x": 1}}),
                    model="kimi-k2-thinking",
                    opaque={"reasoning_details": [1]},
                ),
                answered("functions.list:0", "a.py"),
            ),
            effort="high",
            max_tokens=32_000,
        ),
    ),
    "anthropic_beginning_with_a_reply": (
        "api.anthropic.com",
        requested(
            "claude-sonnet-4-5",
            (replied(Text("Earlier."), model="claude-sonnet-4-5", lane="anthropic"), said(Text("Hi"))),
        ),
    ),
}


def check(name: str, body: bytes) -> None:
    """Compare with the golden file of this name."""
    path = GOLDEN / f"{name}.json"
    found = json.dumps(json.loads(body), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found)
    assert found == path.read_text(), "if the change is meant: UPDATE_GOLDEN=1, then read the difference"


@pytest.mark.parametrize("name", CHAT)
def test_a_chat_server_is_sent_what_it_understands(name):
    host, request = CHAT[name]
    check(name, ChatWire(chat_quirks(host, request.model), request.model).body(request))


@pytest.mark.parametrize("name", ANTHROPIC)
def test_REL_023_an_anthropic_server_is_sent_what_it_understands(name):
    host, request = ANTHROPIC[name]
    check(name, AnthropicWire(anthropic_quirks(host, request.model), request.model, 16_000).body(request))


@pytest.mark.parametrize("name", [*CHAT, *ANTHROPIC])
def test_a_body_built_from_the_cache_is_the_same_body(name):
    if name in CHAT:
        host, request = CHAT[name]
        make = partial(ChatWire, chat_quirks(host, request.model), request.model)
    else:
        host, request = ANTHROPIC[name]
        make = partial(AnthropicWire, anthropic_quirks(host, request.model), request.model)
    grown = make()
    for length in range(1, len(request.history) + 1):
        shorter = ModelRequest(request.model, request.system, request.history[:length], request.tools)
        grown.body(shorter)
    assert grown.body(request) == make().body(request)
