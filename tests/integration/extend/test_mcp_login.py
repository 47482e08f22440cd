"""Logins to servers with an address: the whole way against a scripted authorization server, its lies, and the
renewal of tokens."""

import asyncio
import errno
import os
import stat
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
import pytest

from buddy.agent.tool import ToolError
from buddy.extend.mcp.definitions import read_server
from buddy.extend.mcp.http_requests import HttpRequests
from buddy.extend.mcp.http_transport import SessionTransport
from buddy.extend.mcp.login import LoginFailedError, LoginPage, log_in
from buddy.extend.mcp.logins import FILE_NAME, Login, Logins, LoginsError
from buddy.extend.mcp.stored_login import StoredLogin
from tests.support.mcp_oauth import HeldAnswer, LoginServer, login_server, visit
from tests.support.mcp_remote import connecting, http


class Person:
    """Somebody at a browser, who takes the page and comes back."""

    def __init__(self, server: LoginServer, **changed: str) -> None:
        self.server = server
        self.changed = changed
        self.page: LoginPage | None = None
        self.read = ""
        self._coming: asyncio.Task[None] | None = None

    async def show(self, page: LoginPage) -> None:
        self.page = page
        self._coming = asyncio.create_task(self._come_back(page))

    async def _come_back(self, page: LoginPage) -> None:
        self.read = await visit(self.server.browse(page.url, **self.changed))


async def login_at(server: LoginServer, person: Person, **more: Any) -> Login:
    definition = read_server("plain", {"url": server.server, **more}, "user", "test")
    async with asyncio.timeout(20):
        return await log_in(definition, {}, person.show, time.time)


async def test_a_login_is_made_used_and_renewed(tmp_path: Path) -> None:
    async with login_server() as server:
        async with connecting(tmp_path, server.server) as client:
            client.server.begin()
            await client.until("login")
            assert client.server.reason == "run buddy mcp login plain, or /mcp login plain inside buddy"

        person = Person(server)
        login = await login_at(server, person)
        assert person.page is not None
        assert person.page.host == server.url.removeprefix("http://")
        assert "go back to the terminal" in person.read
        assert login.tokens["access_token"] == "token-1"
        Logins(str(tmp_path)).save("plain", login)

        async with connecting(tmp_path, server.server) as client:
            await client.ready()
            assert await client.call(text="a") == "you said a"
            server.valid = "revoked"
            server.tokens = 1
            assert await client.call(text="b") == "you said b"
        assert Logins(str(tmp_path)).find("plain", server.server).tokens["access_token"] == "token-2"
        registered = server.said("/register")
        assert len(registered) == 1
        exchanged = parse_qs(server.said("/token")[0].body.decode())
        assert exchanged["resource"] == [server.server]
    assert stat.S_IMODE(os.stat(tmp_path / FILE_NAME).st_mode) == 0o600


async def test_a_token_that_is_over_is_renewed_before_it_is_sent(tmp_path: Path) -> None:
    async with login_server() as server:
        server.expires_in = 0
        Logins(str(tmp_path)).save("plain", await login_at(server, Person(server)))
        server.expires_in = 3600
        async with connecting(tmp_path, server.server) as client:
            await client.ready()
        sent = [request.headers.get("authorization") for request in server.said("/mcp")]
        assert "Bearer token-1" not in sent[2:]
        assert "Bearer token-2" in sent


async def test_a_login_that_is_over_asks_for_a_new_one(tmp_path: Path) -> None:
    async with login_server() as server:
        Logins(str(tmp_path)).save("plain", await login_at(server, Person(server)))
        async with connecting(tmp_path, server.server) as client:
            await client.ready()
            server.valid, server.tokens = "other", 99
            with pytest.raises(ToolError, match="its login is over; run buddy mcp login plain"):
                await client.call(text="a")
            await client.until("login")


async def test_a_renewal_another_program_made_is_taken_up(tmp_path: Path) -> None:
    async with login_server() as server:
        login = await login_at(server, Person(server))
        logins = Logins(str(tmp_path))
        logins.save("plain", login)
        async with connecting(tmp_path, server.server) as client:
            await client.ready()
            server.valid, server.tokens = "token-9", 9
            logins.save("plain", msgspec.structs.replace(login, tokens={"access_token": "token-9"}))
            assert await client.call(text="a") == "you said a"


async def test_an_authorization_server_that_is_down_ends_no_login(tmp_path: Path) -> None:
    async with login_server() as server:
        Logins(str(tmp_path)).save("plain", await login_at(server, Person(server)))
        async with connecting(tmp_path, server.server) as client:
            await client.ready()
            server.valid = "other"
            server.answers["/token"] = http(503)
            with pytest.raises(ToolError, match=r"could not be renewed: 127\.0\.0\.1 answered HTTP 503"):
                await client.call(text="a")
            assert client.server.state != "login"


def sending(folder: Path, login: Login) -> SessionTransport:
    """Return the requests of one session that has read its login."""
    stored = StoredLogin(Logins(str(folder)), "plain", login, time.time)
    return SessionTransport(
        "plain", "http", HttpRequests({}), lambda _error: None, has_credentials=False, login=stored
    )


def asking(server: LoginServer) -> httpx2.Request:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    return httpx2.Request("POST", server.server, json=message)


async def expired_login(server: LoginServer, folder: Path) -> Login:
    """Save and return a login whose token is over."""
    server.expires_in = 0
    login = await login_at(server, Person(server))
    Logins(str(folder)).save("plain", login)
    server.expires_in = 3600
    return login


def token_in(folder: Path, server: LoginServer) -> str:
    login = Logins(str(folder)).find("plain", server.server)
    return login.tokens["access_token"] if login is not None else ""


def renewals(server: LoginServer) -> int:
    return sum(b"grant_type=refresh_token" in request.body for request in server.said("/token"))


async def test_a_login_that_was_removed_is_neither_used_nor_made_again(tmp_path: Path) -> None:
    async with login_server() as server:
        transport = sending(tmp_path, await expired_login(server, tmp_path))
        assert Logins(str(tmp_path)).remove("plain", server.server)
        answer = await transport.handle_async_request(asking(server))
        assert "you logged out" in (await answer.aread()).decode()
        assert renewals(server) == 0
        assert token_in(tmp_path, server) == ""
        await transport.aclose()


async def test_a_good_token_is_dropped_at_the_next_request_after_a_logout(tmp_path: Path) -> None:
    async with login_server() as server:
        Logins(str(tmp_path)).save("plain", await login_at(server, Person(server)))
        async with connecting(tmp_path, server.server) as client:
            await client.ready()
            assert await client.call(text="a") == "you said a"
            before = len(server.said("/mcp"))
            assert Logins(str(tmp_path)).forget("plain") == (server.server,)
            with pytest.raises(ToolError, match="you logged out; run buddy mcp login plain"):
                await client.call(text="b")
            await client.until("login")
        sent = server.said("/mcp")[before:]
        assert all("authorization" not in request.headers for request in sent)


async def test_a_file_of_logins_that_is_deleted_is_a_logout(tmp_path: Path) -> None:
    async with login_server() as server:
        Logins(str(tmp_path)).save("plain", await login_at(server, Person(server)))
        async with connecting(tmp_path, server.server) as client:
            await client.ready()
            (tmp_path / FILE_NAME).unlink()
            with pytest.raises(ToolError, match="you logged out"):
                await client.call(text="b")


async def test_a_login_removed_during_its_renewal_stays_removed(tmp_path: Path) -> None:
    async with login_server() as server:
        transport = sending(tmp_path, await expired_login(server, tmp_path))
        held = server.held["/token"] = HeldAnswer()
        sent = asyncio.create_task(transport.handle_async_request(asking(server)))
        await held.is_ready.wait()
        Logins(str(tmp_path)).remove("plain", server.server)
        held.go.set()
        assert "you logged out" in (await (await sent).aread()).decode()
        assert token_in(tmp_path, server) == ""
        await transport.aclose()


async def test_a_login_made_during_a_renewal_stays(tmp_path: Path) -> None:
    async with login_server() as server:
        login = await expired_login(server, tmp_path)
        transport = sending(tmp_path, login)
        held = server.held["/token"] = HeldAnswer()
        sent = asyncio.create_task(transport.handle_async_request(asking(server)))
        await held.is_ready.wait()
        server.valid = "token-9"
        new = msgspec.structs.replace(login, tokens={"access_token": "token-9"}, expires_at=0)
        Logins(str(tmp_path)).save("plain", new)
        held.go.set()
        assert (await sent).status_code == 200
        assert server.said("/mcp")[-1].headers["authorization"] == "Bearer token-9"
        assert token_in(tmp_path, server) == "token-9"
        await transport.aclose()


async def test_rights_a_server_wants_replace_no_token_another_program_saved(tmp_path: Path) -> None:
    async with login_server() as server:
        login = await login_at(server, Person(server))
        logins = Logins(str(tmp_path))
        logins.save("plain", login)
        transport = sending(tmp_path, login)
        logins.save("plain", msgspec.structs.replace(login, tokens={"access_token": "token-9"}))
        server.refused = 'Bearer error="insufficient_scope", scope="write"'
        await transport.handle_async_request(asking(server))
        saved = logins.find("plain", server.server)
        assert saved is not None
        assert (saved.tokens, saved.wanted_scope) == ({"access_token": "token-9"}, "write")
        await transport.aclose()


async def test_two_programs_renew_a_login_once(tmp_path: Path) -> None:
    async with login_server() as server:
        login = await expired_login(server, tmp_path)
        first, second = sending(tmp_path, login), sending(tmp_path, login)
        held = server.held["/token"] = HeldAnswer()
        sent = [asyncio.create_task(each.handle_async_request(asking(server))) for each in (first, second)]
        await held.is_ready.wait()
        held.go.set()
        for answer in await asyncio.gather(*sent):
            assert "login is over" not in (await answer.aread()).decode()
        assert renewals(server) == 1
        assert token_in(tmp_path, server) == "token-2"
        await first.aclose()
        await second.aclose()


async def test_a_renewal_outlives_the_request_that_began_it(tmp_path: Path) -> None:
    async with login_server() as server:
        transport = sending(tmp_path, await expired_login(server, tmp_path))
        held = server.held["/token"] = HeldAnswer()
        sent = asyncio.create_task(transport.handle_async_request(asking(server)))
        await held.is_ready.wait()
        sent.cancel()
        await asyncio.wait({sent})
        held.go.set()
        await transport.aclose()
        assert token_in(tmp_path, server) == "token-2"


async def test_the_end_of_a_session_renews_no_login(tmp_path: Path) -> None:
    async with login_server() as server:
        transport = sending(tmp_path, await expired_login(server, tmp_path))
        before = len(server.requests)
        end = httpx2.Request("DELETE", server.server, headers={"mcp-session-id": "a"})
        assert (await transport.handle_async_request(end)).status_code == 200
        await transport.aclose()
        assert len(server.requests) == before


async def failing(server: LoginServer, person: Person | None = None, **more: Any) -> str:
    with pytest.raises(LoginFailedError) as caught:
        await login_at(server, person or Person(server), **more)
    return str(caught.value)


async def test_only_a_port_that_cannot_be_used_is_blamed_on_the_port() -> None:
    class Unable(Person):
        async def show(self, page: LoginPage) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    async with login_server() as server:
        told = await failing(server, Unable(server))
        assert "No space left" in told
        assert "port" not in told
        taken = urlsplit(server.url).port
        told = await failing(server, oauth={"clientId": "a", "callbackPort": taken})
        assert f"port {taken} of 127.0.0.1 cannot be used" in told


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"code": "", "error": "access_denied", "error_description": "no\x1b[31m"}, "access_denied: no"),
        ({"iss": "https://evil.example"}, "iss mismatch"),
        ({"code": "code-2"}, "invalid_grant"),
    ],
)
async def test_a_refusal_is_told(changed: dict[str, str], said: str) -> None:
    async with login_server() as server:
        told = await failing(server, Person(server, **changed))
        assert said in told
        assert "\x1b" not in told


async def test_only_the_answer_with_the_state_is_listened_to() -> None:
    async with login_server() as server:

        class Attacked(Person):
            async def _come_back(self, page: LoginPage) -> None:
                back = parse_qs(urlsplit(page.url).query)["redirect_uri"][0]
                self.tries = [
                    await visit(f"{back}?code=evil&state=guessed"),
                    await visit(f"{back}?code=evil"),
                    await visit(f"{back}?error=x&state="),
                    await visit(f"{back}/../other?code=evil"),
                    await visit(f"{back}?code=<script>&state=<script>", method="POST"),
                ]
                await super()._come_back(page)

        person = Attacked(server)
        login = await login_at(server, person)
        assert login.tokens["access_token"] == "token-1"
        assert all(" 40" in text.split("\r\n")[0] and "script" not in text for text in person.tries)


@pytest.mark.parametrize(
    "endpoint",
    ["authorization_endpoint", "token_endpoint", "registration_endpoint"],
)
@pytest.mark.parametrize(
    "address",
    ["http://auth.example/x", "http://169.254.169.254/latest", "http://127.0.0.1.evil.example/x",
     "http://localhost../x", "https://user:pass@auth.example/x"],
)  # fmt: skip
async def test_nothing_of_a_login_leaves_this_machine_in_the_open(endpoint: str, address: str) -> None:
    async with login_server() as server:
        server.metadata = {endpoint: address}
        person = Person(server)
        told = await failing(server, person)
        assert "expected https" in told or "no address a login can use" in told
        if endpoint == "authorization_endpoint":
            assert person.page is None


@pytest.mark.parametrize("scheme", ["javascript:alert(1)", "file:///etc/passwd", "ftp://auth.example/"])
async def test_no_other_kind_of_address_is_opened(scheme: str) -> None:
    async with login_server() as server:
        server.metadata = {"authorization_endpoint": scheme}
        person = Person(server)
        await login_at(server, person)
        assert person.page is not None
        assert person.page.url.startswith(f"{server.url}/authorize?")


async def test_a_server_sends_the_client_to_no_address_of_the_network() -> None:
    async with login_server() as server, login_server() as inner:
        server.challenge = f'Bearer resource_metadata="{inner.url}/.well-known/oauth-protected-resource"'
        assert "only one of its own host is read" in await failing(server)
        assert inner.requests == []


async def test_metadata_of_another_issuer_is_refused() -> None:
    async with login_server() as server:
        server.metadata = {"issuer": "https://evil.example"}
        assert "issuer mismatch" in await failing(server)


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        ("/token", http(200, "nonsense"), "nvalid"),
        ("/token", http(200, b"x" * 3_000_000), "more than 1 MB"),
        ("/register", http(400, {"error": "invalid_redirect_uri"}), "invalid_redirect_uri"),
        ("/register", http(200, {"client_id": ""}), "nvalid registration"),
        ("/.well-known/oauth-protected-resource/mcp", http(500), "HTTP 500"),
        ("/mcp", http(403), "HTTP 403 and asks for no login"),
        ("/mcp", http(200, {"jsonrpc": "2.0", "id": 0, "result": {}}), "without a login"),
    ],
)
async def test_a_bad_answer_ends_the_login_in_words(path: str, answer: bytes, said: str) -> None:
    async with login_server() as server:
        server.answers[path] = answer
        told = await failing(server)
        assert said in told
        assert "Error" not in told
        assert len(told) < 500


async def test_a_client_registered_beforehand_registers_nothing() -> None:
    async with login_server() as server:
        await login_at(server, Person(server), oauth={"clientId": "mine", "scopes": "read write"})
        assert server.said("/register") == []
        exchanged = parse_qs(server.said("/token")[0].body.decode())
        assert exchanged["client_id"] == ["mine"]


@pytest.mark.parametrize(
    ("methods", "is_basic"),
    [([], True), (["client_secret_post"], False), (["none", "client_secret_basic"], True)],
)
async def test_a_secret_goes_the_way_its_server_takes_it(methods: list[str], is_basic: bool) -> None:
    async with login_server() as server:
        server.metadata = {"token_endpoint_auth_methods_supported": methods} if methods else {}
        await login_at(server, Person(server), oauth={"clientId": "mine", "clientSecret": "hidden"})
        request = server.said("/token")[0]
        assert ("authorization" in request.headers) is is_basic
        assert (b"hidden" in request.body) is not is_basic


async def test_a_server_that_asks_for_its_login_late_is_logged_in_to() -> None:
    async with login_server() as server:
        server.open = ("initialize",)
        login = await login_at(server, Person(server))
        assert login.tokens["access_token"] == "token-1"


async def test_rights_a_server_wants_are_asked_for_at_the_next_login(tmp_path: Path) -> None:
    async with login_server() as server:
        logins = Logins(str(tmp_path))
        logins.save(
            "plain", await login_at(server, Person(server), oauth={"clientId": "a", "scopes": "read"})
        )
        server.refused = 'Bearer error="insufficient_scope", scope="write admin"'
        async with connecting(tmp_path, server.server) as client:
            client.server.begin()
            await client.until("login")
            assert "more rights" in client.server.reason
        before = logins.find("plain", server.server)
        assert before is not None
        assert before.scopes() == ("read", "write", "admin")
        server.refused = ""
        person = Person(server)
        definition = read_server("plain", {"url": server.server}, "user", "test")
        await log_in(definition, {}, person.show, time.time, scopes=before.scopes())
        assert person.page is not None
        assert parse_qs(urlsplit(person.page.url).query)["scope"] == ["read write admin"]


async def test_a_token_goes_to_the_address_it_was_made_for_only(tmp_path: Path) -> None:
    async with login_server() as server, login_server() as other:
        Logins(str(tmp_path)).save("plain", await login_at(server, Person(server)))
        async with connecting(tmp_path, other.server) as client:
            client.server.begin()
            await client.until("login")
        assert all("authorization" not in request.headers for request in other.requests)


@pytest.mark.parametrize("content", ["", "[]", "nonsense", '{"version": 1}'])
def test_a_broken_file_of_logins_is_told_and_left(tmp_path: Path, content: str) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(LoginsError, match="is not what buddy wrote there"):
        Logins(str(tmp_path)).find("plain", "https://a.example")
    assert path.read_text() == content


def test_a_file_of_logins_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    logins = Logins(str(tmp_path))
    logins.save("plain", Login("https://a.example", {}, {}))
    (tmp_path / FILE_NAME).chmod(0o644)
    with pytest.raises(LoginsError, match="chmod 600"):
        logins.find("plain", "https://a.example")
    assert "{" not in repr(Login("https://a.example", {"access_token": "t"}, {}))
