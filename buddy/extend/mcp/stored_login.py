"""A saved login as a session uses it: its token with every request, renewed when it is over. No login begins
here; that takes `buddy mcp login`. Imported with the protocol library."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager

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
from buddy.extend.mcp.logins import Login, Logins, LoginsError, Stamp
from buddy.extend.mcp.records import LoginNeededError, login_words

EXPIRY_MARGIN_S = 30.0
"""A token is renewed so long before its end: it has to be good when it arrives."""
RENEWAL_WAIT_S, RENEWAL_POLL_S = 40.0, 0.1
"""Another program of the person may take so long to renew the same login."""
UNREAD: Stamp = (0, 0, 0)
Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
"""Sends the request for a new token and reads the whole answer."""


class SavedTokens:
    """The tokens of one login, in the file of logins. Interface of the library's `TokenStorage`. `now`:
    seconds since 1970."""

    def __init__(self, logins: Logins, name: str, login: Login, now: Callable[[], float]) -> None:
        self._logins = logins
        self._name = name
        self._url = login.url
        self._now = now
        self._stamp: Stamp | None = UNREAD
        self.login: Login | None = login

    def is_outdated(self) -> bool:
        """Tell whether a login was saved, renewed or forgotten since this one was read: a look at the
        file."""
        return self._logins.stamp() != self._stamp

    async def reload(self) -> None:
        """Take up what another program of the person saved meanwhile, or that it logged out."""
        stamp = self._logins.stamp()
        self.login = await asyncio.to_thread(self._logins.find, self._name, self._url)
        self._stamp = stamp

    async def get_tokens(self) -> OAuthToken | None:
        """Return the saved tokens."""
        return OAuthToken.model_validate(self.login.tokens) if self.login is not None else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Save renewed tokens. A login that another program made or removed meanwhile stays as it is."""
        before = self.login.tokens if self.login is not None else None
        expires_at = expiry_of(tokens, self._now())

        def renew(login: Login) -> Login:
            if login.tokens != before:
                return login
            renewed = tokens.model_dump(mode="json", exclude_none=True)
            return msgspec.structs.replace(login, tokens=renewed, expires_at=expires_at)

        self.login = await asyncio.to_thread(self._logins.update, self._name, self._url, renew)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client as the authorization server registered it."""
        return (
            OAuthClientInformationFull.model_validate(self.login.client) if self.login is not None else None
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Do nothing: a renewal registers no client."""


def expiry_of(tokens: OAuthToken, now: float) -> float:
    """Return the time a token is over, in seconds since 1970; 0 where the server does not say."""
    return now + max(tokens.expires_in, 0) if tokens.expires_in is not None else 0


class StoredLogin(OAuthClientProvider):
    """The token for requests; it is renewed before its end, and once when it is refused.

    A server may take a refresh token only once. So a renewal is a task of its own, which no end of a request
    cuts, and one program of the person at a time makes one."""

    def __init__(self, logins: Logins, name: str, login: Login, now: Callable[[], float]) -> None:
        self._saved = SavedTokens(logins, name, login, now)
        self._logins = logins
        self._name = name
        self._url = login.url
        self._now = now
        self._renewal: asyncio.Task[None] | None = None
        super().__init__(login.url, OAuthClientMetadata(redirect_uris=None), self._saved)

    async def _initialize(self) -> None:
        await super()._initialize()
        login = self._saved.login
        self.context.token_expiry_time = (
            login.expires_at - EXPIRY_MARGIN_S if login is not None and login.expires_at else None
        )
        if login is not None and login.server is not None:
            self.context.oauth_metadata = OAuthMetadata.model_validate(login.server)
        if login is not None and login.resource is not None:
            self.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                login.resource
            )

    async def token(self, send: Send, *, refused: str = "") -> str:
        """Return the token for a request, "" for none. `refused` is one that the server did not take: it is
        returned again where there is no other. Raises what `send` raises, `ChannelClosed`, and
        `LoginNeededError` once the person has logged out."""
        if not self._initialized:
            await self._initialize()
        if self._saved.is_outdated():
            try:
                await self._reload()
            except LoginsError as error:
                raise ChannelClosed(str(error)) from error
        if self._saved.login is not None and not self._is_good(refused):
            if self._renewal is None or self._renewal.done():
                self._renewal = asyncio.create_task(self._renew(send, refused))
                self._renewal.add_done_callback(_retrieve)
            await asyncio.shield(self._renewal)
        if self._saved.login is None:
            raise LoginNeededError(f"you logged out; {login_words(self._name)}")
        return self._access_token()

    def good_token(self) -> str:
        """Return the token if it is good without a renewal and nothing was saved or forgotten since, ""
        otherwise."""
        return self._access_token() if self._is_good() and not self._saved.is_outdated() else ""

    async def finish(self, limit_s: float) -> None:
        """Let a renewal end: the token it brings replaces the saved one, which is used up."""
        if self._renewal is None:
            return
        await asyncio.wait({self._renewal}, timeout=limit_s)
        self._renewal.cancel()

    async def note_wanted(self, scope: str) -> None:
        """Remember rights that the server wants, for the next login."""

        def add(login: Login) -> Login:
            return msgspec.structs.replace(login, wanted_scope=scope)

        with contextlib.suppress(LoginsError):
            await asyncio.to_thread(self._logins.update, self._name, self._url, add)

    def _access_token(self) -> str:
        tokens = self.context.current_tokens
        return tokens.access_token if tokens is not None else ""

    def _is_good(self, refused: str = "") -> bool:
        end = self.context.token_expiry_time
        return self._access_token() not in ("", refused) and (not end or self._now() <= end)

    async def _renew(self, send: Send, refused: str) -> None:
        try:
            await self._reload()
            if self._is_good(refused) or not self.context.can_refresh_token():
                return
            async with self._right_to_renew():
                await self._reload()  # by now another program may have renewed it
                if not self._is_good(refused) and self.context.can_refresh_token():
                    await self._take_up(await send(await self._refresh_token()))
        except LoginsError as error:
            raise ChannelClosed(str(error)) from error

    @asynccontextmanager
    async def _right_to_renew(self) -> AsyncGenerator[None]:
        """Wait for another program that renews the login. A thread that waits could not be cancelled."""
        try:
            async with asyncio.timeout(RENEWAL_WAIT_S):
                while True:
                    with ExitStack() as stack:
                        if stack.enter_context(self._logins.renewal(self._name, self._url)):
                            held = stack.pop_all()
                            break
                    await asyncio.sleep(RENEWAL_POLL_S)
        except TimeoutError as error:
            raise ChannelClosed(
                "the login could not be renewed: another program of yours has been at it for "
                f"{RENEWAL_WAIT_S:g} s"
            ) from error
        with held:
            yield

    async def _reload(self) -> None:
        """Take up a token that another program renewed: the one it replaced is often no longer good for
        that."""
        before = self._saved.login
        await self._saved.reload()
        if self._saved.login != before:
            await self._initialize()

    async def _take_up(self, response: httpx2.Response) -> None:
        """Take up the answer to a renewal. A server that is down has refused nothing."""
        if response.status_code >= 500 or response.status_code == 429:
            raise ChannelClosed(
                f"the login could not be renewed: {response.request.url.host} answered "
                f"HTTP {response.status_code}"
            )
        if await self._handle_refresh_response(response):
            await self._initialize()
        else:
            await self._reload()


def _retrieve(renewal: asyncio.Task[None]) -> None:
    """Note the end of a renewal for which nobody waits any more."""
    if not renewal.cancelled():
        renewal.exception()
