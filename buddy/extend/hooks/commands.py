"""Running a hook's command: JSON on stdin, output and stderr apart, ended as a whole at its time limit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import msgspec

from buddy.agent.tool import ToolError
from buddy.extend.hooks.answers import verdict_of_exit, verdict_without_answer
from buddy.extend.hooks.protocol import CommandHook, Hook, HookPoint, HookVerdict
from buddy.safety.paths import Boundary
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest
from buddy.workspace.sandbox.profile import Confinement
from buddy.workspace.sandbox.status import SandboxStatus

KEPT_BYTES = 256 * 1024
MOST_BYTES = 4_000_000
"""A hook that writes more is ended: it floods."""

SurveyWorkspace = Callable[[Boundary], Awaitable[SandboxStatus]]


class CommandRunner(msgspec.Struct, frozen=True):
    """Runs commands of hooks. `survey` gets the sandbox ready for a workspace; `required`: the person
    wants no confined command to run without one."""

    children: ChildProcesses
    survey: SurveyWorkspace
    required: bool = False

    async def run(
        self, hook: Hook, handler: CommandHook, point: HookPoint, text: bytes, cancelled: asyncio.Event
    ) -> HookVerdict:
        """Run a command hook. Raises `CancelledError` alone."""
        import tempfile  # here: 3 ms that only a hook needs

        try:
            confinement = await self._confinement(handler, point.boundary)
            with tempfile.TemporaryFile() as stdin:
                stdin.write(text)
                stdin.seek(0)
                request = CommandRequest(
                    shell_argv(handler.command),
                    point.boundary.cwd,
                    point.task_id,
                    env=_environment(handler, point.boundary),
                    confinement=confinement,
                    kept=False,
                    bounds=OutputBounds(KEPT_BYTES, KEPT_BYTES, MOST_BYTES),
                    stdin=stdin.fileno(),
                )
                done = await self.children.run_apart(request, timeout_s=hook.timeout_s, cancelled=cancelled)
        except (ToolError, OSError) as error:
            return verdict_without_answer(hook, f"it could not be started: {error}")
        if done.timed_out:
            return verdict_without_answer(hook, f"it was ended after {hook.timeout_s:g} s")
        if done.exit.stopped_for:
            return verdict_without_answer(hook, f"it was ended: {done.exit.stopped_for}")
        return verdict_of_exit(hook, done.exit.code, done.text, done.remarks)

    async def _confinement(self, handler: CommandHook, boundary: Boundary) -> Confinement | None:
        """Return the profile of a hook: it may change the workspace but what is protected there, and reaches
        no network. Raises `ToolError` where a sandbox is demanded and missing."""
        if not handler.confined:
            return None
        status = await self.survey(boundary)
        if status.is_working:
            return Confinement("workspace", boundary)
        if self.required:
            raise ToolError(f'[sandbox] level = "require", and there is no sandbox here: {status.reason}')
        return None


def _environment(handler: CommandHook, boundary: Boundary) -> dict[str, str]:
    root = boundary.main or boundary.root
    given = {"CLAUDE_PROJECT_DIR": root, "BUDDY_PROJECT_DIR": root}
    return {**given, **handler.environment, "PWD": os.path.abspath(boundary.cwd)}
