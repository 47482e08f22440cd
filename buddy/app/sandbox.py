"""The sandbox of a run, for its calls and its front ends."""

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
    """The sandbox with the settings and with what the user opened by rules and grants."""

    def __init__(self, launch: LaunchContext, settings: Settings, policy: Policy, approved: Approved) -> None:
        self._settings = settings.sandbox
        self._hidden = (*moved_secrets(launch.environment), *_key_files(settings, launch))
        self._approved = approved
        self._policy = policy
        self._boundary = launch.boundary
        self._permitted: dict[str, None] = {}
        self._unconfined_calls = 0
        cache = os.path.join(launch.where.cache, "sandbox", launch.boundary.root.strip("/").replace("/", "-"))
        records = os.path.join(launch.where.state, "sandbox")
        self.handle = SandboxHandle(self._rules, cache=cache, records=records)

    @property
    def status(self) -> SandboxStatus:
        """Return the level in force, as far as it is known."""
        return self.handle.status

    async def prepare(self, tool: Tool, boundary: Boundary) -> SandboxStatus:
        """Prepare the sandbox for a call of this tool. Raises `ToolError` when a required sandbox is
        missing."""
        if not tool.confined:
            return NO_SANDBOX
        status = await self.handle.survey(boundary)
        if self._settings.level == "require" and not status.is_working:
            raise ToolError(f'[sandbox] level = "require", and there is no sandbox here: {status.reason}')
        return status

    def confine(self, call_id: str, confinement: Confinement | None) -> None:
        """Set the confinement of an allowed call."""
        self._approved.confine(call_id, confinement)

    def confinement(self, call_id: str) -> Confinement | None:
        """Return the confinement of a call."""
        return self._approved.confinement(call_id)

    def note_allowed(self, call_id: str, facts: Facts) -> None:
        """Remember which protected names an allowed call may change."""
        self._permitted.update(dict.fromkeys(path.real for path in facts.writes if path.protected))
        if facts.anything and self.confinement(call_id) is None:
            self._unconfined_calls += 1

    def take_repairs(self) -> tuple[str, ...]:
        """Return, once, a sentence for each protected name that a command changed and buddy restored."""
        return self.handle.take_repairs()

    async def restore_left(self) -> tuple[str, ...]:
        """Restore protected names that commands of a killed session changed; return notes for the user."""
        repairs = await self.handle.restore_left(self._boundary.root)
        return tuple(f"in a session that was killed, {restore_note(repair)}" for repair in repairs)

    def _rules(self) -> SandboxRules:
        boundary, settings, policy = self._boundary, self._settings, self._policy
        rules = (*policy.rules.rules, *(grant.rule for grant in policy.grants))
        opened = openings(rules, roots=(boundary.root,), home=boundary.home)
        return SandboxRules(
            is_off=settings.level == "off",
            writable=(*map(self._absolute, settings.write), *opened.places),
            hosts=(*settings.hosts, *opened.hosts),
            networks=settings.networks,
            hidden=self._hidden,
            permitted=tuple(self._permitted),
            unconfined_calls=self._unconfined_calls,
        )

    def _absolute(self, path: str) -> str:
        return os.path.join(self._boundary.home, path[2:]) if path.startswith("~/") else path


def _key_files(settings: Settings, launch: LaunchContext) -> tuple[str, ...]:
    """Return the files that the profiles read their keys from."""
    paths = (profile.api_key_file for profile in (settings.api, *settings.models.values()))
    return tuple(os.path.join(launch.boundary.cwd, os.path.expanduser(path)) for path in paths if path)
