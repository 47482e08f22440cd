"""The fake model server does what its scripts say: everything else is tested against it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake_llm.builtin import BUILTIN
from tests.fake_llm.script import (
    BadUtf8,
    CleanEnd,
    Cut,
    Empty,
    ErrorEvent,
    Fault,
    Garbage,
    Html,
    HttpError,
    HugeLine,
    Pings,
    Reply,
    Reset,
    Script,
    Stall,
    Tokens,
    call,
    failure,
    reply,
    think,
)
from tests.fake_llm.server import FakeLLM

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}


def body_for(api: str, text: str = "hi") -> dict[str, Any]:
    match api:
        case "responses":
            return {"model": "m", "stream": True, "input": [{"role": "user", "content": text}]}
        case "gemini":
            return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
        case _:
            options = {"stream_options": {"include_usage": True}}
            return {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}], **options}


async def ask(server: FakeLLM, api: str, text: str = "hi") -> tuple[int, bytes]:
    received = b""
    async with (
        httpx.AsyncClient(verify=False, trust_env=False) as client,
        client.stream("POST", server.url + PATHS[api], json=body_for(api, text)) as response,
    ):
        async for piece in response.aiter_raw():
            received += piece
    return response.status_code, received


def events(raw: bytes) -> list[Any]:
    lines = [line[6:] for line in raw.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def text_of(api: str, raw: bytes) -> str:
    found = events(raw)
    match api:
        case "chat":
            return "".join(e["choices"][0]["delta"].get("content") or "" for e in found if e["choices"])
        case "responses":
            return "".join(e["delta"] for e in found if e["type"] == "response.output_text.delta")
        case "anthropic":
            deltas = [e["delta"] for e in found if e["type"] == "content_block_delta"]
            return "".join(delta.get("text", "") for delta in deltas)
        case _:
            parts = [part for e in found for part in e["candidates"][0]["content"]["parts"]]
            return "".join(part.get("text", "") for part in parts if not part.get("thought"))


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("fragmentation", ["frames", "whole", "byte", "random"])
async def test_the_same_bytes_arrive_however_they_are_cut(api: str, fragmentation: Any) -> None:
    parts = (think("grübeln", signature="s"), "Grüße 🎉 an alle", call("read_file", path="ä.py"))
    async with (
        FakeLLM([reply(*parts, chars=3)]) as plain,
        FakeLLM([reply(*parts, chars=3, fragmentation=fragmentation)]) as cut,
    ):
        expected = await ask(plain, api)
        assert await ask(cut, api) == expected
    assert text_of(api, expected[1]) == "Grüße 🎉 an alle"


async def test_a_list_is_consumed_in_order_and_then_refuses() -> None:
    async with FakeLLM([reply("one"), reply("two")]) as server:
        answers = [await ask(server, "chat") for _ in range(3)]
    assert [status for status, _ in answers] == [200, 200, 400]
    assert [text_of("chat", raw) for _, raw in answers[:2]] == ["one", "two"]
    assert "the script has only 2 replies" in answers[2][1].decode()


async def test_a_function_chooses_by_the_request() -> None:
    async with FakeLLM(lambda asked: reply(asked.last_user_text.upper())) as server:
        assert text_of("anthropic", (await ask(server, "anthropic", "hello"))[1]) == "HELLO"


async def test_a_marker_picks_a_named_script_and_the_replies_since_then_the_step() -> None:
    script: Script = {"two": [reply("first"), reply("second")]}
    history: list[dict[str, Any]] = [{"role": "user", "content": "go [[script:two]]"}]
    said: list[str] = []
    async with FakeLLM(script) as server, httpx.AsyncClient(verify=False, trust_env=False) as client:
        for _ in range(3):
            answer = await client.post(server.url + PATHS["chat"], json={"model": "m", "messages": history})
            said.append(answer.json()["choices"][0]["message"]["content"])
            history += [{"role": "assistant", "content": said[-1]}, {"role": "user", "content": "and on"}]
    assert said == ["first", "second", "You said: and on"]


@pytest.mark.parametrize("api", PATHS)
async def test_requests_are_kept_whole_and_readable(api: str) -> None:
    async with FakeLLM([reply("ok")]) as server:
        await ask(server, api, "what is this?")
        (asked,) = await server.ended(1)
    assert asked.json == body_for(api, "what is this?")
    assert json.loads(asked.raw) == asked.json
    assert (asked.api, asked.model, asked.streams, asked.outcome) == (api, "m", True, "completed")
    assert asked.last_user_text == "what is this?"
    assert asked.headers["content-type"] == "application/json"


async def test_usage_comes_only_when_asked_for_on_chat() -> None:
    async with FakeLLM([reply("ok", usage=Tokens(7, 3)), reply("ok", usage=Tokens(7, 3))]) as server:
        asked = await ask(server, "chat")
        async with httpx.AsyncClient(verify=False, trust_env=False) as client:
            silent = await client.post(
                server.url + PATHS["chat"], json={"model": "m", "stream": True, "messages": []}
            )
    assert events(asked[1])[-1]["usage"]["prompt_tokens"] == 7
    assert all("usage" not in event for event in events(silent.content))


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("fault", [Reset(after=2), Cut(after=2)])
async def test_a_broken_connection_is_an_error_for_the_client(api: str, fault: Fault) -> None:
    async with FakeLLM([reply("one two three four five", chars=4, fault=fault)]) as server:
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await ask(server, api)
        assert (await server.ended(1))[0].outcome == "broken"


@pytest.mark.parametrize("api", PATHS)
async def test_a_clean_end_leaves_only_the_finish_away(api: str) -> None:
    async with FakeLLM([reply("one two", fault=CleanEnd()), reply("one two")]) as server:
        cut, whole = await ask(server, api), await ask(server, api)
    assert text_of(api, cut[1]) == text_of(api, whole[1]) == "one two"
    assert len(cut[1]) < len(whole[1])


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("after", [-1, 0, 2])
async def test_a_stall_ends_when_the_client_leaves(api: str, after: int) -> None:
    async with FakeLLM([reply("one two three", chars=2, fault=Stall(after=after))]) as server:
        asking = asyncio.create_task(ask(server, api))
        await server.arrived(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await server.ended(1))[0].outcome == "aborted"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Pings(after=1, every_s=0.001, count=3), b": keep-alive\n\n: keep-alive\n\n: keep-alive\n\n"),
        (BadUtf8(after=1), b"data: \xff\xfe\xc3\n\n"),
        (Garbage(after=1), b'data: {"broken": \n\n'),
        (HugeLine(after=1, size=100_000), b": " + b"x" * 100_000 + b"\n\n"),
    ],
)
async def test_noise_is_slipped_between_frames(fault: Fault, expected: bytes) -> None:
    async with FakeLLM([reply("one two", chars=4), reply("one two", chars=4, fault=fault)]) as server:
        (_, plain), (_, noisy) = await ask(server, "anthropic"), await ask(server, "anthropic")
    assert expected in noisy
    assert noisy.replace(expected, b"").replace(b"msg_2", b"msg_1") == plain


@pytest.mark.parametrize("api", PATHS)
async def test_an_error_event_ends_the_stream(api: str) -> None:
    async with FakeLLM([reply("one two", fault=ErrorEvent(after=1, message="over there"))]) as server:
        status, raw = await ask(server, api)
    assert status == 200
    assert "over there" in json.dumps(events(raw)[-1])


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (
            failure(429, {"error": {"message": "slow down"}}, retry_after="3"),
            429,
            b'{"error": {"message": "slow down"}}',
        ),
        (reply("x", fault=HttpError(418, body="short and stout")), 418, b"short and stout"),
        (reply("x", fault=Html(body="<html>")), 200, b"<html>"),
        (reply("x", fault=Empty()), 200, b""),
    ],
)
async def test_answers_that_are_no_stream(answer: Reply, status: int, body: bytes) -> None:
    async with FakeLLM([answer]) as server:
        assert await ask(server, "chat") == (status, body)


async def test_a_fault_strikes_as_often_as_it_should() -> None:
    script = {"flaky": [reply("there", fault=HttpError(503), times=2)]}
    async with FakeLLM(script) as server:
        statuses = [(await ask(server, "chat", "[[script:flaky]]"))[0] for _ in range(4)]
    assert statuses == [503, 503, 200, 200]


async def test_models_are_listed() -> None:
    async with (
        FakeLLM([], models=["a", "b"]) as server,
        httpx.AsyncClient(verify=False, trust_env=False) as client,
    ):
        listed = (await client.get(server.url + "/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["a", "b"]


async def test_it_runs_as_a_process_with_named_scripts() -> None:
    root = Path(__file__).resolve().parents[3]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.fake_llm", "--port", "0", cwd=root, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        ready = json.loads(await process.stdout.readline())
        assert ready["scripts"] == sorted(BUILTIN)
        async with httpx.AsyncClient(verify=False, trust_env=False, base_url=ready["url"]) as client:
            await client.post(PATHS["chat"], json=body_for("chat", "[[script:hello]]"))
            log = (await client.get("/_requests")).json()
        assert [one["outcome"] for one in log] == ["completed"]
    finally:
        process.terminate()
    assert await process.wait() == 0
    del process
