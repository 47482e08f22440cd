"""The page on this machine that a browser comes back to after a login."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import msgspec

PATH = "/callback"
MAX_HEAD_BYTES = 16_384
READ_S = 10.0
MAX_VISITORS = 32
_PAGE = (
    "<!doctype html><meta charset=utf-8><title>buddy</title>"
    "<body style='font-family:sans-serif;margin:4em'><p>{}</p>"
)


class LoginAnswer(msgspec.Struct, frozen=True):
    """The answer that a browser brought. `error` is the authorization server's, in its own words."""

    code: str
    state: str
    issuer: str | None
    error: str

    def __repr__(self) -> str:
        return f"LoginAnswer(error={self.error!r})"


class Loopback:
    """Waits on 127.0.0.1 for the answer to one login. Only a visitor who brings `state` is listened to: any
    page a browser shows can send it here."""

    def __init__(self) -> None:
        self.state = ""
        self.port = 0
        self._answer: asyncio.Future[LoginAnswer] = asyncio.get_running_loop().create_future()
        self._visitors = 0

    @property
    def url(self) -> str:
        """Return the address to come back to."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    async def answer(self) -> LoginAnswer:
        """Wait for the answer."""
        return await asyncio.shield(self._answer)

    def close(self) -> None:
        """Wait no longer."""
        self._answer.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one visitor."""
        self._visitors += 1
        try:
            if self._visitors > MAX_VISITORS:
                return
            async with asyncio.timeout(READ_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, words = self._judge(head)
                writer.write(_page(status, words))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a visitor who is no browser
        finally:
            self._visitors -= 1
            writer.close()

    def _judge(self, head: bytes) -> tuple[str, str]:
        """Take the answer, if it is one; return what the visitor reads."""
        words = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
        if len(words) != 3 or words[0] != "GET":
            return "405 Method Not Allowed", "Only a browser coming back from a login is expected here."
        try:
            address = urlsplit(words[1])
            fields = parse_qs(address.query, max_num_fields=20)
        except ValueError:
            return "400 Bad Request", "This address is not valid."
        if address.path != PATH:
            return "404 Not Found", "There is nothing here."
        state = fields.get("state", [""])[0]
        if not self.state or not hmac.compare_digest(state.encode(), self.state.encode()):
            return "400 Bad Request", "This is not the answer to the login that buddy waits for."
        code, error = fields.get("code", [""])[0], fields.get("error", [""])[0]
        if not code and not error:
            return "400 Bad Request", "This answer brings neither a code nor an error."
        detail = fields.get("error_description", [""])[0]
        told = f"{error}: {detail}" if error and detail else error
        if not self._answer.done():
            self._answer.set_result(LoginAnswer(code, state, fields.get("iss", [None])[0], told))
        if error:
            return "200 OK", "The login was refused. You can close this page and go back to the terminal."
        return "200 OK", "You can close this page and go back to the terminal."


@asynccontextmanager
async def listening(port: int) -> AsyncGenerator[Loopback]:
    """Listen on a port, on any free one for 0. Raises `OSError`."""
    loopback = Loopback()
    server = await asyncio.start_server(loopback.serve, "127.0.0.1", port, limit=MAX_HEAD_BYTES)
    loopback.port = server.sockets[0].getsockname()[1]
    try:
        yield loopback
    finally:
        server.close()
        loopback.close()


def _page(status: str, words: str) -> bytes:
    """Return an answer that repeats nothing of the question."""
    body = _PAGE.format(words).encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
        "cache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
        "content-security-policy: default-src 'none'; style-src 'unsafe-inline'\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
