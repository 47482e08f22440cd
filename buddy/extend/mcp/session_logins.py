"""Logins to servers that the person makes inside a session, one at a time for each server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType

from buddy.extend.mcp.definitions import ServerDefinition
from buddy.extend.mcp.library import LibraryError, McpLibrary
from buddy.extend.mcp.logins import Logins, LoginsError
from buddy.extend.mcp.records import LoginFailedError, LoginPage


class SessionLogins:
    """The logins under way. `environment` holds the proxy settings."""

    def __init__(self, logins: Logins, library: McpLibrary, environment: Mapping[str, str]) -> None:
        self._logins = logins
        self._library = library
        self._environment = environment
        self._pages: dict[str, LoginPage | None] = {}

    def is_under_way(self, name: str) -> bool:
        """Tell whether a login to a server has begun."""
        return name in self._pages

    def page(self, name: str) -> LoginPage | None:
        """Return the page that a login under way waits for, None before it is known."""
        return self._pages.get(name)

    async def log_in(self, definition: ServerDefinition, show: Callable[[LoginPage], Awaitable[None]]) -> str:
        """Log in to the server of an expanded definition, and save the login. `show` shows the page to the
        person. Returns the place of the tokens. Raises `LoginFailedError`."""
        name, url = definition.name, definition.url
        if definition.kind not in ("http", "sse"):
            raise LoginFailedError("it is started by a command; only servers with an address log in")
        if self.is_under_way(name):
            raise LoginFailedError("a login to it is under way")
        self._pages[name] = None

        async def note(page: LoginPage) -> None:
            self._pages[name] = page
            await show(page)

        try:
            await self._library.client()
            flow = await asyncio.to_thread(_load_flow)
            before = await asyncio.to_thread(self._logins.find, name, url)
            scopes = before.scopes() if before is not None and before.wanted_scope else ()
            login = await flow.log_in(definition, self._environment, note, time.time, scopes=scopes)
            return await asyncio.to_thread(self._logins.save, name, login)
        except (LibraryError, LoginsError) as error:
            raise LoginFailedError(str(error)) from error
        finally:
            del self._pages[name]

    async def log_out(self, name: str) -> tuple[str, ...]:
        """Forget every login saved under a server's name; return their addresses. Raises
        `LoginFailedError`."""
        try:
            return await asyncio.to_thread(self._logins.forget, name)
        except LoginsError as error:
            raise LoginFailedError(str(error)) from error


def _load_flow() -> ModuleType:
    """Import the flow, which needs the protocol library."""
    from buddy.extend.mcp import login

    return login
