"""The door of the page: every request passes here before anything reads it.

A browser runs pages of strangers beside this one. They can send requests to 127.0.0.1, and under a host name
of their own (DNS rebinding) even read the answers. So the host must be this machine's, a browser's origin
must be the page's, and everything but the page's own three files needs the token, which no page can send
without knowing it: there are no cookies.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

import msgspec

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
MAX_BODY_BYTES = 1_000_000
ADMIT = "admit"
"""In the state of a request: the function to call once its connection has shown the token."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Refusal(msgspec.Struct, frozen=True):
    """An answer to a request that is not let in."""

    status: int
    error: str


class PageGuard:
    """Lets requests of the page and of programs with the token through to `app`. `public` are the paths that
    need no token."""

    def __init__(self, app: App, *, token: str, public: frozenset[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on; every answer gets the security headers."""

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS]
            await send(message)

        refusal = self.judge(scope)
        if refusal is None:
            if scope["path"] not in self._public and ADMIT in scope.get("state", {}):
                scope["state"][ADMIT]()
            await self._app(scope, receive, send_guarded)
            return
        await send_error(send_guarded, refusal.status, refusal.error)

    def judge(self, scope: Scope) -> Refusal | None:
        """Return the reason to refuse a request, None to let it in."""
        headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        hosts = _values(headers, b"host")
        host = hosts[0] if len(hosts) == 1 else ""
        if not _is_loopback(host):
            return Refusal(403, "expected a Host header with 127.0.0.1 or localhost; use the printed address")
        for origin in _values(headers, b"origin"):
            if origin != f"http://{host}":
                return Refusal(403, "requests of other sites are refused")
        if scope["method"] not in ("GET", "POST"):
            return Refusal(405, "expected GET or POST")
        if scope["path"] in self._public:
            return None
        if any(site not in ("same-origin", "none") for site in _values(headers, b"sec-fetch-site")):
            return Refusal(403, "requests of other sites are refused")
        if not self._has_token(headers):
            return Refusal(
                401,
                "expected the header `Authorization: Bearer TOKEN`, with the token of the printed address",
            )
        return _judge_body(scope["method"], headers)

    def _has_token(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        sent = [value for name, value in headers if name == b"authorization"]
        if len(sent) != 1:
            return False
        kind, _, token = sent[0].partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


async def send_error(send: Send, status: int, error: str) -> None:
    """Answer with an error as JSON, and close the connection: what follows a refused request is not read."""
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close"), *([(b"www-authenticate", b"Bearer")] if status == 401 else [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _judge_body(method: str, headers: Sequence[tuple[bytes, bytes]]) -> Refusal | None:
    if method != "POST":
        return None
    kinds = _values(headers, b"content-type")
    # A page of another site can send a form or plain text without asking the browser first, but no JSON.
    if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() != "application/json":
        return Refusal(415, "expected Content-Type: application/json")
    if _values(headers, b"content-length") and _values(headers, b"transfer-encoding"):
        # Two lengths: a proxy on the way may have believed the other one.
        return Refusal(400, "expected Content-Length or Transfer-Encoding, found both")
    for length in _values(headers, b"content-length"):
        if not length.isdigit() or len(length) > 12 or int(length) > MAX_BODY_BYTES:
            return Refusal(413, f"expected a body of at most {MAX_BODY_BYTES:,} bytes, found {length[:20]}")
    return None


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def _is_loopback(host: str) -> bool:
    """Tell whether a Host header names this machine. Any port: a tunnel ends at another one, and a stranger's
    page can't choose the name."""
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not colon:
        name = host
    elif not (port.isascii() and port.isdigit() and len(port) <= 5):
        return False
    return name.lower() in LOOPBACK_NAMES
