"""`/serve`: the page beside the terminal, in one session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from buddy.headless.serve.server import listen_on_port
from tests.fake_llm.script import call, reply
from tests.support.page_address import PrintedPage
from tests.support.repl import Repl, open_repl


async def _served(repl: Repl) -> PrintedPage:
    text = await repl.said("/serve", "http://127.0.0.1:", "/serve off closes the page")
    return PrintedPage(re.findall(r"http://127\.0\.0\.1:\d+/#[\w-]+", text)[0])


async def test_terminal_and_page_share_a_session(tmp_path: Path) -> None:
    replies = [reply("Hello terminal"), reply("Hello page")]
    async with open_repl(tmp_path, replies) as repl:
        await repl.turn("hi from the terminal")
        page = await _served(repl)
        session = await page.session_with(2)
        assert session["tasks"][0]["messages"][1]["parts"][0]["text"] == "Hello terminal"
        await page.ask("POST", "/prompt", {"text": "hi from the page"})
        await repl.shows("hi from the page", "Hello page")
        assert len((await page.session_with(4))["tasks"][0]["messages"]) == 4


async def test_the_page_answers_what_the_terminal_asks(tmp_path: Path) -> None:
    replies = [reply(call("write_file", path="a.txt", content="x\n")), reply("Done")]
    async with open_repl(tmp_path, replies) as repl:
        page = await _served(repl)
        await page.ask("POST", "/prompt", {"text": "write a.txt"})
        await repl.until(lambda: bool(repl.context.board.inbox.waiting()))
        (asked,) = (await page.ask("GET", "/session"))["approvals"]
        event = asked["event"]
        answer = {"request_id": event["request_id"], "digest": event["digest"], "answer": "once"}
        assert await page.ask("POST", "/answer", answer) == {"answered": True}
        await repl.shows("Done")
        assert (repl.program.repo / "a.txt").read_text() == "x\n"


async def test_serve_again_tells_the_address_and_off_ends_it(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        page = await _served(repl)
        assert (await _served(repl)).token == page.token
        await repl.said("/serve off", "The page is closed.")
        with pytest.raises(ConnectionRefusedError):
            await page.ask("GET", "/session")
        await repl.said("/serve off", "There is no page.")
        assert (await _served(repl)).token != page.token


async def test_the_page_ends_with_its_session(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        page = await _served(repl)
        before = repl.context.session.session_id
        repl.say("/new")
        await repl.reopened(before)
        with pytest.raises(ConnectionRefusedError):
            await page.ask("GET", "/session")


async def test_a_port_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        with listen_on_port(0) as listener:
            port = listener.getsockname()[1]
            await repl.said(f"/serve {port}", f"port {port} is in use")
        await repl.said(
            "/serve nowhere", "expected /serve, /serve PORT (0 to 65535) or /serve off, found 'nowhere'"
        )
        await repl.said(
            "/serve 70000", "expected /serve, /serve PORT (0 to 65535) or /serve off, found '70000'"
        )
