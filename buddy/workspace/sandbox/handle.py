"""The session's sandbox as everybody holds it: loaded and looked for when it is first needed.

The code behind it costs 30 ms to import, and finding out what works here costs a trial; a start that runs no
command pays for neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from buddy.agent.tool import ToolError
from buddy.safety.paths import Boundary
from buddy.workspace.launch import Launch
from buddy.workspace.process_tree import Tag
from buddy.workspace.processes import ConfinedLaunch, Sandboxing
from buddy.workspace.sandbox.profile import Confinement, SandboxRules
from buddy.workspace.sandbox.status import NO_SANDBOX, SWITCHED_OFF, SandboxStatus


class LoadedSandbox(Sandboxing, Protocol):
    """Interface of `buddy.workspace.sandbox.sandbox.Sandbox`."""

    @property
    def status(self) -> SandboxStatus:
        """The level in force."""
        ...

    async def ready(self) -> SandboxStatus:
        """Find out what works here."""
        ...

    async def look_around(self, boundary: Boundary) -> None:
        """Walk the workspace."""
        ...

    def take_put_back(self) -> tuple[str, ...]:
        """Return what was done about protected names, once."""
        ...

    async def aclose(self) -> None:
        """Let go of everything."""
        ...


class SandboxHandle:
    """Makes the sandbox once. `cache` is a folder for what build tools cache; `rules` is asked again for each
    command."""

    def __init__(self, rules: Callable[[], SandboxRules], cache: str) -> None:
        self._rules = rules
        self._cache = cache
        self._sandbox: LoadedSandbox | None = None
        self._loading: asyncio.Task[LoadedSandbox] | None = None

    @property
    def status(self) -> SandboxStatus:
        """The level in force, as far as it is known by now."""
        if self._rules().is_off:
            return SandboxStatus(0, SWITCHED_OFF)
        return self._sandbox.status if self._sandbox else NO_SANDBOX

    async def ready(self) -> SandboxStatus:
        """Find out what works here."""
        return await (await self._loaded()).ready()

    async def look_around(self, boundary: Boundary) -> SandboxStatus:
        """Get ready for a command in a workspace."""
        sandbox = await self._loaded()
        await sandbox.look_around(boundary)
        return sandbox.status

    def confine(self, launch: Launch, confinement: Confinement, tag: Tag) -> ConfinedLaunch:
        """Put a command into the sandbox. Raises `ToolError` where that can't be done."""
        if self._sandbox is None or not self._sandbox.status.is_working:
            raise ToolError(f"there is no sandbox here ({self.status.reason}), and the command needs one")
        try:
            return self._sandbox.confine(launch, confinement, tag)
        except OSError as error:
            raise ToolError(f"the command could not be put into the sandbox: {error}") from error

    def take_put_back(self) -> tuple[str, ...]:
        """Return what was done about protected names that commands changed, a sentence each, once."""
        return self._sandbox.take_put_back() if self._sandbox else ()

    async def aclose(self) -> None:
        """Let go of everything."""
        if self._loading is not None:
            await (await self._loading).aclose()

    async def _loaded(self) -> LoadedSandbox:
        if self._loading is None:
            self._loading = asyncio.ensure_future(asyncio.to_thread(self._load))
        loaded = await asyncio.shield(self._loading)
        self._sandbox = loaded
        return loaded

    def _load(self) -> LoadedSandbox:
        from buddy.workspace.sandbox.sandbox import Sandbox  # ctypes, the proxy, the tables: see above

        return Sandbox(self._rules, cache=self._cache)
