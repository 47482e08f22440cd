"""The targets of a session as front ends see them; light, because every start imports it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from buddy.tasks.dependencies import Workspace


class TargetStanding(msgspec.Struct, frozen=True):
    """A target as people see it. `state` is closed, open or lost; `reason`: why its connection was lost or
    could not be opened."""

    name: str
    shown: str
    state: str
    reason: str


class SessionTargets(Protocol):
    """The targets of a session."""

    def workspace(self, name: str) -> Workspace:
        """Return the workspace on a target, not connected yet."""
        ...

    def standing(self, name: str) -> TargetStanding:
        """Return the state of a target. Raises `ToolError`."""
        ...

    def state(self, name: str) -> str:
        """Return the state of a target's connection."""
        ...

    async def connect(self, name: str) -> None:
        """Connect now, again after a loss. Raises `ToolError`."""
        ...

    async def close(self) -> None:
        """End every connection."""
        ...
