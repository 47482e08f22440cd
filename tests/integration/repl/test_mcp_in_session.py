"""`/mcp` in a session: logins while the prompt stays free, and their end."""

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.mcp_oauth import LoginServer, login_server, visit
from tests.support.program import Program
from tests.support.repl import Repl, open_repl_in


@contextlib.asynccontextmanager
async def session_with(tmp_path: Path, login: LoginServer, *, browser: str = "") -> AsyncGenerator[Repl]:
    """A session with one server that wants a login, once it has said so."""
    async with FakeLLM(lambda _asked: reply("hi")) as model:
        program = Program(
            tmp_path,
            model.url,
            settings={"mcp_servers": {"web": {"url": login.server}}},
            environment={"BROWSER": browser, "DISPLAY": "", "WAYLAND_DISPLAY": ""},
        )
        program.files(main__py="1\n")
        async with open_repl_in(program, model) as repl:
            await repl.shows("web needs a login (run buddy mcp login web, or /mcp login web inside buddy)")
            yield repl


def address_in(text: str) -> str:
    return next(word for word in text.split() if "/authorize?" in word)


async def test_a_login_is_made_beside_the_prompt_and_dropped_again(tmp_path: Path) -> None:
    async with login_server() as login, session_with(tmp_path, login) as repl:
        shown = await repl.said(
            "/mcp login web", "wants a login at 127.0.0.1", "/authorize?", "open it yourself"
        )
        assert [row.title for row in repl.context.own.rows()] == ["login to web"]
        await repl.turn("hello")
        assert len(repl.server.requests) == 1
        assert await visit(login.browse(address_in(shown)))
        await repl.shows("logged in to web, saved in", "web offers 1 tool")
        assert repl.context.own.rows() == ()
        assert login.said("/mcp")[-1].headers["authorization"] == "Bearer token-1"

        before = len(login.said("/mcp"))
        host = login.url.removeprefix("http://")
        await repl.said("/mcp logout web", f"forgot the login to web ({host})", "web needs a login")
        sent = login.said("/mcp")[before:]
        assert sent
        assert all("authorization" not in request.headers for request in sent)
        await repl.said("/mcp logout web", "there is no login to 'web'")
        assert repl.context.session.mcp is not None
        assert repl.context.session.mcp.tools_of("web") == ()


async def test_a_browser_opens_only_when_it_is_asked_for_again(tmp_path: Path) -> None:
    opened, script = tmp_path / "opened", tmp_path / "browser"
    script.write_text(
        f'#!/bin/sh\necho noise; echo noise >&2\nprintf %s "$1" > {opened}.new\nmv {opened}.new {opened}\n'
    )
    script.chmod(0o755)
    async with login_server() as login, session_with(tmp_path, login, browser=str(script)) as repl:
        shown = await repl.said("/mcp login web", "/mcp login web again opens it", "/authorize?")
        assert not opened.exists()
        await repl.said("/mcp login web", "your browser opens 127.0.0.1")
        await repl.until(opened.exists, "an opened browser")
        assert opened.read_text() == address_in(shown)


async def test_a_login_is_given_up_with_esc_and_begun_again(tmp_path: Path) -> None:
    async with login_server() as login, session_with(tmp_path, login) as repl:
        await repl.said("/mcp login web", "/authorize?")
        work = repl.context.own.last()
        assert work is not None
        work.cancelled.set()
        await repl.shows("the login to web was given up")
        shown = await repl.said("/mcp login web", "/authorize?")
        await visit(login.browse(address_in(shown)))
        await repl.shows("logged in to web")


async def test_what_cannot_be_logged_in_to_is_told(tmp_path: Path) -> None:
    async with login_server() as login, session_with(tmp_path, login) as repl:
        await repl.said("/mcp login nothing", "there is no MCP server 'nothing'")
        await repl.said("/mcp logout nothing", "there is no login to 'nothing'")
        login.metadata = {"authorization_endpoint": "http://far.example/authorize"}
        await repl.said("/mcp login web", "expected https")
        assert repl.context.own.rows() == ()
        await repl.said("/mcp distrust web", "is not started")
        await repl.said("/mcp login web", "waits for your approval: /mcp trust web shows it and starts it")


async def test_leaving_during_a_login_leaves_nothing_behind(tmp_path: Path) -> None:
    async with login_server() as login, session_with(tmp_path, login) as repl:
        await repl.said("/mcp login web", "/authorize?")
