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
from buddy.workspace.processes.launch import Launch
from buddy.workspace.processes.pool import ConfinedLaunch, Sandboxing
from buddy.workspace.processes.process_tree import Tag
from buddy.workspace.sandbox.left_behind import records_of
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

    async def judge(self) -> None:
        """Look at what running commands did to protected names."""
        ...

    def take_put_back(self) -> tuple[str, ...]:
        """Return what was done about protected names, once."""
        ...

    async def aclose(self) -> None:
        """Let go of everything."""
        ...


class SandboxHandle:
    """Makes the sandbox once. `cache` is a folder for what build tools cache, `records` one where no command
    can write; `rules` is asked again for each command."""

    def __init__(self, rules: Callable[[], SandboxRules], *, cache: str, records: str) -> None:
        self._rules = rules
        self._cache = cache
        self._records = records
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

    async def judge(self) -> None:
        """Look at what running commands did to protected names: before a program runs that acts on them."""
        if self._sandbox is not None:
            await self._sandbox.judge()

    async def judge_left(self, root: str) -> tuple[str, ...]:
        """Put back what commands of a killed buddy did to protected names of a workspace; a sentence each."""
        found = records_of(self._records, root)
        if not found:
            return ()
        from buddy.workspace.sandbox.watch import judge_left  # the walk and git's data: hardly ever needed

        return await asyncio.to_thread(judge_left, found)

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

        return Sandbox(self._rules, cache=self._cache, records=self._records)
