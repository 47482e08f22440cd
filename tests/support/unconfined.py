"""Tasks without a sandbox, for programs whose tests are about something else."""

from __future__ import annotations

from buddy.agent.tool import Tool
from buddy.safety.paths import Boundary
from buddy.safety.policy.decide import Facts
from buddy.workspace.sandbox.profile import Confinement
from buddy.workspace.sandbox.status import NO_SANDBOX, SandboxStatus


class Unconfined:
    """A run without a sandbox: nothing is looked for, and no call is confined."""

    async def prepare(self, tool: Tool, boundary: Boundary) -> SandboxStatus:
        """Say that there is none."""
        return NO_SANDBOX

    def confine(self, call_id: str, confinement: Confinement | None) -> None:
        """Ignore how a call would be confined."""

    def confinement(self, call_id: str) -> Confinement | None:
        """Return that it is not."""
        return None

    def note_allowed(self, call_id: str, facts: Facts) -> None:
        """Ignore it: no command is confined."""

    def take_repairs(self) -> tuple[str, ...]:
        """Return nothing: no command is watched."""
        return ()
