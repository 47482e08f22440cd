"""The HTTP engine against servers that frame answers oddly, and against being interrupted."""

from __future__ import annotations

import asyncio
import gc
import ssl
import warnings
from collections.abc import Awaitable, Callable

import pytest

from buddy.agent.provider import ProviderError
from buddy.llm.http.client import EngineClient, load_engine
from tests.capabilities import requires
from tests.support.certificates import certificate_of
from tests.support.stream_server import stream_server

CHUNKED = b'5;name="x"\r\nhello\r\nA\r\n, world!!!\r\n0\r\ntrailer: x\r\n\r\n'


async def read(client: EngineClient, url: str) -> bytes:
    """The body of an answer to a POST, read to its end."""
    answer = await client.post(url, {"x": "y"}, b"{}")
    try:
        return b"".join([chunk async for chunk in answer.body()])
    finally:
        await answer.aclose()


async def read_from(*answers: bytes, times: int = 1, cut: int = 0) -> tuple[list[bytes], int]:
    """The bodies of answers that servers give to one client, and how many connections it took. `cut`: bytes a
    server sends at a time."""
    waiting = list(answers)
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while waiting:
            await reader.readuntil(b"{}")
            data = waiting.pop(0)
            for at in range(0, len(data), cut or len(data)):
                writer.write(data[at : at + (cut or len(data))])
                await writer.drain()
                await asyncio.sleep(0)
            if b"content-length" not in data and b"chunked" not in data:
                writer.close()

    async with stream_server(serve) as port:
        client = EngineClient(5)
        try:
            bodies = [await read(client, f"http://127.0.0.1:{port}/") for _ in range(times)]
        finally:
            await client.aclose()
    return bodies, connections


def ok(*headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 200 OK", *headers, b"", body])


SIZED = ok(b"content-length: 5", body=b"hello")


@pytest.mark.parametrize("cut", [0, 1, 3, 7])
async def test_bodies_are_the_same_however_they_are_framed_and_cut(cut: int) -> None:
    answers = [SIZED, ok(b"Transfer-Encoding: Chunked", body=CHUNKED), ok(body=b"hello")]
    bodies, _ = await read_from(*answers, times=3, cut=cut)
    assert bodies == [b"hello", b"hello, world!!!", b"hello"]


async def test_a_connection_serves_on_after_a_whole_answer_and_after_none_else() -> None:
    both = ok(b"transfer-encoding: chunked", b"content-length: 15", body=CHUNKED)
    assert await read_from(SIZED, SIZED, times=2) == ([b"hello"] * 2, 1)
    assert await read_from(both, SIZED, times=2) == ([b"hello, world!!!", b"hello"], 2)
    assert await read_from(ok(b"connection: close", b"content-length: 5", body=b"hello"), SIZED, times=2) == (
        [b"hello"] * 2,
        2,
    )


async def test_an_answer_nobody_asked_for_is_not_taken_for_the_next_one() -> None:
    stray = ok(b"content-length: 5", body=b"stray")
    bodies, connections = await read_from(SIZED + stray, SIZED, SIZED, times=2)
    assert (bodies, connections) == ([b"hello"] * 2, 2)


async def test_rubbish_behind_an_answer_costs_a_connection_and_nothing_else() -> None:
    bodies, connections = await read_from(SIZED + b"rubbish", SIZED, SIZED, times=2)
    assert (bodies, connections) == ([b"hello"] * 2, 2)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        ok(b"no colon", b"content-length: 0"),
        ok(b"name : x", b"content-length: 0"),
        ok(b"content-length: 5, 6"),
        ok(b"content-length: -1"),
        ok(b"transfer-encoding: gzip, chunked"),
        ok(b"content-encoding: br", b"content-length: 1", body=b"x"),
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\ncontent-length: 0\r\n\r\n",
    ],
)
async def test_an_unusable_answer_is_not_asked_for_again(answer: bytes) -> None:
    with pytest.raises(ProviderError, match="unusable answer") as failed:
        await read_from(answer)
    assert (failed.value.kind, failed.value.retryable) == ("server", False)


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"transfer-encoding: chunked", body=b"x\r\n"),
        ok(b"transfer-encoding: chunked", body=b"2\r\nabcd\r\n"),
        ok(b"transfer-encoding: chunked", body=b"1" * 500_000),
        ok(b"transfer-encoding: chunked", body=b"0\r\n" + b"a: b\r\n" * 100_000),
        ok(b"content-encoding: gzip", b"content-length: 4", body=b"zzzz"),
    ],
)
async def test_a_malformed_body_is_a_cut(answer: bytes) -> None:
    with pytest.raises(ProviderError, match="broke while the answer arrived") as failed:
        await read_from(answer)
    assert failed.value.kind == "cut"


async def interrupt(ask: Callable[[], Awaitable[object]], rounds: int) -> set[str]:
    """Cancel work after ever more steps of the loop; every socket must be closed. Returns how it ended."""
    ended: set[str] = set()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for steps in range(rounds):
            work = asyncio.ensure_future(ask())
            for _ in range(steps):
                await asyncio.sleep(0 if steps < rounds // 2 else 0.0005)
            work.cancel()
            try:
                await work
                ended.add("answered")
            except asyncio.CancelledError:
                ended.add("cancelled")
        await asyncio.sleep(0.05)
        gc.collect()
    assert [str(one.message) for one in seen if issubclass(one.category, ResourceWarning)] == []
    return ended


async def test_no_socket_is_left_however_early_or_late_it_is_cancelled() -> None:
    await load_engine()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"{}")
            writer.write(SIZED)

    async with stream_server(serve) as port:

        async def ask() -> None:
            client = EngineClient(5)
            try:
                await read(client, f"http://localhost:{port}/")
            finally:
                await client.aclose()

        assert await interrupt(ask, 80) == {"answered", "cancelled"}


@requires("openssl")
async def test_no_socket_is_left_by_a_handshake_that_is_cancelled(tmp_path) -> None:
    await load_engine()
    certificate = certificate_of("localhost", tmp_path)

    def trusting() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=certificate.certificate)

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()  # the client's hello, and nothing for it
        await asyncio.Event().wait()

    async with stream_server(silent) as port:

        async def ask() -> None:
            client = EngineClient(5, tls=trusting)
            try:
                await read(client, f"https://localhost:{port}/")
            finally:
                await client.aclose()

        assert await interrupt(ask, 60) == {"cancelled"}


async def test_cancelling_in_mid_read_closes_the_connection() -> None:
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(ok(b"content-length: 100", body=b"begun"))
        await reader.read()
        gone.set()

    async with stream_server(serve) as port:
        client = EngineClient(5)
        answer = await client.post(f"http://127.0.0.1:{port}/", {}, b"{}")
        body = answer.body()
        assert await anext(body) == b"begun"
        reading = asyncio.ensure_future(anext(body))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        async with asyncio.timeout(60):
            await gone.wait()  # before anybody closed the answer
        await answer.aclose()
        await client.aclose()
