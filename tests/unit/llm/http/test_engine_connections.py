"""Below HTTP: servers that can't be reached, that hang up, that are not who they say they are."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.agent.messages import text_of
from buddy.agent.provider import ProviderError
from buddy.llm.direct.lane import Endpoint
from buddy.llm.direct.openai import OpenAIChat
from buddy.llm.http.client import EngineClient, client_for, proxy_for, trusting_the_system
from buddy.llm.http.limits import target_of
from tests.capabilities import requires
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.certificates import Certificate, certificate_of
from tests.support.lanes import connect, lane, pieces_of, reply_of, request
from tests.support.stream_server import stream_server

ANSWER = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(size)


@asynccontextmanager
async def raw_server(answer: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that does what `answer` does with each connection, then closes it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(reader, writer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with stream_server(serve, tls) as port:
        yield port


async def failure(url: str, connect_s: float = 5) -> ProviderError:
    provider = OpenAIChat(Endpoint(url, lambda: "sk-test-key", connect_s=connect_s), connect)
    _, error = await pieces_of(provider.stream(request()))
    await provider.aclose()
    assert error is not None
    assert "sk-test-key" not in error.message
    return error


async def test_REL_038_a_refused_connection_names_the_server_and_what_to_check():
    address = f"127.0.0.1:{free_port()}"
    error = await failure(f"http://{address}")
    assert (error.kind, error.retryable) == ("server", True)
    assert error.message == (f"{address} refuses connections; is the server up, is base_url right?")


async def test_REL_038_a_name_that_cannot_be_resolved_says_so():
    error = await failure("http://no-such-host.invalid")
    assert (
        error.message
        == "the name of no-such-host.invalid could not be resolved; check the network and base_url"
    )


@pytest.mark.parametrize(
    "url", ["ftp://example.com", "nonsense", "http://", "http://[::1", "http://exa mple/"]
)
async def test_an_address_that_is_none_is_told(url):
    error = await failure(url)
    assert (error.kind, error.retryable, "base_url" in error.message) in [
        ("bad_request", False, True),
        ("server", True, True),
    ]


async def test_a_server_that_does_not_accept_in_time_is_given_up():
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        error = await failure(f"http://127.0.0.1:{full.getsockname()[1]}", connect_s=0.3)
        for filler in fillers:
            filler.close()
    assert error.message == "127.0.0.1 could not be reached in time; check the network"


async def test_a_server_that_hangs_up_before_answering_is_a_cut():
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async with raw_server(hang_up) as port:
        error = await failure(f"http://127.0.0.1:{port}")
    assert (error.kind, error.message) == ("cut", "127.0.0.1 closed the connection before answering")


async def test_a_server_that_does_not_speak_http_is_told():
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.7\r\n\r\n")
        await read_request(reader)

    async with raw_server(greet) as port:
        error = await failure(f"http://127.0.0.1:{port}")
    assert error.kind in ("server", "cut")


async def talk(answer: Handler, times: int = 1) -> list[str]:
    async with raw_server(answer) as port:
        provider = lane("chat", f"http://127.0.0.1:{port}")
        texts = [text_of((await reply_of(provider, request()))[0]) for _ in range(times)]
        await provider.aclose()
    return texts


async def test_a_body_that_ends_with_the_connection_is_whole():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + b"\r\n" + ANSWER)

    assert await talk(answer, times=2) == ["hi", "hi"]


async def test_a_server_that_holds_the_connection_after_the_end_is_not_waited_for():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + b"\r\n" + ANSWER)
        await reader.read()

    assert await talk(answer) == ["hi"]


async def test_a_request_goes_out_in_one_piece():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        told = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        pieces.append(int.from_bytes(told[152:156], sys.byteorder))  # `tcpi_data_segs_in`
        writer.write(HEAD + b"\r\n" + ANSWER)

    pieces: list[int] = []
    assert await talk(answer, times=2) == ["hi", "hi"]
    assert pieces == [1, 1]


async def test_an_answer_that_is_not_streamed_will_do():
    body = b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}'

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    assert await talk(answer) == ["hi"]


async def test_a_connection_the_server_closed_meanwhile_is_replaced_unnoticed():
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(HEAD + b"content-length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER))
        await reader.readuntil(b"\r\n\r\n")  # the next request is never answered

    assert await talk(answer, times=3) == ["hi", "hi", "hi"]
    assert connections >= 3


async def test_a_connection_whose_answer_outlives_the_client_is_not_kept() -> None:
    async with FakeLLM([reply("late")]) as server:
        client = EngineClient(connect_s=5)
        answer = await client.post(f"{server.url}/v1/chat/completions", {}, b'{"stream": true}')
        async for _ in answer.body():
            pass
        await client.aclose()
        await answer.aclose()
        (connection,) = server.connections
        async with asyncio.timeout(60):
            await connection.gone.wait()


async def test_a_request_is_not_repeated_once_a_fresh_connection_broke():
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)

    async with raw_server(answer) as port:
        await failure(f"http://127.0.0.1:{port}")
    assert connections == 1


async def test_a_slow_reader_stops_the_server_and_not_the_memory():
    sent = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(HEAD + b"\r\n")
        for _ in range(2_000):
            writer.write(b": " + b"x" * 99_998 + b"\n")
            await writer.drain()
            sent += 100_000

    async with raw_server(answer) as port:
        provider = lane("chat", f"http://127.0.0.1:{port}")
        stream = provider.stream(request())
        await anext(stream)
        await asyncio.sleep(0.3)  # given the time, an unbounded reader would take it all
        assert sent < 100_000_000
        await stream.aclose()
        await provider.aclose()


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return certificate_of("localhost", tmp_path)


async def say_hi(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(HEAD + b"\r\n" + ANSWER)


@requires("openssl")
async def test_a_certificate_nobody_signed_is_refused_and_not_retried(certificate):
    async with raw_server(say_hi, tls=certificate.serving()) as port:
        error = await failure(f"https://localhost:{port}")
    assert error.retryable is False
    assert error.message.startswith("the certificate of localhost is not trusted (")


async def test_tls_spoken_to_a_plain_server_is_told():
    async with raw_server(say_hi) as port:
        error = await failure(f"https://127.0.0.1:{port}")
    assert "127.0.0.1" in error.message
    assert error.kind in ("server", "cut")


@requires("openssl")
async def test_a_trusted_server_is_talked_to_over_tls_and_the_connection_kept(certificate):
    def trusting() -> ssl.SSLContext:
        context = trusting_the_system()
        context.load_verify_locations(certificate.certificate)
        return context

    async with raw_server(say_hi, tls=certificate.serving()) as port:
        provider = OpenAIChat(
            Endpoint(f"https://localhost:{port}", lambda: ""), lambda _: EngineClient(5, tls=trusting)
        )
        message, _ = await reply_of(provider, request())
        await provider.aclose()
    assert text_of(message) == "hi"


def behind(proxy: str) -> OpenAIChat:
    endpoint = Endpoint("http://api.example.com/v1", lambda: "")
    return OpenAIChat(endpoint, lambda it: client_for(it, {"HTTP_PROXY": proxy}))


async def test_a_proxy_is_used():
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await read_request(reader))
        writer.write(HEAD + b"\r\n" + ANSWER)

    async with raw_server(proxy) as port:
        provider = behind(f"127.0.0.1:{port}")
        message, _ = await reply_of(provider, request())
        await provider.aclose()
    assert text_of(message) == "hi"
    assert asked[0].startswith(b"POST http://api.example.com/v1/chat/completions HTTP/1.1")


@pytest.mark.parametrize(
    "proxy", ["http://me:secret@127.0.0.1:{port}", "socks5://me:secret@127.0.0.1:{port}", "ftp://me:secret@x"]
)
async def test_REL_038_a_proxy_that_fails_is_named_without_its_password(proxy):
    provider = behind(proxy.format(port=free_port()))
    _, error = await pieces_of(provider.stream(request()))
    await provider.aclose()
    assert error is not None
    assert "proxy" in error.message
    assert "secret" not in error.message


def test_proxies_come_from_the_environment_and_never_for_this_machine():
    environ = {"https_proxy": "http://proxy:1", "NO_PROXY": "internal.example, .corp, 10.0.0.1:8080"}
    expected = {
        "https://api.openai.com/v1": "http://proxy:1",
        "http://api.openai.com/v1": "",
        "https://localhost:11434/v1": "",
        "https://127.0.0.1:1234": "",
        "https://[::1]:1234": "",
        "https://internal.example": "",
        "https://llm.corp": "",
        "https://corporation": "http://proxy:1",
        "https://10.0.0.1:8080": "",
        "https://10.0.0.1": "http://proxy:1",
        "https://[::1": "",
    }
    assert {url: proxy_for(url, environ) for url in expected} == expected
    assert proxy_for("https://a.example", {"ALL_PROXY": "proxy:3128"}) == "http://proxy:3128"
    assert proxy_for("https://a.example", {"https_proxy": ""}) == ""
    assert proxy_for("https://a.example", {"https_proxy": "x", "no_proxy": "*"}) == ""


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost.",
        "LOCALHOST",
        "127.0.0.1",
        "127.1",
        "127.255.255.254",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
    ],
)
def test_this_machine_needs_no_proxy(host: str) -> None:
    assert proxy_for(f"http://{host}:1/", {"http_proxy": "http://proxy:1"}) == ""


@pytest.mark.parametrize(
    "host",
    ["localhost..", "localhost.example", "a.localhost", "127.0.0.1.example", "127.0.0.999", "127.0.0.1.",
     "127", "1271.1", "127.0.0.1.1", "128.0.0.1", "[::2]", "[::1%25lo]", "127.\u0661"],
)  # fmt: skip
def test_another_host_is_not_taken_for_this_machine(host: str) -> None:
    assert proxy_for(f"http://{host}:1/", {"http_proxy": "http://proxy:1"}) == "http://proxy:1"


def test_addresses_are_taken_apart():
    target = target_of("https://[::1]:8443/v1/x?y=1")
    assert (target.host, target.port, target.is_tls, target.authority, target.path) == (
        "::1",
        8443,
        True,
        "[::1]:8443",
        "/v1/x?y=1",
    )
    assert target_of("http://bücher.example").authority == "xn--bcher-kva.example"
    assert target_of("http://faß.de/v1").host == "xn--fa-hia.de"  # another site than fass.de
    assert target_of("http://example.com").path == "/"
