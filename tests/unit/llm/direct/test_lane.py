"""Both direct lanes over real HTTP: the same replies from the same server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from buddy.agent.messages import Call, Text, Thinking, Usage, text_of
from buddy.agent.provider import Alive, ProviderError, TextPiece
from buddy.llm.direct.anthropic import Anthropic
from buddy.llm.direct.lane import Endpoint
from buddy.llm.direct.openai import OpenAIChat
from tests.fake_llm.script import (
    BadUtf8,
    CleanEnd,
    Cut,
    Empty,
    ErrorEvent,
    Garbage,
    Html,
    HttpError,
    HugeLine,
    Pings,
    Reply,
    Reset,
    Stall,
    Tokens,
    call,
    reply,
    think,
)
from tests.fake_llm.server import FakeLLM
from tests.support.lanes import READ_FILE, connect, lane, pieces_of, reply_of, request

LANES = pytest.mark.parametrize("name", ["chat", "anthropic"])
RICH = (
    think("let me see", signature="sig"),
    "Hello, wörld 😊",
    call("read_file", path="ä.py"),
    call("read_file", path="b"),
)


@asynccontextmanager
async def serving(
    name: str, *replies: Reply, key: str = "sk-test-key"
) -> AsyncIterator[tuple[OpenAIChat | Anthropic, FakeLLM]]:
    async with FakeLLM(list(replies)) as server:
        provider = lane(name, server.url, key=key)
        try:
            yield provider, server
        finally:
            await provider.aclose()


@LANES
@pytest.mark.parametrize("fragmentation", ["frames", "whole", "byte", "random"])
async def test_a_reply_is_the_same_on_every_lane_and_fragmentation(name, fragmentation):
    tokens = Tokens(100, 20, cache_read=60)
    async with serving(name, reply(*RICH, usage=tokens, fragmentation=fragmentation)) as (
        provider,
        _,
    ):
        message, _ = await reply_of(provider, request(tools=[READ_FILE]))
    thinking, text, first, second = message.parts
    assert isinstance(thinking, Thinking)
    assert (thinking.text, text) == ("let me see", Text("Hello, wörld 😊"))
    assert [
        (part.name, json.loads(part.arguments)) for part in (first, second) if isinstance(part, Call)
    ] == [
        ("read_file", {"path": "ä.py"}),
        ("read_file", {"path": "b"}),
    ]
    assert (message.finish, message.lane, message.model) == ("calls", name, "fake-model")
    assert message.usage == Usage(100, 20, 60, 0, 0, estimated=False)
    assert thinking.signature == ("sig" if name == "anthropic" else "")


@LANES
async def test_one_connection_serves_one_request_after_the_other(name):
    async with serving(name, *[reply(f"answer {number}") for number in range(3)]) as (
        provider,
        server,
    ):
        answers = [text_of((await reply_of(provider, request()))[0]) for _ in range(3)]
        assert answers == ["answer 0", "answer 1", "answer 2"]
        assert len(server._connections) == 1


@LANES
async def test_closing_the_stream_closes_the_connection_at_once(name):
    async with serving(name, reply("word " * 1_000, fault=Stall(after=2))) as (provider, server):
        stream = provider.stream(request())
        async for delta in stream:
            if isinstance(delta, TextPiece):
                break
        started = time.monotonic()
        await stream.aclose()
        closed_s = time.monotonic() - started
        (asked,) = await server.ended(1)
    assert asked.outcome == "aborted"
    assert closed_s < 15  # a deadline against hanging; measured: under 2 ms


@LANES
async def test_cancelling_while_nothing_comes_closes_the_connection(name):
    async with serving(name, reply("never", fault=Stall(after=-1))) as (provider, server):
        task = asyncio.create_task(reply_of(provider, request()))
        await server.arrived(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (asked,) = await server.ended(1)
    assert asked.outcome == "aborted"


@LANES
async def test_signs_of_life_come_through_as_such(name):
    async with serving(name, reply("Hi", fault=Pings(after=0, every_s=0.01, count=5))) as (
        provider,
        _,
    ):
        pieces, error = await pieces_of(provider.stream(request()))
    assert error is None
    assert sum(isinstance(piece, Alive) for piece in pieces) >= 3


FAULTS = {
    "reset": (Reset(after=2), "cut", True),
    "reset before anything": (Reset(after=-1), "cut", True),
    "cut": (Cut(after=2), "cut", True),
    "empty": (Empty(), "cut", True),
    "broken json": (Garbage(after=2), "cut", True),
    "error inside": (ErrorEvent(after=2), "server", True),
    "captive portal": (Html(), "server", False),
    "gateway": (
        HttpError(502, {"content-type": "text/html"}, "<html><title>Bad Gateway</title></html>"),
        "server",
        True,
    ),
    "unauthorised": (HttpError(401), "auth", False),
    "rate limit": (HttpError(429, {"retry-after": "7"}), "rate_limit", True),
    "redirect": (HttpError(302, {"location": "http://login.example/"}), "not_found", False),
}


@LANES
@pytest.mark.parametrize("fault", FAULTS)
async def test_REL_027_every_fault_is_a_typed_error_of_one_sentence(name, fault):
    scripted, kind, retryable = FAULTS[fault]
    async with serving(name, reply("word " * 20, fault=scripted)) as (provider, _):
        _, error = await pieces_of(provider.stream(request()))
    assert error is not None, fault
    assert (error.kind, error.retryable) == (kind, retryable)
    assert "<" not in error.message
    assert "\n" not in error.message
    assert "sk-test-key" not in error.message


@LANES
@pytest.mark.parametrize("after", range(0, 12, 3))
async def test_REL_027_what_came_before_a_break_is_kept_and_never_twice(name, after):
    whole = "one two three four five six seven "
    async with serving(name, reply(whole, chars=4, fault=Reset(after=after))) as (provider, _):
        pieces, error = await pieces_of(provider.stream(request()))
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))
    assert error is not None
    assert whole.startswith(text)
    assert len(text) <= after * 4


@LANES
async def test_a_clean_end_without_a_finish_is_a_cut_reply(name):
    async with serving(name, reply("word " * 5, fault=CleanEnd(after=2))) as (provider, _):
        with pytest.raises(ProviderError, match="dropped") as caught:
            await reply_of(provider, request())
    assert caught.value.kind == "cut"


@LANES
async def test_odd_bytes_between_events_are_survived(name):
    for fault in (BadUtf8(after=1), HugeLine(after=1)):
        async with serving(name, reply("fine as it is", fault=fault)) as (provider, _):
            message, _ = await reply_of(provider, request())
        assert text_of(message) == "fine as it is"


@LANES
async def test_the_wait_a_server_asks_for_arrives(name):
    async with serving(name, reply("x", fault=HttpError(429, {"retry-after": "7"}))) as (
        provider,
        _,
    ):
        _, error = await pieces_of(provider.stream(request()))
    assert error is not None
    assert (error.status, error.retry_after_s) == (429, 7)


@LANES
async def test_after_an_error_answer_the_connection_serves_on(name):
    async with serving(name, reply("x", fault=HttpError(500), times=1), reply("y")) as (
        provider,
        server,
    ):
        _, error = await pieces_of(provider.stream(request()))
        assert error is not None
        message, _ = await reply_of(provider, request())
        assert text_of(message) == "y"
        assert len(server._connections) == 1


async def test_the_key_is_asked_for_each_request_and_sent_where_the_format_wants_it():
    keys = iter(["one", "two"])
    async with FakeLLM([reply("a"), reply("b")]) as server:
        chat = OpenAIChat(Endpoint(server.url + "/v1", lambda: next(keys), {"x-extra": "1"}), connect)
        claude = Anthropic(Endpoint(server.url, lambda: next(keys)), connect)
        async with aclosing(chat), aclosing(claude):
            await reply_of(chat, request())
            await reply_of(claude, request())
        first, second = server.requests
    assert (first.headers["authorization"], first.headers["x-extra"]) == ("Bearer one", "1")
    assert (second.headers["x-api-key"], second.headers["anthropic-version"]) == ("two", "2023-06-01")
    assert (first.path, second.path) == ("/v1/chat/completions", "/v1/messages")


@LANES
async def test_a_key_that_cannot_stand_in_a_header_is_refused_unseen(name):
    async with serving(name, reply("x"), key="sk-evil\r\nx: y") as (provider, server):
        _, error = await pieces_of(provider.stream(request()))
        assert server.requests == []
    assert error is not None
    assert error.kind in ("auth", "bad_request")
    assert "evil" not in error.message
