"""Spellings of places inside, written from the manuals of URL parsers, through the real tool: a connection to
any of them is counted, and none is made.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from buddy.agent.tool import ToolContext, ToolError, ToolResult
from buddy.safety.url_guard import Resolver
from buddy.tools.web import NoSearch, WebAccess, web_fetch
from buddy.workspace.web import Fetcher, FetchLimits
from tests.support.web_server import answering, reply, serving

LOOPBACK_HOSTS = (
    *(
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "127.000.000.001",
        "127.0.0.01",
        "0177.0.0.1",
        "0177.1",
        "017700000001",
    ),
    *(
        "00000177.00000000.00000000.00000001",
        "0x7f.0.0.1",
        "0x7f.0x0.0x0.0x1",
        "0x7f.1",
        "0x7f000001",
        "0X7F.1",
    ),
    *("0x0000007f.0.0.0x01", "2130706433", "02130706433", "127.0x000001", "127.0.0x1", "127.65535.1"),
    *("4294967296", "18446744071562067969", "6425673729", "127.0.0.1.", "127.0.0.1..", ".127.0.0.1"),
    *("127.127.127.127", "127.0.0.0", "0", "0.0.0.0", "0.0", "00", "0x0", "0x", "0.1", "%31%32%37.0.0.1"),
    *(
        "127%2e0%2e0%2e1",
        "127.0.0.1%00.example.org",
        "127.0.0.1%20",
        "127。0.0.1",
        "127．0．0．1",
        "127｡0｡0｡1",
    ),
    *(
        "①②⑦.0.0.①",
        "１２７.０.０.１",
        "𝟙𝟚𝟟.𝟘.𝟘.𝟙",
        "⑴27.0.0.1",
        "١٢٧.٠.٠.١",
        "۱۲۷.۰.۰.۱",
        "०x7f.1",
        "²130706433",
    ),
    *(
        "localhost",
        "LOCALHOST",
        "localhost.",
        "localhost..",
        "ｌocalhost",
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        "loc\u00adalhost",
        "local\u200bhost",
    ),
    *(
        "localhost.localdomain",
        "foo.localhost",
        "localhost%2e",
        "localhost\u3002",
        "ℓocalhost",
        "ＬＯＣＡＬＨＯＳＴ。",
    ),
    *(
        "[::1]",
        "[::]",
        "[0::1]",
        "[0000:0000:0000:0000:0000:0000:0000:0001]",
        "[::0001]",
        "[::ffff:127.0.0.1]",
    ),
    *("[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "[::FFFF:127.1.2.3]", "[::127.0.0.1]", "[::7f00:1]"),
    *(
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:0:0:0:0:7f00:1]",
        "[64:ff9b:1::127.0.0.1]",
        "[2002:7f00:1::]",
        "[2002:7f00:0001::1]",
    ),
    *(
        "[::1%lo]",
        "[::1%25lo]",
        "[::1%251]",
        "[fe80::1%25eth0]",
        "[::ffff:0:127.0.0.1]",
        "[::ffff:0:0:127.0.0.1]",
    ),
    *(
        "[::1].",
        "[[::1]]",
        "[::1",
        "::1",
        "[::ffff:0x7f.1]",
        "[::ffff:2130706433]",
        "[127.0.0.1]",
        "[v1.::1]",
        "[::1]x",
    ),
    *(
        "[2001:0:7f00:1::80ff:fffe]",
        "[::1\u3002]",
        "[fec0::1]",
        "[100::1]",
        "[2001:10::1]",
        "[2001:20::1]",
        "[::2]",
    ),
)
PRIVATE_HOSTS = (
    *(
        "10.0.0.1",
        "10.1",
        "0xa.1",
        "012.1",
        "167772161",
        "172.16.1",
        "172.31.255.254",
        "0xac.0x10.1",
        "192.168.1",
    ),
    *(
        "192.168.0x101",
        "3232235777",
        "0300.0250.1.1",
        "169.254.169.254",
        "169.254.43518",
        "0xa9fea9fe",
        "2852039166",
    ),
    *("0251.0376.0251.0376", "169.254.169.254.", "①⑥⑨.②⑤④.①⑥⑨.②⑤④", "[::ffff:a9fe:a9fe]", "[fd00:ec2::254]"),
    *(
        "[64:ff9b::a9fe:a9fe]",
        "100.64.0.1",
        "100.100.100.200",
        "198.18.0.1",
        "192.0.0.8",
        "192.88.99.1",
        "224.0.0.251",
    ),
    *(
        "239.255.255.250",
        "255.255.255.255",
        "metadata.google.internal",
        "metadata",
        "instance-data",
        "[ff02::1]",
    ),
    *(
        "kubernetes.default.svc.cluster.local",
        "host.docker.internal",
        "gateway.docker.internal",
        "router.home.arpa",
    ),
)
WHOLE = (
    *(
        "http://example.org@127.0.0.1:{port}/",
        "http://127.0.0.1:{port}@example.org/",
        "http://a:b@127.0.0.1:{port}/",
    ),
    *(
        "http://example.org:80@127.0.0.1:{port}/",
        "http://example.org#@127.0.0.1:{port}/",
        "http://:@127.0.0.1:{port}/",
    ),
    *(
        "http://127.0.0.1:{port}\\@example.org/",
        "http://127.0.0.1:{port}\\.example.org/",
        "http:\\\\127.0.0.1:{port}\\",
    ),
    *(
        "http:/\\127.0.0.1:{port}/",
        "http:127.0.0.1:{port}/",
        "http:/127.0.0.1:{port}/",
        "http:////127.0.0.1:{port}/",
    ),
    *(
        "http://127.0.0.1\t:{port}/",
        "ht\ntp://127.0.0.1:{port}/",
        "http://127.0.0.1:{port}/\r\nX: y",
        " http://127.0.0.1:{port}/",
    ),
    *(
        "\x01http://127.0.0.1:{port}/",
        "http://\u2028127.0.0.1:{port}/",
        "http://127.0.0.1\u00a0:{port}/",
        "http://１27.1:{port}/",
    ),
    *(
        "http://127.0.0.1:{port}:80/",
        "http://127.0.0.1:+{port}/",
        "http://127.0.0.1:0{port}/",
        "http://127.0.0.1:{port} /",
    ),
    *(
        "http://127.0.0.1:%39/",
        "//127.0.0.1:{port}/",
        "://127.0.0.1:{port}/",
        "127.0.0.1:{port}",
        "localhost:{port}/x",
    ),
    *(
        "ftp://127.0.0.1:{port}/",
        "gopher://127.0.0.1:{port}/_GET%20/",
        "dict://127.0.0.1:{port}/x",
        "file:///etc/passwd",
    ),
    *(
        "file://127.0.0.1:{port}/etc",
        "ws://127.0.0.1:{port}/",
        "unix:///run/x.sock",
        "http+unix://%2frun%2fx/",
        "jar:http://127.0.0.1:{port}/!/",
    ),
    *(
        "data:text/html,x",
        "javascript:fetch(1)",
        "view-source:http://127.0.0.1:{port}/",
        "blob:http://127.0.0.1:{port}/x",
        "HTTP://127.0.0.1:{port}/",
    ),
    *(
        "feed:http://127.0.0.1:{port}/",
        "http://http://127.0.0.1:{port}/",
        "http://[::ffff:127.0.0.1]:{port}@x/",
        "http://127.0.0.1:{port}?@example.org",
    ),
)


class System:
    """A resolver for names, as loopback servers see it: every name it has leads
    there."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except OSError:
            return ["127.0.0.1"]
        return [str(one[4][0]) for one in found]


async def fetched(url: str, resolver: Resolver) -> ToolResult:
    access = WebAccess(Fetcher(resolver=resolver, limits=FetchLimits(seconds=3)), NoSearch(), lambda: 0.0)
    context = ToolContext(1, "c1", lambda _text: None, asyncio.Event(), {WebAccess: access})
    return await web_fetch.run(context, web_fetch.arguments(url=url))


@asynccontextmanager
async def inside() -> AsyncIterator[tuple[int, list[str]]]:
    """A server only this machine reaches, and who reached it."""
    async with serving(answering(reply(b"INSIDE"))) as server:
        yield server.port, server.requests


@pytest.mark.parametrize("host", [*LOOPBACK_HOSTS, *PRIVATE_HOSTS], ids=ascii)
async def test_SEC_066_to_068_no_spelling_of_a_place_inside_is_connected_to(host: str) -> None:
    async with inside() as (port, requests):
        for url in (f"http://{host}:{port}/", f"https://{host}/latest/meta-data/"):
            with pytest.raises(ToolError):
                await fetched(url, System())
    assert requests == []


@pytest.mark.parametrize("url", WHOLE, ids=ascii)
async def test_SEC_069_SEC_072_no_form_of_address_leads_inside(url: str) -> None:
    async with inside() as (port, requests):
        with pytest.raises(ToolError):
            await fetched(url.replace("{port}", str(port)), System())
    assert requests == []


async def test_SEC_070_names_that_change_their_mind_lead_nowhere_inside() -> None:
    class Rebinding:
        def __init__(self) -> None:
            self.asked = 0

        async def __call__(self, _host: str, _port: int) -> Sequence[str]:
            self.asked += 1
            return ["192.0.2.1"] if self.asked == 1 else ["127.0.0.1"]

    async with inside() as (port, requests):
        resolver = Rebinding()
        with pytest.raises(ToolError):
            await fetched(f"http://rebind.example:{port}/", resolver)
        with pytest.raises(ToolError):
            await fetched(f"http://rebind.example:{port}/", resolver)
    assert requests == []
