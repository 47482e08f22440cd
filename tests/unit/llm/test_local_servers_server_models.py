"""Servers say how much context their models have, each in its own way; it is asked over real HTTP."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from buddy.agent.provider import ProviderError
from buddy.llm.http.client import EngineClient
from buddy.llm.local_servers import context_of, list_models
from tests.fake_llm.server import FakeLLM
from tests.support.stream_server import stream_server

SERVERS: dict[str, dict[str, Any]] = {
    "litellm": {
        "/v1/models": {"data": [{"id": "m"}]},
        "/model/info": {"data": [{"model_name": "m", "model_info": {"id": "x", "max_input_tokens": 4321}}]},
    },
    "litellm list": {"/v1/models": {"data": [{"id": "m", "max_input_tokens": 4321}]}},
    "llama.cpp": {"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx": 4321, "n_ctx_train": 99999}}]}},
    "llama.cpp old": {
        "/v1/models": {"data": [{"id": "m", "meta": {"n_ctx_train": 99999}}]},
        "/props": {"default_generation_settings": {"n_ctx": 4321}},
    },
    "vllm": {"/v1/models": {"data": [{"id": "m", "max_model_len": 4321}]}},
    "lm studio": {
        "/v1/models": {"data": [{"id": "m"}]},
        "/api/v0/models": {"data": [{"id": "m", "max_context_length": 99999, "loaded_context_length": 4321}]},
    },
    "ollama": {
        "/v1/models": {"data": [{"id": "m"}]},
        "/api/show": {"model_info": {"qwen3.context_length": 4321}, "parameters": "temperature 1"},
    },
    "ollama num_ctx": {
        "/v1/models": {"data": [{"id": "m"}]},
        "/api/show": {"model_info": {"qwen3.context_length": 9}, "parameters": "num_ctx    4321\nstop x"},
    },
    "openrouter": {"/v1/models": {"data": [{"id": "m", "context_length": 4321}, {"id": "n"}]}},
}


@pytest.mark.parametrize("name", SERVERS)
async def test_RU_B14_the_context_of_a_server_is_found(name: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(EOFError, OSError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0].strip() or b"0"
                await reader.readexactly(int(size))
                answer = SERVERS[name].get(head.split()[1].decode())
                body = json.dumps(answer or {"error": "not found"}).encode()
                status = b"200 OK" if answer else b"404 No"
                writer.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
                await writer.drain()

    async with stream_server(serve) as port:
        client = EngineClient(5)
        found = await context_of(client, f"http://127.0.0.1:{port}/v1", {}, "127.0.0.1", "m")
        await client.aclose()
    assert found == 4321


async def test_RU_8_the_models_of_a_server_are_listed() -> None:
    async with FakeLLM([], models=("a", "b")) as server:
        client = EngineClient(5)
        listed = await list_models(client, f"{server.url}/v1", {}, "127.0.0.1")
        await client.aclose()
    assert [one.name for one in listed] == ["a", "b"]


async def test_RU_B13_a_server_that_never_answers_is_given_up() -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with stream_server(serve) as port:
        client = EngineClient(5)
        with pytest.raises(ProviderError, match=r"did not list its models within 0\.2 s"):
            await list_models(client, f"http://127.0.0.1:{port}/v1", {}, "127.0.0.1", within_s=0.2)
        await client.aclose()
