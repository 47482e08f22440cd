"""A login to a server with an address: only the person begins one, by `buddy mcp login` or `/mcp login`.

The protocol library does the discovery, the registration, PKCE and the exchange. Added here: nothing is sent
over plain HTTP to another machine, the page with the metadata belongs to the server, the person sees the
host before a browser opens, and every failure is a sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import AnyUrl, ValidationError

from buddy.agent.provider import ProviderError
from buddy.extend.mcp.definitions import OAuthClient, ServerDefinition
from buddy.extend.mcp.http_requests import HttpRequests, TooMuchError, read_all, with_body
from buddy.extend.mcp.logins import Login
from buddy.extend.mcp.loopback import Loopback, listening
from buddy.extend.mcp.records import LoginFailedError, LoginPage
from buddy.extend.mcp.stored_login import expiry_of
from buddy.llm.http.client import is_this_machine
from buddy.safety.sanitise import one_line, visible
from buddy.safety.url_guard import canonical_host

REQUEST_S = 30.0
ANSWER_S = 300.0
MAX_BODY_BYTES = 1_000_000


class _Requests(httpx2.AsyncBaseTransport):
    """Sends the requests of a login, each within limits."""

    def __init__(self, server: str, flow: OAuthClientProvider, requests: HttpRequests) -> None:
        self._server = httpx2.URL(server)
        self._flow = flow
        self._requests = requests

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and read the whole answer."""
        check_address(str(request.url), self._server.host)
        # Until it names an authorization server, the server speaks for itself alone: otherwise it could have
        # any address of the person's network asked.
        is_about_itself = request.method == "GET" and self._flow.context.auth_server_url is None
        if is_about_itself and _origin(request.url) != _origin(self._server):
            raise LoginFailedError(
                f"the server names a page of {visible(request.url.host)} as its own description; "
                "only one of its own host is read"
            )
        try:
            async with asyncio.timeout(REQUEST_S):
                response = await self._requests.send(request)
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    await response.aclose()
                    return with_body(response, b"")
                return with_body(response, await read_all(response, MAX_BODY_BYTES))
        except TimeoutError as error:
            raise LoginFailedError(f"{request.url.host} did not answer within {REQUEST_S:g} s") from error
        except (ProviderError, TooMuchError) as error:
            raise LoginFailedError(str(error)) from error

    async def aclose(self) -> None:
        """Close every connection."""
        await self._requests.aclose()


class _NewLogin:
    """The result of a login while it is made. Interface of the library's `TokenStorage`."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Flow(OAuthClientProvider):
    """The library's flow, with scopes and the secret of a client that are known beforehand."""

    scopes: tuple[str, ...] = ()
    has_secret = False

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        context = self.context
        if self.scopes:
            context.client_metadata.scope = " ".join(self.scopes)
        if self.has_secret and context.client_info is not None:
            known = context.oauth_metadata
            methods = (known.token_endpoint_auth_methods_supported if known is not None else None) or ()
            is_post = "client_secret_post" in methods and "client_secret_basic" not in methods
            context.client_info.token_endpoint_auth_method = (
                "client_secret_post" if is_post else "client_secret_basic"
            )
        return await super()._perform_authorization_code_grant()


async def log_in(
    definition: ServerDefinition,
    environment: Mapping[str, str],
    show: Callable[[LoginPage], Awaitable[None]],
    now: Callable[[], float],
    *,
    scopes: tuple[str, ...] = (),
) -> Login:
    """Log in to the server of an expanded definition and return the login, which is not yet saved. `show`
    shows the page to the person and may refuse by raising `LoginFailedError`; `now`: seconds since 1970;
    `scopes` are rights to ask for besides. Raises `LoginFailedError`."""
    check_address(definition.url, urlsplit(definition.url).hostname or "")
    async with AsyncExitStack() as stack:
        port = definition.oauth.port
        try:
            loopback = await stack.enter_async_context(listening(port))
        except OSError as error:
            raise LoginFailedError(f"port {port} of 127.0.0.1 cannot be used: {error.strerror}") from error
        try:
            return await _log_in(definition, environment, show, now, scopes, loopback)
        except OSError as error:
            raise LoginFailedError(f"the login failed: {one_line(str(error), 300)}") from error


async def _log_in(
    definition: ServerDefinition,
    environment: Mapping[str, str],
    show: Callable[[LoginPage], Awaitable[None]],
    now: Callable[[], float],
    scopes: tuple[str, ...],
    loopback: Loopback,
) -> Login:
    async def send_to(url: str) -> None:
        parts = urlsplit(url)
        check_address(url, urlsplit(definition.url).hostname or "")
        loopback.state = parse_qs(parts.query).get("state", [""])[0]
        await show(LoginPage(url, _shown_host(parts.netloc)))

    async def come_back() -> AuthorizationCodeResult:
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await loopback.answer()
        except TimeoutError as error:
            raise LoginFailedError(f"nobody came back from the browser within {ANSWER_S:g} s") from error
        if answer.error:
            raise LoginFailedError(f"the login was refused: {one_line(answer.error, 300)}")
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.issuer)

    storage = _NewLogin(_registered(definition.oauth))
    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(loopback.url)],
        client_name="buddy",
        scope=" ".join(definition.oauth.scopes) or None,
    )
    document = definition.oauth.document or None
    flow = _Flow(definition.url, metadata, storage, send_to, come_back, client_metadata_url=document)
    flow.scopes = tuple(dict.fromkeys((*definition.oauth.scopes, *scopes)))
    flow.has_secret = bool(definition.oauth.client_secret)
    response = await _ask(definition, flow, HttpRequests(environment))
    if storage.tokens is None or storage.client is None:
        if response.status_code < 400:
            raise LoginFailedError("it answers without a login; none is needed")
        raise LoginFailedError(f"it answers HTTP {response.status_code} and asks for no login")
    if response.status_code == 401:
        raise LoginFailedError("it refuses the token its own login gave (HTTP 401)")
    server, resource = flow.context.oauth_metadata, flow.context.protected_resource_metadata
    if server is not None:
        check_address(str(server.token_endpoint), urlsplit(definition.url).hostname or "")
    return Login(
        definition.url,
        storage.tokens.model_dump(mode="json", exclude_none=True),
        storage.client.model_dump(mode="json", exclude_none=True),
        server.model_dump(mode="json", exclude_none=True) if server is not None else None,
        resource.model_dump(mode="json", exclude_none=True) if resource is not None else None,
        expiry_of(storage.tokens, now()),
    )


async def _ask(definition: ServerDefinition, flow: _Flow, requests: HttpRequests) -> httpx2.Response:
    """Begin the protocol, so that the server asks for its login."""
    hello = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": LATEST_HANDSHAKE_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "buddy", "version": "1"},
        },
    }
    accepted = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": LATEST_HANDSHAKE_VERSION,
    }
    transport = _Requests(definition.url, flow, requests)
    headers = {**definition.headers, **accepted}
    method, content = ("GET", None) if definition.kind == "sse" else ("POST", hello)
    try:
        async with httpx2.AsyncClient(transport=transport, timeout=None, trust_env=False) as client:
            response = await client.request(method, definition.url, headers=headers, json=content, auth=flow)
            if response.status_code >= 300 or method == "GET" or flow.context.current_tokens is not None:
                return response
            # Some let everybody in and ask for the login at the first request that shows something.
            if session := response.headers.get("mcp-session-id"):
                headers["mcp-session-id"] = session
            listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            return await client.post(definition.url, headers=headers, json=listing, auth=flow)
    except LoginFailedError:
        raise
    except (OAuthFlowError, OAuthRegistrationError, OAuthTokenError, ValidationError) as error:
        raise LoginFailedError(_flow_words(error)) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError, ValueError) as error:
        raise LoginFailedError(f"the login failed: {one_line(str(error), 300)}") from error


def _flow_words(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return f"the authorization server's answer is not usable ({place}: {first['msg']})"
    return f"the login failed: {one_line(str(error), 300)}"


def _registered(client: OAuthClient) -> OAuthClientInformationFull | None:
    """Return the client a definition names, None where it registers itself."""
    if not client.client_id:
        return None
    return OAuthClientInformationFull(
        client_id=client.client_id,
        client_secret=client.client_secret or None,
        token_endpoint_auth_method=None if client.client_secret else "none",
    )


def check_address(url: str, server_host: str) -> None:
    """Raise `LoginFailedError` for an address a login must not use: codes and tokens go over TLS, or stay on
    this machine with the server."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
        parts = urlsplit("")
    if parts.username is not None or parts.password is not None or not host:
        raise LoginFailedError(f"{visible(url[:200])} is no address a login can use")
    if parts.scheme == "https":
        return
    if parts.scheme == "http" and is_this_machine(host) and is_this_machine(server_host):
        return
    raise LoginFailedError(
        f"the login would go to {visible(parts.scheme)}://{visible(host)}, where others can read it: "
        "expected https"
    )


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _shown_host(netloc: str) -> str:
    """Return a host as a person can check it: in ASCII, with its port."""
    before, at, place = netloc.rpartition("@")
    host, colon, port = place.partition(":")
    name = host if host.isascii() else canonical_host(host) or host
    return visible(f"{before}{at}{name}{colon}{port}")
