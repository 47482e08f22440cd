"""A login to an MCP server by the person at the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import webbrowser
from collections.abc import Mapping
from urllib.parse import urlsplit

from buddy.extend.mcp.definitions import ServerDefinition
from buddy.extend.mcp.login import LoginPage, log_in
from buddy.extend.mcp.logins import Login
from buddy.safety.sanitise import visible

_GRAPHICAL = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


async def log_in_here(
    definition: ServerDefinition, environment: Mapping[str, str], scopes: tuple[str, ...]
) -> Login:
    """Show where the login leads, open the browser when the person says so, and wait. `scopes` are rights to
    ask for besides. Raises `LoginFailedError`."""
    opening: list[asyncio.Task[None]] = []

    async def show(page: LoginPage) -> None:
        server = visible(urlsplit(definition.url).netloc.rpartition("@")[2])
        print(f"{visible(definition.name)} ({server}) wants a login at {page.host}:")  # noqa: T201 - the command's answer
        print(f"  {visible(page.url)}")  # noqa: T201 - the command's answer
        if sys.platform == "linux" and not any(environment.get(name) for name in _GRAPHICAL):
            print("Open this address in a browser of this machine. Ctrl-C gives up.")  # noqa: T201 - the command's answer
            return
        print("Enter opens it in your browser; Ctrl-C gives up.", flush=True)  # noqa: T201 - the command's answer
        opening.append(asyncio.create_task(_open_on_enter(page.url)))

    try:
        return await log_in(definition, environment, show, time.time, scopes=scopes)
    finally:
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)


async def _open_on_enter(url: str) -> None:
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
    if typed and not await asyncio.to_thread(webbrowser.open, url):
        print("No browser could be opened: open the address yourself.")  # noqa: T201 - the command's answer
