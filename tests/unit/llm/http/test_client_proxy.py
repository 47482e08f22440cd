"""Requests through a real proxy, a process of its own: which proxy the environment names, for whom, and what
is said when it fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.agent.messages import text_of
from buddy.agent.provider import ProviderError
from buddy.llm.direct.lane import Endpoint
from buddy.llm.direct.openai import OpenAIChat
from buddy.llm.http.client import client_for
from tests.capabilities import requires
from tests.support.certificates import certificate_of
from tests.support.lanes import pieces_of, reply_of, request
from tests.support.stream_server import stream_server
from tests.unit.llm.http.test_engine_connections import free_port, raw_server, say_hi

HOST = "api.example.test"
LOGIN = "me:p@ss/w:rd"
QUOTED = "me:p%40ss%2Fw%3Ard"


@asynccontextmanager
async def proxy_to(upstream: int, login: str = "") -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    """The port of a proxy, and the requests it has seen."""
    script = str(Path(__file__).parents[3] / "support" / "proxy_process.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, str(upstream), login, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline()), process.stdout
    finally:
        process.kill()
        await process.wait()


async def ask(url: str, **environ: str) -> str:
    """The reply of a lane with this environment. Raises `ProviderError`."""
    lane = OpenAIChat(Endpoint(url, lambda: "", connect_s=5), lambda it: client_for(it, environ))
    try:
        return text_of((await reply_of(lane, request()))[0])
    finally:
        await lane.aclose()


async def failure(url: str, **environ: str) -> ProviderError:
    """The error of a lane with this environment; no password stands in it."""
    with pytest.raises(ProviderError) as failed:
        await ask(url, **environ)
    assert "p@ss" not in failed.value.message
    assert "p%40ss" not in failed.value.message
    return failed.value


@pytest.mark.parametrize("login", ["", LOGIN])
@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h"])
async def test_a_proxy_of_the_environment_is_used(scheme: str, login: str) -> None:
    async with raw_server(say_hi) as port, proxy_to(port, login) as (proxy, seen):
        user = f"{QUOTED}@" if login else ""
        url = f"{scheme}://{user}127.0.0.1:{proxy}"
        assert await ask(f"http://{HOST}/v1", HTTP_PROXY=url) == "hi"
        line = (await seen.readline()).decode().strip()
    if scheme == "http":
        assert line == f"POST http://{HOST}/v1/chat/completions HTTP/1.1"
    else:
        assert line == f"SOCKS 3 {HOST} 80"


@requires("openssl")
@pytest.mark.parametrize(("name", "scheme"), [("HTTPS_PROXY", "http"), ("ALL_PROXY", "socks5")])
async def test_tls_goes_through_a_proxy_and_a_certificate_of_ones_own_counts(
    name: str, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = certificate_of(HOST, tmp_path)
    async with raw_server(say_hi, tls=certificate.serving()) as port, proxy_to(port, LOGIN) as (proxy, seen):
        environ = {name: f"{scheme}://{QUOTED}@127.0.0.1:{proxy}"}
        error = await failure(f"https://{HOST}/v1", **environ)
        assert error.message.startswith(
            f"the certificate of {HOST} is not trusted behind the proxy 127.0.0.1"
        )
        assert error.retryable is False
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
        assert await ask(f"https://{HOST}/v1", **environ) == "hi"
        line = (await seen.readline()).decode().strip()
    assert line == (f"CONNECT {HOST}:443 HTTP/1.1" if scheme == "http" else f"SOCKS 3 {HOST} 443")


async def test_an_ipv6_address_keeps_its_brackets_on_the_way_to_a_proxy() -> None:
    async with raw_server(say_hi) as port, proxy_to(port) as (proxy, seen):
        environ = {"ALL_PROXY": f"http://127.0.0.1:{proxy}"}
        assert await ask("http://[2001:db8::1]:8080/v1", **environ) == "hi"
        assert await seen.readline() == b"POST http://[2001:db8::1]:8080/v1/chat/completions HTTP/1.1\n"
        await failure("https://[2001:db8::1]/v1", **environ)
        assert await seen.readline() == b"CONNECT [2001:db8::1]:443 HTTP/1.1\n"
        assert await ask("http://[2001:db8::1]:8080/v1", ALL_PROXY=f"socks5://127.0.0.1:{proxy}") == "hi"
        assert (await seen.readline()).startswith(b"SOCKS 4 ")


async def test_a_host_of_no_proxy_is_reached_directly() -> None:
    async with raw_server(say_hi) as port, proxy_to(port) as (proxy, _):
        environ = {"ALL_PROXY": f"http://127.0.0.1:{proxy}"}
        assert await ask("http://no-such-host.invalid/v1", **environ) == "hi"
        error = await failure("http://no-such-host.invalid/v1", **environ, NO_PROXY=".invalid")
    assert error.message.startswith("the name of no-such-host.invalid could not be resolved")


@pytest.mark.parametrize(
    ("proxy_url", "words"),
    [
        ("http://me:p%40ss@127.0.0.1:{port}", "407 Proxy Authentication Required"),
        ("socks5://me:p%40ss@127.0.0.1:{port}", "Invalid username/password"),
        ("socks5://127.0.0.1:{port}", "NO ACCEPTABLE METHODS"),
    ],
)
async def test_a_proxy_that_refuses_the_login_says_why(proxy_url: str, words: str) -> None:
    async with proxy_to(free_port(), LOGIN) as (proxy, _):
        error = await failure(f"https://{HOST}/v1", ALL_PROXY=proxy_url.format(port=proxy))
    assert error.message.startswith(f"no connection to {HOST} through the proxy 127.0.0.1 (")
    assert words in error.message


async def test_a_server_the_proxy_cannot_reach_is_told() -> None:
    async with proxy_to(free_port()) as (proxy, _):
        error = await failure(f"https://{HOST}/v1", ALL_PROXY=f"socks5://127.0.0.1:{proxy}")
    assert "could not connect: Connection refused" in error.message


@pytest.mark.parametrize(
    "reply", [b"", b"\x05", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x04\x00", b"\x05\x09"]
)
@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_proxy_that_talks_nonsense_is_a_proxy_error(scheme: str, reply: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(reply)
        await writer.drain()
        writer.close()

    async with stream_server(answer) as port:
        error = await failure(f"https://{HOST}/v1", ALL_PROXY=f"{scheme}://127.0.0.1:{port}")
    assert HOST in error.message
    assert error.kind in ("server", "cut")


async def test_a_proxy_that_says_nothing_is_left_at_once() -> None:
    gone = asyncio.Event()
    asked = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(1)
        asked.set()
        await reader.read()
        gone.set()

    async with stream_server(silent) as port:
        environ = {"ALL_PROXY": f"socks5://127.0.0.1:{port}"}
        lane = OpenAIChat(Endpoint(f"https://{HOST}/v1", lambda: ""), lambda it: client_for(it, environ))
        asking = asyncio.ensure_future(pieces_of(lane.stream(request())))
        await asked.wait()
        asking.cancel()
        await asyncio.wait([asking])
        async with asyncio.timeout(60):
            await gone.wait()
        await lane.aclose()
