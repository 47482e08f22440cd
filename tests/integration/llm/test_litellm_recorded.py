"""Recorded provider streams through the litellm lane over HTTP: whole as expected, cut ones told as cut."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from buddy.agent.messages import AssistantMessage, UserMessage, calls_of, text_of, thinking_of
from buddy.agent.messages import Text as MessageText
from buddy.agent.provider import ModelRequest, ProviderError, ToolDefinition
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.llm.litellm_lane.loader import LitellmLibrary
from buddy.llm.litellm_lane.provider import LitellmProvider
from tests.capabilities import SHARED, requires

pytestmark = [
    requires("shared"),
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic"),
]

RECORDED = SHARED / "recorded"
MODELS = {
    "gemini": "gemini/gemini-2.5-pro",
    "responses": "openai/gpt-5.2",
    "messages": "anthropic/claude-sonnet-4-5",
}
"""The wire of each recorded api; chat streams go through litellm's OpenAI client."""

TOOLS = (ToolDefinition("weather", "The weather.", {"type": "object", "properties": {}}),)


def index() -> list[dict[str, Any]]:
    path = RECORDED / "streams" / "index.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def sample() -> list[dict[str, Any]]:
    """Everything only litellm speaks, and the shortest chat stream of each provider."""
    rows = sorted(index(), key=lambda row: row["bytes"])
    chat = {row["provider"]: row for row in reversed(rows) if row["api"] == "chat"}
    return [row for row in rows if row["api"] != "chat" and row["bytes"] < 60_000] + list(chat.values())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library() -> AsyncIterator[LitellmLibrary]:
    library = LitellmLibrary()
    yield library
    module = await library.module()
    await module.close_litellm_async_clients()
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture(scope="module")
def replayed() -> Iterator[str]:
    """The recordings' own server, as a process: its address."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    process = subprocess.Popen([sys.executable, "run_streams.py", "--serve", str(port)], cwd=RECORDED)
    try:
        deadline = time.monotonic() + 50
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the replay server did not start"
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def runner() -> Any:
    spec = importlib.util.spec_from_file_location("run_streams", RECORDED / "run_streams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def replay(library: LitellmLibrary, base_url: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return the lane's result for a recording, in the runner's words."""
    model = MODELS.get(row["api"], "openai/gpt-4o")
    provider = LitellmProvider(
        library,
        key=no_key_at_all,
        base_url=base_url,
        api="responses" if row["api"] == "responses" else "chat",
    )
    question = UserMessage("u", (MessageText("hi"),), "prompt")
    assembler = ReplyAssembler("r", model, provider.lane)
    errors: list[str] = []
    try:
        async for delta in provider.stream(ModelRequest(model, "", (question,), TOOLS)):
            assembler.feed(delta)
        message = assembler.finish()
    except ProviderError as error:
        errors.append(f"{error.kind}: {error.message}")
        message = assembler.partial()
    return described(message, errors)


def described(message: AssistantMessage, errors: list[str]) -> dict[str, Any]:
    finish = {"calls": "tool", "cut": None}.get(message.finish, message.finish)
    usage = message.usage
    return {
        "text": text_of(message),
        "reasoning": thinking_of(message),
        "tool_calls": [{"name": one.name, "arguments": one.arguments} for one in calls_of(message)]
        if message.finish != "cut"
        else [],
        "finish_reason": finish,
        "usage": None if usage.estimated else {"input": usage.input_tokens, "output": usage.output_tokens},
        "errors": errors,
    }


async def no_key_at_all() -> str:
    return "unused"


LITELLM_LIMITS = {
    # What litellm itself cannot do: known, and none of it asked for on this lane.
    "anthropic-messages-06": "tools the server runs come as calls",
    "anthropic-messages-14": "the usage of an answer that fell back to another model is added up",
    "anthropic-messages-22": "several messages in one recording",
    "anthropic-messages-24": "several messages in one recording",
    "gemini-gemini-18": "arguments in pieces (only when asked for)",
    "openai-responses-20": "several responses in one recording",
    "snowflake-chat-02": "no finish reason: a clean end is not trusted on this lane",
}


@pytest.mark.parametrize(
    "row", [row for row in sample() if row["id"] not in LITELLM_LIMITS], ids=lambda row: row["id"]
)
async def test_a_recorded_stream_is_assembled_as_expected(
    library: LitellmLibrary, replayed: str, runner: Any, row: dict[str, Any]
) -> None:
    got = await replay(library, f"{replayed}/{row['id']}", row)
    assert runner.compare(row["expect"], got) == []


@pytest.mark.parametrize("row", sample(), ids=lambda row: row["id"])
async def test_a_cut_recording_is_told_as_cut(
    library: LitellmLibrary, replayed: str, runner: Any, row: dict[str, Any]
) -> None:
    raw = (RECORDED / row["file"]).read_bytes()
    if not runner.cut_point(raw, row["api"]):
        return
    got = await replay(library, f"{replayed}/cut:{row['id']}", row)
    assert runner.check_cut(row["expect"], got) == []
    assert got["finish_reason"] is None
    assert got["errors"]
