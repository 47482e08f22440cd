"""A saved login as a session uses it: its token with every request, renewed when it is over. No login begins
here; that takes `buddy mcp login`. Imported with the protocol library."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

from buddy.extend.mcp.channel import ChannelClosed
from buddy.extend.mcp.logins import Login, Logins, LoginsError

EXPIRY_MARGIN_S = 30.0
"""A token is renewed so long before its end: it has to be good when it arrives."""


class SavedTokens:
    """The tokens of one login, in the file of logins. Interface of the library's `TokenStorage`. `now`:
    seconds since 1970."""

    def __init__(self, logins: Logins, name: str, login: Login, now: Callable[[], float]) -> None:
        self._logins = logins
        self._name = name
        self._now = now
        self.login = login

    async def reload(self) -> None:
        """Take up what another program of the person saved meanwhile."""
        found = await asyncio.to_thread(self._logins.find, self._name, self.login.url)
        self.login = found or self.login

    async def get_tokens(self) -> OAuthToken | None:
        """Return the saved tokens."""
        return OAuthToken.model_validate(self.login.tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Save renewed tokens."""
        self.login = msgspec.structs.replace(
            self.login,
            tokens=tokens.model_dump(mode="json", exclude_none=True),
            expires_at=expiry_of(tokens, self._now()),
        )
        await asyncio.to_thread(self._logins.save, self._name, self.login)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client as the authorization server registered it."""
        return OAuthClientInformationFull.model_validate(self.login.client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Save the client."""
        self.login = msgspec.structs.replace(
            self.login, client=client_info.model_dump(mode="json", exclude_none=True)
        )


def expiry_of(tokens: OAuthToken, now: float) -> float:
    """Return the time a token is over, in seconds since 1970; 0 where the server does not say."""
    return now + max(tokens.expires_in, 0) if tokens.expires_in is not None else 0


class StoredLogin(OAuthClientProvider):
    """Adds the token to requests; renews it before its end, and once when it is refused."""

    def __init__(self, logins: Logins, name: str, login: Login, now: Callable[[], float]) -> None:
        self._saved = SavedTokens(logins, name, login, now)
        self._logins = logins
        self._name = name
        self._now = now
        super().__init__(login.url, OAuthClientMetadata(redirect_uris=None), self._saved)

    async def _initialize(self) -> None:
        await super()._initialize()
        login = self._saved.login
        self.context.token_expiry_time = login.expires_at - EXPIRY_MARGIN_S if login.expires_at else None
        if login.server is not None:
            self.context.oauth_metadata = OAuthMetadata.model_validate(login.server)
        if login.resource is not None:
            self.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                login.resource
            )

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        context = self.context
        async with context.lock:
            if not self._initialized:
                await self._initialize()
            if not self._is_good():
                await self._reload()
            if not self._is_good() and context.can_refresh_token():
                await self._renewed((yield await self._refresh_token()))
            used = context.current_tokens.access_token if context.current_tokens is not None else ""
        if used:
            self._add_auth_header(request)
        response = yield request
        if response.status_code != 401 or not used:
            return
        async with context.lock:
            if self._access_token() == used:
                await self._reload()
            if self._access_token() == used and context.can_refresh_token():
                await self._renewed((yield await self._refresh_token()))
            if self._access_token() in ("", used):
                return
        self._add_auth_header(request)
        yield request

    async def note_wanted(self, scope: str) -> None:
        """Remember rights that the server wants, for the next login."""
        self._saved.login = msgspec.structs.replace(self._saved.login, wanted_scope=scope)
        with contextlib.suppress(LoginsError):
            await asyncio.to_thread(self._logins.save, self._name, self._saved.login)

    def _access_token(self) -> str:
        tokens = self.context.current_tokens
        return tokens.access_token if tokens is not None else ""

    def _is_good(self) -> bool:
        end = self.context.token_expiry_time
        return bool(self._access_token()) and (not end or self._now() <= end)

    async def _reload(self) -> None:
        """Take up a token that another program renewed: the one it replaced is often no longer good for
        that."""
        before = self._saved.login
        try:
            await self._saved.reload()
        except LoginsError as error:
            raise ChannelClosed(str(error)) from error
        if self._saved.login != before:
            await self._initialize()

    async def _renewed(self, response: httpx2.Response) -> None:
        """Take up the answer to a renewal. A server that is down has refused nothing."""
        if response.status_code >= 500 or response.status_code == 429:
            raise ChannelClosed(
                f"the login could not be renewed: {response.request.url.host} answered "
                f"HTTP {response.status_code}"
            )
        try:
            await self._handle_refresh_response(response)
        except LoginsError as error:
            raise ChannelClosed(str(error)) from error
        login = self._saved.login
        self.context.token_expiry_time = login.expires_at - EXPIRY_MARGIN_S if login.expires_at else None
