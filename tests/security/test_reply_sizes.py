"""Answers of a hostile or broken server: redirects, bombs, endless heads and bodies, on every lane over real
HTTP (the litellm lane with the real litellm)."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import pytest
import pytest_asyncio

from buddy.agent.messages import calls_of, text_of, thinking_of
from buddy.agent.provider import CallPiece, ModelDelta, ModelRequest, Provider, ProviderError, ServerPiece
from buddy.agent.reply_assembler import MAX_CALLS, MAX_PARTS, ReplyAssembler
from buddy.llm.direct.lane import ERROR_BODY_S
from buddy.llm.http.engine import MAX_INTERIM_ANSWERS
from buddy.llm.litellm_lane.loader import LitellmLibrary
from buddy.llm.litellm_lane.provider import LitellmProvider
from buddy.llm.stall_watchdog import WatchedProvider, WatchLimits
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.lanes import ask, lane, pieces_of, request
from tests.support.stream_server import stream_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic"),
]

KEY = "sk-test-0123456789"
SHAPES = {
    # model → path behind the server's address
    "openai/gpt-4o": "/v1",
    "openai/responses/gpt-5.2-pro": "/v1",
    "anthropic/claude-sonnet-4-5": "",
    "gemini/gemini-2.5-pro": "/v1beta",
    "azure/gpt-4o": "",
    "mistral/mistral-large-latest": "/v1",
    "cohere_chat/command-r-plus": "/v1/chat",
    "cohere/command-r-plus": "/v1/chat",
    "deepseek/deepseek-chat": "/v1",
    "groq/llama-3.3-70b-versatile": "/v1",
    "openrouter/openai/gpt-4o": "/v1",
    "ollama_chat/llama3": "",
    "text-completion-openai/gpt-3.5-turbo-instruct": "/v1",
    "fireworks_ai/accounts/fireworks/models/x": "/v1",
    "databricks/dbrx": "/v1",
    "watsonx/ibm/granite": "",
    "hosted_vllm/x": "/v1",
}
LANES = ("chat", "anthropic", "litellm")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library() -> AsyncIterator[LitellmLibrary]:
    """One import and one event loop for all tests here."""
    library = LitellmLibrary()
    yield library
    module = await library.module()
    await module.close_litellm_async_clients()
    await library.aclose()
    for _ in range(3):
        await asyncio.sleep(0)


async def key() -> str:
    return KEY


key.__test__ = False  # type: ignore[attr-defined]


def litellm_lane(library: LitellmLibrary, url: str, model: str) -> LitellmProvider:
    options: dict[str, Any] = {"api_version": "2024-10-21"} if model.startswith("azure/") else {}
    if model.startswith("watsonx/"):
        options = {"token": KEY, "project_id": "p"}
    return LitellmProvider(library, key=key, base_url=url + SHAPES[model], options=options)


@pytest.mark.parametrize(
    ("model", "status"),
    [*((model, 307) for model in SHAPES), *(("anthropic/claude-sonnet-4-5", one) for one in (301, 302, 308))],
)
async def test_RU_M4_no_redirect_is_followed(library: LitellmLibrary, model: str, status: int) -> None:
    async with FakeLLM(lambda _: reply("stolen")) as other:

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = f"HTTP/1.1 {status} Moved\r\nlocation: {other.url}/v1/chat/completions\r\n"
            writer.write(f"{head}content-length: 0\r\n\r\n".encode())

        async with served(answer) as url:
            provider = litellm_lane(library, url, model)
            found, error = await pieces_of(provider.stream(ModelRequest(model, "s", (ask("secret"),), ())))
        assert other.requests == []
    assert found == []
    assert error is not None
    if model.startswith("text-completion"):
        return  # there litellm keeps nothing of the cause
    assert (error.kind, error.status, error.retryable) == ("not_found", status, False)
    assert f"127.0.0.1 redirects to {other.url}" in error.message


async def test_RU_M4_aiohttp_is_not_used(library: LitellmLibrary) -> None:
    module = await library.module()
    assert module.disable_aiohttp_transport
    handler = module.llms.custom_httpx.http_handler.AsyncHTTPHandler
    assert not handler.should_use_aiohttp_transport()


def provider_of(library: LitellmLibrary, name: str, url: str) -> tuple[Provider, Callable[[], Any]]:
    """A lane and its closing."""
    if name == "litellm":
        return litellm_lane(library, url, "anthropic/claude-sonnet-4-5"), library.aclose
    made = lane(name, url, key=KEY)
    return made, made.aclose


@asynccontextmanager
async def served(answer: Serve) -> AsyncIterator[str]:
    """A server that reads a request and then does what `answer` does, until the client leaves."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
        with suppress(OSError):
            await answer(reader, writer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async with stream_server(serve) as port:
        yield f"http://127.0.0.1:{port}"


async def outcome(library: LitellmLibrary, name: str, answer: Serve) -> ProviderError:
    """The error a lane ends with, while the loop stays responsive and memory bounded."""
    late = 0.0
    loop = asyncio.get_running_loop()

    async def tick() -> None:
        nonlocal late
        while True:
            before = loop.time()
            await asyncio.sleep(0.01)
            late = max(late, loop.time() - before - 0.01)

    await library.module()
    async with served(answer) as url:
        provider, aclose = provider_of(library, name, url)
        watched = WatchedProvider(provider, WatchLimits(20, 20, 20, 25))
        ticking = asyncio.create_task(tick())
        tracemalloc.start()
        try:
            model = "fake-model" if name != "litellm" else "anthropic/claude-sonnet-4-5"
            _, error = await pieces_of(watched.stream(request(model=model)))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            ticking.cancel()
            await aclose()
    assert error is not None
    assert peak < 300_000_000
    return error


@pytest.mark.parametrize("name", LANES)
@pytest.mark.parametrize(
    "interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"]
)
async def test_RU_M3_endless_interim_answers_end(library: LitellmLibrary, name: str, interim: bytes) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(interim * 1000)
            await writer.drain()

    error = await outcome(library, name, answer)
    assert (error.kind, error.retryable) == ("server", False)
    assert f"more than {MAX_INTERIM_ANSWERS} interim answers" in error.message


@pytest.mark.parametrize("name", LANES)
async def test_RU_M3_an_endless_head_ends(library: LitellmLibrary, name: str) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x-header: " + b"y" * 1000 + b"\r\n")
            await writer.drain()

    error = await outcome(library, name, answer)
    assert (error.kind, error.retryable) == ("server", False)
    assert "headers are longer" in error.message


@pytest.mark.parametrize("name", LANES)
async def test_RU_M3_a_huge_error_body_is_cut_short(library: LitellmLibrary, name: str) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 50000000\r\n\r\n")
        for _ in range(50):
            writer.write(b"overloaded " * 90_909)
            await writer.drain()

    error = await outcome(library, name, answer)
    assert (error.kind, error.status) == ("overloaded", 503)
    assert len(error.message) < 600


@pytest.mark.parametrize("name", LANES)
async def test_RU_M3_an_error_body_without_end_is_waited_for_briefly(
    library: LitellmLibrary, name: str
) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\n\r\n")
        while True:
            writer.write(b"busy ")
            await writer.drain()
            await asyncio.sleep(ERROR_BODY_S / 50)

    error = await outcome(library, name, answer)
    assert (error.kind, error.status) == ("overloaded", 503)


@functools.cache
def gzip_bomb() -> bytes:
    """Pack 500 MB of events."""
    event = b"data: " + json.dumps({"choices": [], "type": "ping", "pad": " " * 1_000_000}).encode() + b"\n\n"
    return gzip.compress(event * 500, compresslevel=1)


@pytest.mark.parametrize("name", LANES)
@pytest.mark.parametrize("status", [b"200 OK", b"500 Oops"])
async def test_RU_M2_a_gzip_bomb_is_refused(library: LitellmLibrary, name: str, status: bytes) -> None:
    packed = gzip_bomb()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 %b\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n" % status
        writer.write(head + b"content-length: %d\r\n\r\n" % len(packed) + packed)

    error = await outcome(library, name, answer)
    if status.startswith(b"500"):
        assert error.status == 500
    else:
        assert (error.kind, error.retryable) == ("server", False)
        assert "longer than 128 MB" in error.message


async def fed(assembler: ReplyAssembler, pieces: AsyncGenerator[ModelDelta, None]) -> None:
    """Give an assembler every piece."""
    async with aclosing(pieces):
        async for piece in pieces:
            assembler.feed(piece)


async def repeated(piece: ModelDelta) -> AsyncGenerator[ModelDelta, None]:
    """One piece more often than a reply may have parts."""
    for _ in range(MAX_PARTS + 1):
        yield piece


ENDLESS = {
    "text": {"content": "x" * 50_000},
    "reasoning": {"reasoning_content": "x" * 50_000},
    "arguments": {
        "tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "x" * 50_000}}]
    },
}


@pytest.mark.parametrize("name", ["chat", "litellm"])
@pytest.mark.parametrize("kind", ENDLESS)
async def test_RU_M2_a_reply_without_end_is_stopped_and_kept(
    library: LitellmLibrary, name: str, kind: str
) -> None:
    event = b"data: " + json.dumps({"choices": [{"index": 0, "delta": ENDLESS[kind]}]}).encode() + b"\n\n"

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        while True:
            writer.write(event)
            await writer.drain()

    await library.module()
    async with served(answer) as url:
        provider, aclose = provider_of(library, name, url)
        if name == "litellm":
            provider = litellm_lane(library, url, "openai/gpt-4o")
        assembler = ReplyAssembler("r1", "m", provider.lane)
        with pytest.raises(ProviderError) as stopped:
            await fed(assembler, provider.stream(request(model="openai/gpt-4o")))
        await aclose()
    error = stopped.value
    assert (error.kind, error.retryable) == ("server", False)
    assert error.message == f"the reply was stopped at 4 million characters of {kind}"
    kept = assembler.partial()
    assert len(kept.parts) == 1
    size = (
        len(text_of(kept))
        + len(thinking_of(kept))
        + sum(len(c.arguments) + len(c.name) for c in calls_of(kept))
    )
    assert 3_900_000 < size <= 4_000_002


@pytest.mark.parametrize("piece", [CallPiece(None, "", "f", "{}", complete=True), ServerPiece({"type": "x"})])
async def test_RU_M2_the_parts_of_a_reply_are_counted(piece: ModelDelta) -> None:
    assembler = ReplyAssembler("r1", "m", "chat")
    with pytest.raises(ProviderError, match="the reply was stopped at"):
        await fed(assembler, repeated(piece))
    assert len(assembler.partial().parts) == (MAX_CALLS if isinstance(piece, CallPiece) else MAX_PARTS)
