"""The page of a session that a terminal or an editor has open: `/serve`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from buddy.app.session import Session
from buddy.repl.commands.registry import CommandError


class SessionPage:
    """The page of one session, served on demand by the process that writes the session. `warn` takes
    sentences for the user."""

    def __init__(self, session: Session, warn: Callable[[str], None]) -> None:
        self._session = session
        self._warn = warn
        self._address = ""
        self._stack = contextlib.AsyncExitStack()

    async def start(self, port: int) -> str:
        """Serve the session and return the address; 0 is a free port. The address of a running page stays.
        Raises `CommandError`."""
        if self._address:
            return self._address
        await asyncio.to_thread(_load_server)  # 80 ms, in which keys would wait
        from buddy.headless.serve.server import AddressError, listen_on_port, serve_page  # only with /serve

        try:
            listener = listen_on_port(port)
        except AddressError as error:
            raise CommandError(str(error)) from error
        address = await self._stack.enter_async_context(serve_page(self._session, listener, self._warn))
        self._address = address.text()
        return self._address

    async def stop(self) -> bool:
        """Stop serving; False when nothing was served."""
        was_served, self._address = bool(self._address), ""
        await self._stack.aclose()
        return was_served


def _load_server() -> None:
    from buddy.headless.serve.server import serve_page  # starlette and uvicorn, only with /serve

    del serve_page
