"""A login to an MCP server by the person at the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping

from buddy.app.browser import has_browser, open_in_browser
from buddy.extend.mcp.definitions import ServerDefinition
from buddy.extend.mcp.login import log_in
from buddy.extend.mcp.logins import Login, host_of
from buddy.extend.mcp.records import LoginPage
from buddy.safety.sanitise import visible


async def log_in_here(
    definition: ServerDefinition, environment: Mapping[str, str], scopes: tuple[str, ...], workspace: str
) -> Login:
    """Show where the login leads, open the browser when the person says so, and wait. `scopes` are rights to
    ask for besides; no program of `workspace` is run. Raises `LoginFailedError`."""
    opening: list[asyncio.Task[None]] = []

    async def show(page: LoginPage) -> None:
        server = host_of(definition.url)
        print(f"{visible(definition.name)} ({server}) wants a login at {page.host}:")  # noqa: T201 - the command's answer
        print(f"  {visible(page.url)}")  # noqa: T201 - the command's answer
        if not has_browser(environment):
            print("Open this address in a browser of this machine. Ctrl-C gives up.")  # noqa: T201 - the command's answer
            return
        print("Enter opens it in your browser; Ctrl-C gives up.", flush=True)  # noqa: T201 - the command's answer
        opening.append(asyncio.create_task(_open_on_enter(page.url, environment, workspace)))

    try:
        return await log_in(definition, environment, show, time.time, scopes=scopes)
    finally:
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)


async def _open_on_enter(url: str, environment: Mapping[str, str], workspace: str) -> None:
    """Wait for Enter, then open the browser. A thread that reads could not be left by Ctrl-C."""
    loop = asyncio.get_running_loop()
    entered = asyncio.Event()
    descriptor = sys.stdin.fileno()
    loop.add_reader(descriptor, entered.set)
    try:
        await entered.wait()
        typed = os.read(descriptor, 4096)
    finally:
        loop.remove_reader(descriptor)
    if typed and not await open_in_browser(url, environment, workspace):
        print("No browser could be opened: open the address yourself.")  # noqa: T201 - the command's answer
