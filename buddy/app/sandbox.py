"""The sandbox of a run, as its calls and its front ends meet it."""

from __future__ import annotations

import os

from buddy.agent.tool import Tool, ToolError
from buddy.app.launch import LaunchContext
from buddy.config.settings import Settings
from buddy.safety.paths import Boundary
from buddy.safety.policy.decide import Facts
from buddy.safety.policy.session import Policy
from buddy.safety.protected import moved_secrets
from buddy.safety.sandbox_openings import openings
from buddy.tasks.sandboxing import restore_note
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.sandbox.handle import SandboxHandle
from buddy.workspace.sandbox.profile import Confinement, SandboxRules
from buddy.workspace.sandbox.status import NO_SANDBOX, SandboxStatus


class RunSandbox:
    """Joins the sandbox, the settings, and what the person opened by rules and grants."""

    def __init__(self, launch: LaunchContext, settings: Settings, policy: Policy, approved: Approved) -> None:
        self._settings = settings.sandbox
        self._hidden = (*moved_secrets(launch.environment), *_key_files(settings, launch))
        self._approved = approved
        self._policy = policy
        self._boundary = launch.boundary
        self._permitted: dict[str, None] = {}
        self._left = 0
        cache = os.path.join(launch.where.cache, "sandbox", launch.boundary.root.strip("/").replace("/", "-"))
        records = os.path.join(launch.where.state, "sandbox")
        self.handle = SandboxHandle(self._rules, cache=cache, records=records)

    @property
    def status(self) -> SandboxStatus:
        """The level in force, as far as it is known by now."""
        return self.handle.status

    async def prepare(self, tool: Tool, boundary: Boundary) -> SandboxStatus:
        """Get ready for a call of this tool. Raises `ToolError` where a sandbox is demanded and missing."""
        if not tool.confined:
            return NO_SANDBOX
        status = await self.handle.look_around(boundary)
        if self._settings.level == "require" and not status.is_working:
            raise ToolError(f'[sandbox] level = "require", and there is no sandbox here: {status.reason}')
        return status

    def confine(self, call_id: str, confinement: Confinement | None) -> None:
        """Say how an allowed call is to be confined."""
        self._approved.confine(call_id, confinement)

    def confinement(self, call_id: str) -> Confinement | None:
        """Return how it is confined."""
        return self._approved.confinement(call_id)

    def note_allowed(self, call_id: str, facts: Facts) -> None:
        """Remember what an allowed call may change that sandboxed commands may not."""
        self._permitted.update(dict.fromkeys(path.real for path in facts.writes if path.protected))
        if facts.anything and self.confinement(call_id) is None:
            self._left += 1

    def take_repairs(self) -> tuple[str, ...]:
        """Return what was done about protected names that commands changed, a sentence each, once."""
        return self.handle.take_put_back()

    async def judge_left(self) -> tuple[str, ...]:
        """Put back what commands of a killed session did to protected names; return notes for the person."""
        told = await self.handle.judge_left(self._boundary.root)
        return tuple(f"in a session that was killed, {restore_note(one)}" for one in told)

    def _rules(self) -> SandboxRules:
        boundary, settings, policy = self._boundary, self._settings, self._policy
        rules = (*policy.rules.rules, *(grant.rule for grant in policy.grants))
        found = openings(rules, roots=(boundary.root,), home=boundary.home)
        return SandboxRules(
            is_off=settings.level == "off",
            writable=(*map(self._absolute, settings.write), *found.places),
            hosts=(*settings.hosts, *found.hosts),
            networks=settings.networks,
            hidden=self._hidden,
            permitted=tuple(self._permitted),
            left=self._left,
        )

    def _absolute(self, path: str) -> str:
        return os.path.join(self._boundary.home, path[2:]) if path.startswith("~/") else path


def _key_files(settings: Settings, launch: LaunchContext) -> tuple[str, ...]:
    """The files the profiles read their keys from."""
    named = (profile.api_key_file for profile in (settings.api, *settings.models.values()))
    return tuple(os.path.join(launch.boundary.cwd, os.path.expanduser(path)) for path in named if path)
