"""A server that wants a login, and its authorization server: scripted, with every lie a switch."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.mcp_remote import Request, honest, http
from tests.support.stream_server import stream_server


async def visit(address: str, *, method: str = "GET") -> str:
    """Return the text a browser reads at an address of this machine."""
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"{method} {parts.path}?{parts.query} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return text


class HeldAnswer:
    """An answer that is held back: `is_ready` is set when the request has come, `go` lets it out."""

    def __init__(self) -> None:
        self.is_ready = asyncio.Event()
        self.go = asyncio.Event()


class LoginServer:
    """Both servers on one port. `answers` replaces the answer to a path, `held` holds it back; `expires_in`
    is that of tokens; `refused` is the challenge that goes with a refusal of the token; `open` are methods
    that need none."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.answers: dict[str, bytes] = {}
        self.held: dict[str, HeldAnswer] = {}
        self.metadata: dict[str, Any] = {}
        self.expires_in = 3600
        self.tokens = 0
        self.valid = ""
        self.challenge: str | None = None
        self.refused = ""
        self.open: tuple[str, ...] = ()
        self._challenges: dict[str, str] = {}

    @property
    def server(self) -> str:
        return f"{self.url}/mcp"

    def said(self, path: str) -> list[Request]:
        """The requests to a path."""
        return [request for request in self.requests if urlsplit(request.path).path == path]

    def browse(self, address: str, **changed: str) -> str:
        """Return the address the page of the login sends a browser to; `changed` replaces fields."""
        fields = {key: values[0] for key, values in parse_qs(urlsplit(address).query).items()}
        assert fields["code_challenge_method"] == "S256"
        self._challenges["code-1"] = fields["code_challenge"]
        back = {"code": "code-1", "state": fields["state"], **changed}
        return f"{fields['redirect_uri']}?{urlencode({k: v for k, v in back.items() if v})}"

    def answer(self, request: Request) -> bytes:
        path = urlsplit(request.path).path
        if path in self.answers:
            return self.answers[path]
        match path:
            case "/mcp":
                return self._resource(request)
            case "/.well-known/oauth-protected-resource/mcp":
                return http(200, {"resource": self.server, "authorization_servers": [self.url]})
            case "/.well-known/oauth-authorization-server":
                found = {
                    "issuer": self.url,
                    "authorization_endpoint": f"{self.url}/authorize",
                    "token_endpoint": f"{self.url}/token",
                    "registration_endpoint": f"{self.url}/register",
                    "code_challenge_methods_supported": ["S256"],
                }
                return http(200, {**found, **self.metadata})
            case "/register":
                told = json.loads(request.body)
                return http(201, {**told, "client_id": "client-1", "token_endpoint_auth_method": "none"})
            case "/token":
                return self._token(request)
            case _:
                return http(404)

    def _resource(self, request: Request) -> bytes:
        if request.rpc in self.open:
            return honest(request)
        if self.valid and self.refused:
            return http(403, www_authenticate=self.refused)
        if self.valid and request.headers.get("authorization") == f"Bearer {self.valid}":
            return honest(request)
        challenge = self.challenge or "Bearer"
        return http(401, www_authenticate=challenge)

    def _token(self, request: Request) -> bytes:
        fields = {key: values[0] for key, values in parse_qs(request.body.decode()).items()}
        if fields["grant_type"] == "authorization_code":
            digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if challenge != self._challenges.get(fields["code"]):
                return http(400, {"error": "invalid_grant"})
        elif fields["refresh_token"] != f"refresh-{self.tokens}":
            return http(400, {"error": "invalid_grant"})
        self.tokens += 1
        self.valid = f"token-{self.tokens}"
        return http(
            200,
            {
                "access_token": self.valid,
                "token_type": "bearer",
                "expires_in": self.expires_in,
                "refresh_token": f"refresh-{self.tokens}",
            },
        )


@asynccontextmanager
async def login_server() -> AsyncIterator[LoginServer]:
    """Serve until the block ends."""
    server = LoginServer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lengths = [line[15:] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
            request = Request(head, await reader.readexactly(int(lengths[0]) if lengths else 0))
            server.requests.append(request)
            answer = server.answer(request)
            if held := server.held.get(urlsplit(request.path).path):
                held.is_ready.set()
                await held.go.wait()
            writer.write(answer)
            await writer.drain()

    async with stream_server(serve) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server
