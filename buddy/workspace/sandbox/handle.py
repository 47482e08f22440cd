"""The handle of the session's sandbox, which is loaded and probed on first use.

Its code takes 30 ms to import, and a probe takes a trial; a start that runs no command needs neither.
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
        """Return the level in force."""
        ...

    async def ready(self) -> SandboxStatus:
        """Probe what works here."""
        ...

    async def survey(self, boundary: Boundary) -> None:
        """Survey the workspace."""
        ...

    async def check(self) -> None:
        """Check the protected names for changes by running commands."""
        ...

    def take_repairs(self) -> tuple[str, ...]:
        """Return, once, the sentences about restored names."""
        ...

    async def aclose(self) -> None:
        """Release everything."""
        ...


class SandboxHandle:
    """Makes the sandbox once. `cache` is a folder for the caches of build tools, `records` one where no
    command can write; `rules` is called for each command."""

    def __init__(self, rules: Callable[[], SandboxRules], *, cache: str, records: str) -> None:
        self._rules = rules
        self._cache = cache
        self._records = records
        self._sandbox: LoadedSandbox | None = None
        self._loading: asyncio.Task[LoadedSandbox] | None = None

    @property
    def status(self) -> SandboxStatus:
        """Return the level in force, as far as it is known."""
        if self._rules().is_off:
            return SandboxStatus(0, SWITCHED_OFF)
        return self._sandbox.status if self._sandbox else NO_SANDBOX

    async def ready(self) -> SandboxStatus:
        """Probe what works here."""
        return await (await self._load_once()).ready()

    async def survey(self, boundary: Boundary) -> SandboxStatus:
        """Prepare for a command in a workspace."""
        sandbox = await self._load_once()
        await sandbox.survey(boundary)
        return sandbox.status

    def confine(self, launch: Launch, confinement: Confinement, tag: Tag) -> ConfinedLaunch:
        """Put a command into the sandbox. Raises `ToolError` when that fails."""
        if self._sandbox is None or not self._sandbox.status.is_working:
            raise ToolError(f"there is no sandbox here ({self.status.reason}), and the command needs one")
        try:
            return self._sandbox.confine(launch, confinement, tag)
        except OSError as error:
            raise ToolError(f"the command could not be put into the sandbox: {error}") from error

    async def check(self) -> None:
        """Check the protected names for changes by running commands, before a program runs that acts on
        them."""
        if self._sandbox is not None:
            await self._sandbox.check()

    async def restore_left(self, root: str) -> tuple[str, ...]:
        """Restore protected names of a workspace that commands of a killed buddy changed; return a sentence
        for each."""
        records = records_of(self._records, root)
        if not records:
            return ()
        from buddy.workspace.sandbox.watch import (
            restore_left,  # imports the survey and git's data: rarely needed
        )

        return await asyncio.to_thread(restore_left, records)

    def take_repairs(self) -> tuple[str, ...]:
        """Return, once, a sentence for each protected name that was changed and restored."""
        return self._sandbox.take_repairs() if self._sandbox else ()

    async def aclose(self) -> None:
        """Release everything."""
        if self._loading is not None:
            await (await self._loading).aclose()

    async def _load_once(self) -> LoadedSandbox:
        if self._loading is None:
            self._loading = asyncio.ensure_future(asyncio.to_thread(self._load))
        loaded = await asyncio.shield(self._loading)
        self._sandbox = loaded
        return loaded

    def _load(self) -> LoadedSandbox:
        from buddy.workspace.sandbox.sandbox import Sandbox  # ctypes, the proxy, the tables: 30 ms

        return Sandbox(self._rules, cache=self._cache, records=self._records)
