"""Web addresses: every spelling of a private place is refused, and what is shown is what is asked."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.safety.url_guard import (
    JudgedAddress,
    Refused,
    canonical_host,
    judge_url,
    resolve_and_judge,
    suspicious_url,
    system_resolver,
)

PRIVATE_SPELLINGS = [
    # SEC-066: IPv4 as C libraries and browsers read it
    "http://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0x7f.1/",
    "http://0x7F.0x0.0x0.0x1/",
    "http://0x7f000001/",
    "http://0X7F000001/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://0177.0x0.0.1/",
    "http://127.0.0.1./",
    "http://127.0.0.1:80/",
    "http://127.0.0.1:65535/",
    "http://①②⑦.⓪.⓪.①/",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://127．0｡0．1/",
    "http://𝟏𝟐𝟕.𝟎.𝟎.𝟏/",
    "http://0/",
    "http://0.0.0.0/",
    "http://00000000/",
    "http://0x/",
    "http://127.255.255.254/",
    "http://10.0.0.1/",
    "http://10.1/",
    "http://167772161/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://192.168.257/",
    "http://100.64.0.1/",
    "http://198.18.0.1/",
    "http://192.0.0.192/",
    "http://192.0.2.1/",
    "http://203.0.113.9/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    # SEC-067: IPv6, and IPv4 inside it
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:0:7f00:1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[::127.0.0.1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[::1%25lo]/",
    "http://[::1%lo]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[2606:4700::5efe:7f00:1]/",
    "http://[100::1]/",
    "http://[5f00::1]/",
    # SEC-068: metadata services
    "http://169.254.169.254/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://2852039166/",
    "http://169.254.43518/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://metadata.google.internal/",
    # Names of private networks
    "http://localhost/",
    "http://LOCALHOST./",
    "http://ｌｏｃａｌｈｏｓｔ/",
    "http://app.localhost:3000/",
    "http://printer.local/",
    "http://router.lan/",
    "http://nas.home.arpa/",
]

MALFORMED = {
    "": "expected http:// or https://",
    "example.org": "expected http:// or https://",
    "//example.org/": "expected http:// or https://",
    "file:///etc/passwd": "file: addresses are not fetched",
    "ftp://example.org/": "ftp: addresses are not fetched",
    "gopher://example.org:70/_x": "gopher: addresses are not fetched",
    "data:text/html,x": "data: addresses are not fetched",
    "javascript:alert(1)": "javascript: addresses are not fetched",
    "jar:http://example.org!/": "jar: addresses are not fetched",
    "http:/example.org/": "http: addresses are not fetched",
    "http:example.org": "http: addresses are not fetched",
    "http://": "is not a host name",
    "http:///etc": "is not a host name",
    "http://?x": "is not a host name",
    "https://good.example@evil.example/": "user name before the host evil.example",
    "https://user:pass@evil.example/": "user name before the host evil.example",
    "https://good.example%40evil.example/": "is not a host name",
    "https://good.example\\@evil.example/": "backslash",
    "https:\\\\evil.example/": "backslash",
    "https://evil.example\\.good.example/": "backslash",
    " http://example.org/": "spaces, control or invisible",
    "http://exam\nple.org/": "spaces, control or invisible",
    "http://exam\tple.org/": "spaces, control or invisible",
    "http://example.org/\r\nHost: evil": "spaces, control or invisible",
    "http://example.org/a b": "spaces, control or invisible",
    "http://exam\u200bple.org/": "spaces, control or invisible",
    "http://\u202eexample.org/": "spaces, control or invisible",
    "http://example.org/\ud800": "spaces, control or invisible",
    "http://exam%70le.org/": "is not a host name",
    "http://%31%32%37.0.0.1/": "is not an address",
    "http://-a.example/": "is not a host name",
    "http://a..b/": "is not a host name",
    "http://.example.org/": "is not a host name",
    "http://" + "a" * 64 + ".org/": "is not a host name",
    "http://" + "a." * 127 + "org/": "is not a host name",
    "http://" + "ü" * 80 + ".org/": "is not a host name",
    "http://exam!ple.org/": "is not a host name",
    "http://1.2.3.4.5/": "is not an address",
    "http://256.1.1.1/": "is not an address",
    "http://1.2.3.256/": "is not an address",
    "http://08.1.1.1/": "is not an address",
    "http://4294967296/": "is not an address",
    "http://a.1/": "is not an address",
    "http://" + "9" * 30 + "/": "is not an address",
    "http://[::1/": "cannot be read",
    "http://[x]/": "is not an IPv6 address",
    "http://[]/": "is not an IPv6 address",
    "http://[127.0.0.1]/": "is not an IPv6 address",
    "http://a:b:c/": "cannot be read",
    "http://example.org:x/": "cannot be read",
    "http://example.org:٣/": "cannot be read",
    "http://example.org:0/": "port 0 does not exist",
    "http://example.org:65536/": "port 65536 does not exist",
    "http://example.org:99999999999999999999/": "port 999999 does not exist",
    "http://example.org/" + "a" * 9000: "at most 8192",
}


@pytest.mark.parametrize("url", [url for url in PRIVATE_SPELLINGS if "[" in url])
def test_SEC_067_no_private_place_hides_inside_an_address_of_the_new_kind(url: str) -> None:
    assert isinstance(judge_url(url), Refused)


@pytest.mark.parametrize("url", [url for url in PRIVATE_SPELLINGS if "[" not in url])
def test_SEC_066_no_spelling_of_a_private_place_is_taken(url: str) -> None:
    assert isinstance(judge_url(url), Refused)


@pytest.mark.parametrize("url", MALFORMED, ids=lambda url: url[:40])
def test_SEC_072_what_can_be_read_in_two_ways_is_refused(url: str) -> None:
    judged = judge_url(url)
    assert isinstance(judged, Refused)
    assert MALFORMED[url] in judged.reason


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://docs.python.org", "https://docs.python.org/"),
        ("HTTPS://Docs.Python.ORG./3/", "https://docs.python.org/3/"),
        ("http://example.org:80/?q=1#part", "http://example.org/?q=1"),
        ("https://example.org:8443/a", "https://example.org:8443/a"),
        ("https://example.org:/a", "https://example.org/a"),
        ("http://example.org?x", "http://example.org/?x"),
        ('http://example.org/ä?ü="', "http://example.org/%C3%A4?%C3%BC=%22"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("http://134744072/", "http://8.8.8.8/"),
        ("http://[2606:4700:4700:0::1111]:8080/", "http://[2606:4700:4700::1111]:8080/"),
        ("http://a_b.example.org/", "http://a_b.example.org/"),
        ("http://1e100.net/", "http://1e100.net/"),
    ],
)
def test_ordinary_addresses_are_shown_as_they_are_asked(url: str, shown: str) -> None:
    judged = judge_url(url)
    assert isinstance(judged, JudgedAddress)
    assert (judged.shown, judged.url) == (shown, shown)


def test_SEC_071_a_host_is_compared_whole() -> None:
    judged = judge_url("https://docs.python.org.evil.example/")
    assert isinstance(judged, JudgedAddress)
    assert judged.host == "docs.python.org.evil.example"


def test_SEC_073_a_look_alike_is_shown_in_punycode() -> None:
    judged = judge_url("https://pаypal.com/")  # the second letter is Cyrillic
    assert isinstance(judged, JudgedAddress)
    assert judged.shown == "https://xn--pypal-4ve.com/"
    assert canonical_host("Bücher.example.") == "xn--bcher-kva.example"
    assert canonical_host("xn--bcher-kva.example") == "xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("faß.de", "xn--fa-hia.de"),
        ("FAẞ.DE", "xn--fa-hia.de"),
        ("faß.de.", "xn--fa-hia.de"),
        ("βόλος.com", "xn--nxasmm1c.com"),
        ("日本語。jp", "xn--wgv71a119e.jp"),
        ("ＧＯＯＧＬＥ.com", "google.com"),
        ("e\u0301.com", "xn--9ca.com"),
        ("a\u00ad.com", "a.com"),
        ("a_b.ü.de", "a_b.xn--tda.de"),
        ("ﷺ.com", ""),
        ("-ü.de", ""),
        ("a..ü", ""),
        ("xn--ü.de", ""),
        ("ü" * 70 + ".de", ""),
    ],
)
def test_RU_D2_host_names_are_read_as_browsers_read_them(written: str, canonical: str) -> None:
    assert canonical_host(written) == canonical


LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


def test_a_caller_can_allow_a_network() -> None:
    assert judge_url("http://127.0.0.1:8000/x", LOOPBACK) == JudgedAddress(
        "http", "127.0.0.1", 8000, "/x", "127.0.0.1"
    )
    assert judge_url("http://localhost/", LOOPBACK) == JudgedAddress("http", "localhost", 80, "/", "")
    assert isinstance(judge_url("http://10.0.0.1/", LOOPBACK), Refused)


class Answers:
    """A resolver that gives the next of its answers each time it is asked."""

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self.answers = list(answers)

    async def __call__(self, _host: str, _port: int) -> Sequence[str]:
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer


@pytest.mark.parametrize(
    "private",
    [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "::1",
        "::ffff:7f00:1",
        "64:ff9b::a9fe:a9fe",
        "fe80::1%eth0",
    ],
)
async def test_SEC_068_one_private_address_among_many_refuses_the_name(private: str) -> None:
    answer = await resolve_and_judge("x.example", 80, Answers(["8.8.8.8", private, "1.1.1.1"]))
    assert isinstance(answer, Refused)
    assert answer.reason.startswith("x.example leads to ")


async def test_SEC_070_a_name_is_resolved_once_and_its_addresses_are_what_is_connected_to() -> None:
    resolver = Answers(["8.8.8.8", "8.8.8.8", "2606:4700::1111"], ["127.0.0.1"])
    assert await resolve_and_judge("x.example", 80, resolver) == ("8.8.8.8", "2606:4700::1111")
    assert resolver.answers == [["127.0.0.1"]]


async def test_names_without_usable_addresses_are_refused_with_the_reason() -> None:
    gone = socket.gaierror(-2, "Name or service not known")
    assert await resolve_and_judge("x.example", 80, Answers(gone)) == Refused(
        "x.example cannot be found: Name or service not known", is_failure=True
    )
    found = await resolve_and_judge("x.example", 80, Answers([]))
    assert found == Refused("x.example has no address", is_failure=True)
    assert await resolve_and_judge("x.example", 80, Answers(["1.2.3"])) == Refused(
        "x.example leads to 1.2.3, which is not an address"
    )
    many = [f"8.8.8.{number}" for number in range(100)]
    assert len(await resolve_and_judge("x.example", 80, Answers(many))) == 16


async def test_the_system_resolver_answers_with_numbers() -> None:
    assert "127.0.0.1" in await system_resolver("127.0.0.1", 80)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from([*"htps:/.@[]%\\#?0123456789xabcdef-_ \n１２７。ü①"]), max_size=40))
def test_any_text_is_judged_without_a_crash(text: str) -> None:
    for url in (text, f"http://{text}"):
        judged = judge_url(url)
        if isinstance(judged, JudgedAddress):
            assert judge_url(judged.url) == judged
            assert judged.host.isascii()


@settings(max_examples=300, deadline=None)
@given(st.ip_addresses())
def test_no_address_that_the_standard_library_calls_private_passes(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    text = f"[{address}]" if address.version == 6 else str(address)
    if isinstance(judge_url(f"http://{text}/"), JudgedAddress):
        assert address.is_global


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example/?q=Zk3jV9qLw2Rt8Yb6Nc1Xs5Df7Gh4Jm0Pa2Ke9Ui",
        "https://x.example/#Zk3jV9qLw2Rt8Yb6Nc1Xs5Df7Gh4Jm0Pa2Ke9Ui",
        "https://x.example/log/Zk3jV9qLw2Rt8Yb6Nc1Xs5Df7Gh4Jm0Pa2Ke9Ui.gif",
        "https://zk3jv9qlw2rt8yb6nc1xs5df7gh4jm0.x.example/",
        "https://x.example/?d=9fceb02d0ae598e95dc970b74767f19372d61af8",
        "https://x.example/?d=VGhpcyBpcyBhIHNlY3JldCBtZXNzYWdl",
        "https://x.example/?key=ghp_" + "a" * 36,
        "https://x.example/%67hp_" + "a" * 36,
        "https://x.example/?q=" + "word+" * 200,
        "http://[x/",
    ],
)
def test_SEC_078_an_address_that_carries_a_random_text_is_flagged(url: str) -> None:
    assert suspicious_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.python.org/3/library/asyncio-task.html#asyncio.create_task",
        "https://github.com/o/r/commit/9fceb02d0ae598e95dc970b74767f19372d61af8",
        "https://x.example/550e8400-e29b-41d4-a716-446655440000",
        "https://www.google.com/search?q=how+to+parse+toml+in+python+3.11",
        "https://stackoverflow.com/questions/11227809/why-is-processing-a-sorted-array-faster-than-an-unsorted",
        "https://en.wikipedia.org/wiki/Internationalized_Resource_Identifier",
        "https://pypi.org/project/msgspec/0.19.0/",
        "http://localhost:8000/",
    ],
)
def test_ordinary_addresses_are_not_flagged(url: str) -> None:
    assert suspicious_url(url) == ""
