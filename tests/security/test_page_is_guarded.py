"""Requests of strangers to the page: other sites in the person's browser, other users of the machine, and
bytes that are no request at all. None is let in, and the session goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from buddy.headless.serve.event_stream import PageLimits
from buddy.headless.serve.guard import MAX_BODY_BYTES
from buddy.headless.serve.server import AddressError, listen_on_port, listen_on_socket
from buddy.llm.scripted import Say
from tests.support.page_client import Page, serving

PATHS = ("/session", "/events", "/diff", "/openapi.json", "/nothing", "//session", "/session/")
POSTS = ("/prompt", "/steer", "/cancel", "/answer", "/reply")


@pytest_asyncio.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    async with serving(tmp_path) as served:
        yield served
        # Whatever was sent: nothing reached a task, and the page still works.
        assert [task.history for task in served.session.board.tasks.values()] == [[]]
        assert (await served.get("/session")).status == 200


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_is_read_without_the_token(page: Page, path: str) -> None:
    for token in ("", "x", page.token[:-1], page.token + "x", page.token.swapcase(), "é"):
        assert (await page.get(path, token=token)).status == 401


@pytest.mark.parametrize("path", POSTS)
async def test_nothing_is_done_without_the_token(page: Page, path: str) -> None:
    for token in ("", page.token[:-1]):
        answer = await page.post(path, {"text": "rm -rf /"}, token=token)
        assert answer.status == 401
        assert "Authorization: Bearer TOKEN" in answer.json()["error"]


async def test_the_token_counts_in_its_header_alone(page: Page) -> None:
    for line in (
        f"Cookie: token={page.token}",
        f"X-Token: {page.token}",
        f"Authorization: Basic {page.token}",
    ):
        assert (await page.get("/session", line, token="")).status == 401
    assert (await page.get(f"/session?token={page.token}", token="")).status == 401
    twice = await page.get("/session", "Authorization: Bearer x")
    assert twice.status == 401


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example:{port}",
        "127.0.0.1@evil.example", "evil.example#127.0.0.1", "0.0.0.0:{port}", "127.0.0.2:{port}", "[::]",
        "127.0.0.1:{port}:1", "127.0.0.1:x", "127.0.0.1:", "2130706433:{port}", "0x7f.1", "localhost.:{port}",
        "[::1]x", " ", "127.0.0.1:１２３", "[::ffff:127.0.0.1]:{port}", "127.0.0.1:999999",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/session", "/", "/page.js"])
async def test_a_foreign_host_is_refused(page: Page, host: str, path: str) -> None:
    raw = page.head("GET", path, host=host.format(port=page.port))
    answer = await page.exchange(raw)
    assert answer.status in (400, 403)
    assert b"script" not in answer.body


async def test_a_request_without_a_host_is_refused(page: Page) -> None:
    raw = f"GET /session HTTP/1.0\r\nAuthorization: Bearer {page.token}\r\n\r\n".encode()
    assert (await page.exchange(raw)).status == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:9", "[::1]:8000", "localhost"]
)
async def test_names_of_this_machine_are_taken(page: Page, host: str) -> None:
    assert (await page.get("/session", host=host.format(port=page.port))).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://localhost:{port}",
        "http://127.0.0.1:1", "file://", "http://127.0.0.1:{port}.evil.example", "", "HTTP://127.0.0.1:{port}",
    ],
)  # fmt: skip
async def test_a_foreign_origin_is_refused(page: Page, origin: str) -> None:
    line = f"Origin: {origin.format(port=page.port)}"
    assert (await page.get("/session", line)).status == 403
    assert (await page.post("/prompt", {"text": "x"}, line)).status == 403


async def test_the_page_s_own_origin_is_taken(page: Page) -> None:
    assert (await page.get("/session", f"Origin: http://127.0.0.1:{page.port}")).status == 200
    twice = (f"Origin: http://127.0.0.1:{page.port}", "Origin: http://evil.example")
    assert (await page.get("/session", *twice)).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "unknown"])
async def test_a_browser_that_names_another_site_is_refused(page: Page, site: str) -> None:
    assert (await page.get("/session", f"Sec-Fetch-Site: {site}")).status == 403


async def test_no_answer_invites_other_sites_or_sets_cookies(page: Page) -> None:
    for answer in (
        await page.get("/"),
        await page.get("/session"),
        await page.get("/session", token=""),
        await page.get("/nothing"),
        await page.get("/session", "Origin: http://evil.example"),
        await page.post("/prompt", b"{"),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control") or "cookie" in name]
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "HEAD", "PATCH"])
async def test_other_methods_are_refused(page: Page, method: str) -> None:
    for path in ("/session", "/events", "/prompt"):
        raw = page.head(method, path)
        stream, writer = await asyncio.open_connection("127.0.0.1", page.port)
        writer.write(raw)
        assert (await stream.readline()).split()[1] == b"405"
        writer.close()


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", ""],
)
async def test_a_form_of_another_site_is_no_request(page: Page, kind: str) -> None:
    body = b'{"text":"hi"}'
    raw = page.head("POST", "/prompt", f"Content-Type: {kind}", f"Content-Length: {len(body)}") + body
    assert (await page.exchange(raw)).status == 415


@pytest.mark.parametrize(
    "path",
    [
        "/../../../etc/passwd", "/page.js/../../models.toml", "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2fmodels.toml",
        "/page.css%00.html", "/page/page.html", "//etc/passwd", "/page.js/", "/./page.js", "/PAGE.JS",
        "/static/../page.html", "/page.js;x", "/\\..\\models.toml", "/%252e%252e/models.toml",
    ],
)  # fmt: skip
async def test_only_the_three_files_are_served(page: Page, path: str) -> None:
    assert (await page.get(path, token="")).status == 401
    answer = await page.get(path)
    assert (answer.status, answer.json()) == (404, {"error": "Not Found"})


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b'"text"', b"{}", b'{"text":1}', b'{"text":""}', b'{"text":"a","more":1}',
        b'{"text":"a","task_id":-1}', b'{"text":"a","task_id":"1"}', b'{"text":"a"}{"text":"b"}', b"\xff\xfe",
        b'{"text":"\xff"}', b"[" * 100_000, b'{"text":' * 10_000, b'{"text":"a","task_id":1e400}', b"NaN",
        b'{"text":"a","new_task":"yes"}',
    ],
)  # fmt: skip
async def test_a_malformed_body_is_refused_with_a_sentence(page: Page, body: bytes) -> None:
    answer = await page.post("/prompt", body)
    assert answer.status == 400
    assert answer.json()["error"].startswith("the body is not what this address takes")


@pytest.mark.parametrize("length", ["1000001", "99999999999999999999", "-1", "1e9", "0x10", "１"])
async def test_a_body_that_says_it_is_huge_is_not_read(page: Page, length: str) -> None:
    raw = page.head("POST", "/prompt", "Content-Type: application/json", f"Content-Length: {length}")
    assert (await page.exchange(raw)).status in (400, 413)


async def test_ATTACK10_a_body_with_two_lengths_is_refused(page: Page) -> None:
    lines = ("Content-Type: application/json", "Content-Length: 5", "Transfer-Encoding: chunked")
    second = page.head("GET", "/session")
    stream, writer = await asyncio.open_connection("127.0.0.1", page.port)
    writer.write(page.head("POST", "/prompt", *lines) + b"0\r\n\r\n" + second)
    async with asyncio.timeout(30):
        answers = await stream.read(-1)  # to the end: what follows is not answered
    writer.close()
    assert answers.split()[1] == b"400"
    assert answers.count(b"HTTP/1.1") == 1


async def test_a_body_without_a_length_is_read_up_to_the_limit(page: Page) -> None:
    stream, writer = await asyncio.open_connection("127.0.0.1", page.port)
    writer.write(page.head("POST", "/prompt", "Content-Type: application/json", "Transfer-Encoding: chunked"))
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    for _ in range(MAX_BODY_BYTES // 0x10000 + 2):
        writer.write(chunk)
    async with asyncio.timeout(30):
        assert (await stream.readline()).split()[1] == b"413"
    writer.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00", b"\r\n\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 100_000,
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)  # fmt: skip
async def test_bytes_that_are_no_request_end_the_connection(page: Page, raw: bytes) -> None:
    stream, writer = await asyncio.open_connection("127.0.0.1", page.port)
    writer.write(raw)
    writer.write_eof()
    async with asyncio.timeout(30):
        line = await stream.readline()
    assert line == b"" or line.split()[1] in (b"400", b"401", b"403", b"405")
    writer.close()


async def test_a_body_that_does_not_arrive_is_given_up(tmp_path: Path) -> None:
    async with serving(tmp_path, limits=PageLimits(body_s=0.05)) as page:
        head = page.head("POST", "/prompt", "Content-Type: application/json", "Content-Length: 100")
        answer = await page.exchange(head + b'{"text":')
        assert (answer.status, answer.json()) == (408, {"error": "the body did not arrive within 0.05 s"})


@pytest.mark.parametrize("begun", [b"", b"GET /session HTTP/1.1\r\nHost:"])
async def test_a_connection_without_a_request_is_ended(tmp_path: Path, begun: bytes) -> None:
    async with serving(tmp_path, limits=PageLimits(first_request_s=0.05)) as page:
        stream, writer = await asyncio.open_connection("127.0.0.1", page.port)
        writer.write(begun)
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                assert await stream.read() == b""
        writer.close()


async def test_a_body_that_breaks_off_does_nothing(page: Page) -> None:
    _stream, writer = await asyncio.open_connection("127.0.0.1", page.port)
    writer.write(page.head("POST", "/prompt", "Content-Type: application/json", "Content-Length: 13"))
    writer.write(b'{"text":"hi"')
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def test_a_port_in_use_is_named(page: Page) -> None:
    with pytest.raises(
        AddressError, match=f"port {page.port} is in use: choose another one, or leave it out"
    ):
        listen_on_port(page.port)


async def test_the_page_listens_on_this_machine_alone(page: Page) -> None:
    del page
    with listen_on_port(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_socket_is_the_user_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "page"
    previous = os.umask(0)
    try:
        listener = listen_on_socket(str(path))
    finally:
        os.umask(previous)
    with listener:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(AddressError, match="in use by another program"):
            listen_on_socket(str(path))


def test_a_dead_socket_is_replaced_and_a_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "page"
    listen_on_socket(str(path)).close()
    listen_on_socket(str(path)).close()
    file = tmp_path / "notes"
    file.write_text("mine")
    with pytest.raises(AddressError, match="exists and is no socket"):
        listen_on_socket(str(file))
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(AddressError, match="exists and is no socket"):
        listen_on_socket(str(link))
    assert file.read_text() == "mine"
    with pytest.raises(AddressError, match="expected a path for a new socket"):
        listen_on_socket(str(tmp_path / "none" / "page"))
    with pytest.raises(AddressError, match="expected a path for a new socket"):
        listen_on_socket(str(tmp_path / ("x" * 200)))


@pytest.mark.parametrize(
    "first",
    [b"", b"GET /session HT", b"POST /prompt HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"\r\n"],
    ids=["silent", "half a line", "half a head", "an empty line"],
)
async def test_ATTACK9_connections_without_the_token_keep_nobody_out(tmp_path: Path, first: bytes) -> None:
    async with (
        serving(tmp_path, [(Say("hello"),)]) as page,
        page.events() as reader,
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(500):
            _, writer = await asyncio.open_connection("127.0.0.1", page.port)
            stack.callback(writer.close)
            writer.write(first)
        for path in ("/session", "/", "/page.js"):
            assert (await page.get(path)).status == 200
        assert (await page.post("/prompt", {"text": "hi"})).status == 200
        await reader.until("turn_finished")


async def test_ATTACK9_readers_of_public_files_keep_nobody_out(tmp_path: Path) -> None:
    async with serving(tmp_path) as page, contextlib.AsyncExitStack() as stack:
        for _ in range(450):
            stream, writer = await asyncio.open_connection("127.0.0.1", page.port)
            stack.callback(writer.close)
            writer.write(page.head("GET", "/page.js", token=""))
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await stream.readexactly(12)
        assert (await page.get("/session")).status == 200


async def test_ATTACK9_many_connections_with_the_token_stay(tmp_path: Path) -> None:
    async with serving(tmp_path, [(Say("hello"),)]) as page, contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(page.events()) for _ in range(100)]
        assert {reader.status for reader in readers} == {200}
        assert (await page.post("/prompt", {"text": "hi"})).status == 200
        for reader in readers:
            await reader.until("turn_finished")
