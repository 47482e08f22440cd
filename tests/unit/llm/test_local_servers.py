"""Model servers on this machine are found; everything else that listens there is left alone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from buddy.llm.local_servers import LocalAddress, LocalServer, find_local_servers
from tests.fake_llm.server import FakeLLM
from tests.support.stream_server import stream_server

MODELS = b'{"object": "list", "data": [{"id": "qwen3"}]}'


@asynccontextmanager
async def answering(answer: bytes, *, hold: bool = False) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await (reader.read() if hold else writer.drain())
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    async with stream_server(serve) as port:
        yield port


def http(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *headers, b"", body])


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


async def test_servers_that_answer_are_listed_in_the_order_asked() -> None:
    async with FakeLLM([], models=["llama3.1:8b", "qwen3"]) as first, FakeLLM([], models=[]) as second:
        addresses = [
            LocalAddress("ollama", first.port),
            LocalAddress("lm_studio", free_port()),
            LocalAddress("llama_cpp", second.port),
        ]
        found = await find_local_servers(addresses, timeout_s=20)
    assert found == (
        LocalServer("ollama", f"http://127.0.0.1:{first.port}/v1", ("llama3.1:8b", "qwen3")),
        LocalServer("llama_cpp", f"http://127.0.0.1:{second.port}/v1", ()),
    )


@pytest.mark.parametrize(
    "answer",
    [
        http(MODELS, b"Content-Length: %d" % len(MODELS)),
        http(MODELS),
        http(
            b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (5, MODELS[:5], len(MODELS) - 5, MODELS[5:]),
            b"Transfer-Encoding: chunked",
        ),
    ],
)
async def test_every_way_to_frame_a_body_is_read(answer: bytes) -> None:
    async with answering(answer) as port:
        found = await find_local_servers([LocalAddress("x", port)], timeout_s=20)
    assert [server.models for server in found] == [("qwen3",)]


@pytest.mark.parametrize(
    "answer",
    [
        http(b"<html>Welcome</html>", b"content-length: 20"),
        http(MODELS, b"content-length: %d" % len(MODELS), status=b"404 Not Found"),
        http(b'{"data": [{"name": "x"}], "object": "list"}'),
        http(b'{"object": "page", "data": []}'),
        http(b'{"object": "list"'),
        http(b"", b"content-length: 99999999"),
        http(b"", b"content-length: lots"),
        http(b"zz\r\n", b"transfer-encoding: chunked"),
        b"220 smtp.example ESMTP\r\n",
        b"\x00\xff" * 70_000,
        b"",
    ],
)
async def test_anything_else_is_no_model_server(answer: bytes) -> None:
    async with answering(answer) as port:
        assert await find_local_servers([LocalAddress("x", port)], timeout_s=5) == ()


async def test_a_server_that_never_answers_does_not_hold_the_others_up() -> None:
    async with answering(b"", hold=True) as silent, FakeLLM([], models=["m"]) as server:
        addresses = [LocalAddress("x", silent), LocalAddress("y", server.port)]
        for timeout_s in (0.2, 2, 15):  # until the machine is fast enough for the one that answers
            if found := await find_local_servers(addresses, timeout_s=timeout_s):
                break
    assert [one.provider for one in found] == ["y"]
