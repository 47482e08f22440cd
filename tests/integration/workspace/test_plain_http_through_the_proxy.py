"""Plain http through the sandbox's proxy: one request for an opened host, and nothing a second reader of the
bytes could take for another one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest

from buddy.workspace.sandbox.proxy import HostRequest, Pass, SandboxProxy

NETWORKS = (ip_network("127.0.0.0/8"),)


class Far:
    """A server that keeps what it was sent and answers once."""

    def __init__(self) -> None:
        self.got = b""
        self.connections = 0
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.got += await reader.readuntil(b"\r\n\r\n")
        if b"Content-Length: 4" in self.got:
            self.got += await reader.readexactly(4)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nfar")
        await writer.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                self.got += await reader.read()
        writer.close()


async def nobody(host: str, _port: int) -> Sequence[str]:
    if host == "far.example":
        return ("127.0.0.2",)
    raise socket.gaierror(-2, "Name or service not known")


@asynccontextmanager
async def proxy_and_far(rule: str = "far.example:{port}") -> AsyncIterator[tuple[Far, Pass, int]]:
    far = Far()
    server = await asyncio.start_server(far.answer, "127.0.0.2", 0)
    far.port = server.sockets[0].getsockname()[1]
    door = socket.create_server(("127.0.0.1", 0))
    door.setblocking(False)
    proxy = SandboxProxy(lambda: [rule.format(port=far.port)], nobody, lambda: NETWORKS)
    async with server, await proxy.serve(door):
        yield far, proxy.admit("one"), door.getsockname()[1]


async def ask(port: int, holder: Pass, first: str, *fields: str, body: bytes = b"") -> str:
    who = base64.b64encode(f"{holder.name}:{holder.password}".encode()).decode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = (first, f"Proxy-Authorization: Basic {who}", *fields, "", "")
    writer.write("\r\n".join(lines).encode("latin-1") + body)
    await writer.drain()
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer.decode()


async def test_WALK_S3_plain_http_reaches_an_opened_host_by_one_clean_request() -> None:
    async with proxy_and_far() as (far, holder, port):
        fields = ("Host: other.example", "Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: 5")
        fields += ("Proxy-Connection: Keep-Alive", "Upgrade: websocket", "TE: trailers", "Accept: */*")
        answer = await ask(port, holder, f"GET http://far.example:{far.port}/a?b=c HTTP/1.1", *fields)
    assert answer.endswith("\r\n\r\nfar")
    assert far.got.decode() == (
        f"GET /a?b=c HTTP/1.1\r\nHost: far.example:{far.port}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
    assert holder.requests == [HostRequest("far.example", far.port, "", False)]


async def test_WALK_S3_a_body_is_passed_on_and_what_follows_it_is_not() -> None:
    async with proxy_and_far() as (far, holder, port):
        second = b"body" + b"GET http://far.example/second HTTP/1.1\r\n\r\n"
        first = f"POST http://far.example:{far.port} HTTP/1.1"
        answer = await ask(port, holder, first, "Content-Length: 4", body=second)
    assert " 200 " in answer
    assert far.got.decode().startswith("POST / HTTP/1.1\r\n")
    assert far.got.endswith(b"\r\n\r\nbody")
    assert far.connections == 1


async def test_WALK_S3_a_host_that_is_not_opened_is_named_with_its_port() -> None:
    async with proxy_and_far("other.example") as (far, holder, port):
        answer = await ask(port, holder, "GET http://plain.example/ HTTP/1.1")
    assert " 403 " in answer
    assert far.connections == 0
    (noted,) = holder.requests
    assert (noted.host, noted.port, noted.is_named) == ("plain.example", 80, True)


@pytest.mark.parametrize(
    ("first", "fields"),
    [
        ("POST {url} HTTP/1.1", ("Transfer-Encoding: chunked",)),
        ("POST {url} HTTP/1.1", ("Transfer-Encoding: chunked", "Content-Length: 4")),
        ("POST {url} HTTP/1.1", ("Transfer-encoding: identity, chunked",)),
        ("POST {url} HTTP/1.1", ("Content-Length: 4", "Content-Length: 5")),
        ("POST {url} HTTP/1.1", ("Content-Length: 4", "content-length: 4")),
        ("POST {url} HTTP/1.1", ("Content-Length: +4",)),
        ("POST {url} HTTP/1.1", ("Content-Length: 4, 4",)),
        ("POST {url} HTTP/1.1", ("Content-Length: 0x4",)),
        ("POST {url} HTTP/1.1", ("Content-Length: -1",)),
        ("GET {url} HTTP/1.1", ("Content-Length : 4",)),
        ("GET {url} HTTP/1.1", ("X: 1", " folded: 2")),
        ("GET {url} HTTP/1.1", ("X: 1\nGET /second HTTP/1.1",)),
        ("GET {url} HTTP/1.1", ("X: 1\rY: 2",)),
        ("GET {url} HTTP/1.1", ("X: a\0b",)),
        ("GET {url} HTTP/1.1", ("no colon",)),
        ("GET {url} HTTP/2.0", ()),
        ("GET {url} a HTTP/1.1", ()),
        ("GET {url}\tb HTTP/1.1", ()),
        ("get {url} HTTP/1.1", ()),
        ("GET {url}", ()),
        ("GET http://me:pw@{host}/ HTTP/1.1", ()),
        ("GET http://evil.example@{host}/ HTTP/1.1", ()),
        ("GET http://{host}\\@evil.example/ HTTP/1.1", ()),
        ("GET https://{host}/ HTTP/1.1", ()),
        ("GET ftp://{host}/ HTTP/1.1", ()),
        ("GET /path HTTP/1.1", ("Host: {host}",)),
        ("GET {host}/ HTTP/1.1", ()),
        ("GET http:///{host}/ HTTP/1.1", ()),
        ("GET http://evil.example/ HTTP/1.1", ("Host: {host}",)),
        ("GET http://far.example:22/ HTTP/1.1", ()),
        ("GET http://far.example/ HTTP/1.1", ()),
        ("GET http://127.0.0.2:1/ HTTP/1.1", ()),
    ],
)
async def test_WALK_S3_neighbours_what_could_be_read_in_two_ways_reaches_nobody(
    first: str, fields: tuple[str, ...]
) -> None:
    async with proxy_and_far() as (far, holder, port):
        host = f"far.example:{far.port}"
        words = {"host": host, "url": f"http://{host}/"}
        answer = await ask(port, holder, first.format(**words), *(one.format(**words) for one in fields))
    assert answer.startswith("HTTP/1.1 403 ")
    assert far.connections == 0
    assert holder.requests[0].refusal


async def test_WALK_S2_a_name_that_cannot_be_found_is_a_failure_and_no_refusal() -> None:
    async with proxy_and_far("lost.example") as (_far, holder, port):
        answer = await ask(port, holder, "CONNECT lost.example:443 HTTP/1.1")
    assert answer.startswith("HTTP/1.1 502 ")
    sentence = "lost.example cannot be found: Name or service not known"
    assert holder.requests == [HostRequest("lost.example", 443, "", False, sentence)]


@pytest.mark.parametrize("first", ["CONNECT far.example:1 HTTP/1.1", "GET http://far.example:1/ HTTP/1.1"])
async def test_WALK_S2_an_allowed_host_that_refuses_the_connection_is_a_failure(first: str) -> None:
    async with proxy_and_far("far.example:1") as (_far, holder, port):
        answer = await ask(port, holder, first)
    assert answer.startswith("HTTP/1.1 502 ")
    assert holder.requests == [HostRequest("far.example", 1, "", False, "far.example:1 does not answer")]


async def test_WALK_S3_neighbour_an_opened_name_that_leads_into_a_private_network_stays_refused() -> None:
    async with proxy_and_far("far.example:80") as (far, _holder, _port):
        proxy_without_networks = SandboxProxy(lambda: ["far.example:80"], nobody)
        door = socket.create_server(("127.0.0.1", 0))
        door.setblocking(False)
        async with await proxy_without_networks.serve(door):
            other = proxy_without_networks.admit("one")
            answer = await ask(door.getsockname()[1], other, "GET http://far.example/ HTTP/1.1")
    assert answer.startswith("HTTP/1.1 403 ")
    assert "127.0.0.2, which is this machine" in answer
    assert (other.requests[0].is_named, far.connections) == (False, 0)
