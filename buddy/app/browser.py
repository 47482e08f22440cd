"""The person's browser, opened on a page."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from buddy.workspace.processes.launch import path_outside

OPEN_S = 10.0
_GRAPHICAL = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
_OPEN = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


def has_browser(environment: Mapping[str, str]) -> bool:
    """Tell whether a browser can show itself here."""
    return sys.platform != "linux" or any(environment.get(name) for name in _GRAPHICAL)


async def open_in_browser(url: str, environment: Mapping[str, str], workspace: str) -> bool:
    """Open a page and tell whether a browser took it. No program of the workspace is run for it."""
    outside = path_outside(environment.get("PATH", ""), workspace)
    # A process of its own, with no terminal: browsers and their wrappers print what they like.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", _OPEN, url),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        env={**environment, "PATH": outside},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(OPEN_S):
            return await process.wait() == 0
    except TimeoutError:  # it stays with the page
        return True
