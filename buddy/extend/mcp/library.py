"""The protocol library's import: half a second and 55 MB, so it happens in a thread, once, and only when a
server is to be connected."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import Future
from types import ModuleType

from buddy.agent.interpreter import giving_way


class LibraryError(Exception):
    """The library could not be imported; one sentence."""


class McpLibrary:
    """The module `buddy.extend.mcp.client`, or the promise of it."""

    def __init__(self) -> None:
        self._future: Future[ModuleType] | None = None

    async def client(self) -> ModuleType:
        """Return the module, waiting for its import. Raises `LibraryError`."""
        if self._future is None:
            self._future = Future()
            # A daemon: a person who leaves does not wait for an import.
            threading.Thread(target=_run, args=(self._future,), name="import-mcp", daemon=True).start()
        # Shielded: a connection that is given up must not cancel the import that the others wait for.
        return await asyncio.shield(asyncio.wrap_future(self._future))


def _run(future: Future[ModuleType]) -> None:
    # Collections during the import stall the event loop; afterwards nothing of it is ever garbage.
    gc.disable()
    try:
        with giving_way():
            from buddy.extend.mcp import client
    except Exception as error:  # noqa: BLE001 - whatever an import raises belongs to whoever awaits it
        broken = LibraryError(f"the mcp package could not be imported ({error}); reinstall buddy-repl")
        broken.__cause__ = error
        future.set_exception(broken)
        return
    finally:
        gc.enable()
    gc.freeze()
    future.set_result(client)
