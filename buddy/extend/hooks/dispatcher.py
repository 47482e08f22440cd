"""The hooks of a session: which match an event, run in parallel, merged into one verdict. A hook's command
gets JSON on stdin and ends as a whole at its time limit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from buddy.agent.tool import ToolError
from buddy.extend.hooks.files import matches
from buddy.extend.hooks.protocol import (
    NO_VERDICT,
    CallbackHook,
    CommandHook,
    Hook,
    HookEvent,
    HookPoint,
    HookVerdict,
    merge_verdicts,
    note_blocked,
    verdict_of_exit,
    verdict_of_fields,
    verdict_without_answer,
)
from buddy.safety.hook_scripts import hook_scripts, project_variables
from buddy.safety.paths import Boundary
from buddy.safety.project_code import runs_project_code
from buddy.safety.sanitise import visible
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest
from buddy.workspace.sandbox.profile import Confinement
from buddy.workspace.sandbox.status import SandboxStatus

KEPT_BYTES = 256 * 1024
MOST_BYTES = 4_000_000
"""A hook that writes more is ended: it floods."""

SurveyWorkspace = Callable[[Boundary], Awaitable[SandboxStatus]]


CommandOpening = Literal["", "network", "outside"]


def _opens_nothing(_command: str, _boundary: Boundary) -> CommandOpening:
    return ""


class CommandRunner(msgspec.Struct, frozen=True):
    """Runs commands of hooks. `survey` gets the sandbox ready for a workspace; `required`: the person
    wants no confined command to run without one; `opening_of` tells what the person's rules open for a
    command."""

    children: ChildProcesses
    survey: SurveyWorkspace
    required: bool = False
    opening_of: Callable[[str, Boundary], CommandOpening] = _opens_nothing

    async def run(
        self, hook: Hook, handler: CommandHook, point: HookPoint, text: bytes, cancelled: asyncio.Event
    ) -> HookVerdict:
        """Run a command hook. Raises `CancelledError` alone."""
        import tempfile  # here: 3 ms that only a hook needs

        changed = await asyncio.to_thread(_changed_script, handler, point.boundary)
        if changed:
            why = f"{changed} is not as it was when this hook was accepted; /trust or a new start accepts it"
            return verdict_without_answer(hook, why)
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
        verdict = verdict_of_exit(hook, done.exit.code, done.text, done.remarks)
        return note_blocked(hook, verdict, done.blocked) if done.exit.code else verdict

    async def _confinement(self, handler: CommandHook, boundary: Boundary) -> Confinement | None:
        """Return the profile of a hook: it may change the workspace but what is protected there, and reaches
        no network. The person's own hooks have it when they run the project's code, which the model may have
        changed a moment ago, unless a rule of theirs opens it. Raises `ToolError` where a sandbox is demanded
        and missing."""
        opening: CommandOpening = ""
        if not handler.confined:
            if not runs_project_code(handler.command, (boundary.cwd, boundary.root)):
                return None
            opening = await asyncio.to_thread(self.opening_of, handler.command, boundary)
        if opening == "outside":
            return None
        status = await self.survey(boundary)
        if status.is_working:
            return Confinement("workspace", boundary, ("*",) if opening == "network" else ())
        if self.required:
            raise ToolError(f'[sandbox] level = "require", and there is no sandbox here: {status.reason}')
        return None


def _environment(handler: CommandHook, boundary: Boundary) -> dict[str, str]:
    root = boundary.main or boundary.root
    return {**project_variables(root), **handler.environment, "PWD": os.path.abspath(boundary.cwd)}


def _changed_script(handler: CommandHook, boundary: Boundary) -> str:
    """Return a script the command names now whose content was not there when it was accepted, "" for none."""
    folders = (boundary.cwd, boundary.root, *handler.folders)
    named = hook_scripts(handler.command, folders, _environment(handler, boundary))
    changed = (path for path, content in named.items() if not content or content not in handler.scripts)
    path = next(changed, "")
    return visible(os.path.relpath(path, boundary.root)) if path else ""


MAX_HOOKS = 100
"""Of one event; more are not run."""
MAX_TOGETHER = 16


class Hooks:
    """The one owner of a session's hooks. `runner` runs commands; `common` gives the fields of every input
    object (session id, transcript, permission mode)."""

    def __init__(self, runner: Callable[[], CommandRunner], common: Callable[[], Mapping[str, Any]]) -> None:
        self._runner = runner
        self._common = common
        self._files: tuple[Hook, ...] = ()
        self._callbacks: list[Hook] = []
        self._has_started = False
        self._events: frozenset[HookEvent] = frozenset()

    def replace_files(self, hooks: Iterable[Hook]) -> None:
        """Put the hooks of the settings files in force, instead of those before."""
        self._files = tuple(hooks)
        self._count()

    def add(self, hook: Hook) -> Callable[[], None]:
        """Add a hook; calling the result removes it."""
        self._callbacks.append(hook)
        self._count()

        def remove() -> None:
            if hook in self._callbacks:
                self._callbacks.remove(hook)
                self._count()

        return remove

    def all(self) -> tuple[Hook, ...]:
        """Return the hooks in force, those of files first."""
        return (*self._files, *self._callbacks)

    def handles(self, event: HookEvent) -> bool:
        """Tell whether any hook exists for an event."""
        return event in self._events

    def take_session_start(self) -> bool:
        """Return True once: the hooks of SessionStart have not run in this session."""
        is_first, self._has_started = not self._has_started, True
        return is_first

    async def dispatch(self, point: HookPoint, cancelled: asyncio.Event) -> HookVerdict:
        """Run the matching hooks in parallel and merge their answers. Raises `CancelledError` alone."""
        hooks = [
            hook for hook in self.all() if hook.event == point.event and matches(hook.matcher, point.subjects)
        ]
        if not hooks:
            return NO_VERDICT
        fields = {
            **self._common(),
            "cwd": point.boundary.cwd,
            "hook_event_name": point.event,
            **point.fields,
        }
        if point.call_id:
            fields["tool_use_id"] = point.call_id
        places = asyncio.Semaphore(MAX_TOGETHER)

        async def run(hook: Hook) -> HookVerdict:
            async with places:
                return await self._run(hook, point, fields, cancelled)

        jobs = [asyncio.ensure_future(run(hook)) for hook in _without_twins(hooks)[:MAX_HOOKS]]
        try:
            return merge_verdicts(await asyncio.gather(*jobs))
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.wait(jobs)  # a command that is ended is dead before anybody goes on

    async def _run(
        self, hook: Hook, point: HookPoint, fields: Mapping[str, Any], cancelled: asyncio.Event
    ) -> HookVerdict:
        match hook.handler:
            case CommandHook() as handler:
                text = msgspec.json.encode(fields)
                return await self._runner().run(hook, handler, point, text, cancelled)
            case CallbackHook(function):
                try:
                    async with asyncio.timeout(hook.timeout_s):
                        answer = await function(fields, point.call_id)
                except TimeoutError:
                    return verdict_without_answer(hook, f"no answer within {hook.timeout_s:g} s")
                # The border of a callback: it is a program's own code, and only this hook fails.
                except Exception as error:  # noqa: BLE001 - see above
                    return verdict_without_answer(hook, f"{type(error).__name__}: {error}")
                return verdict_of_fields(hook, answer)

    def _count(self) -> None:
        self._events = frozenset(hook.event for hook in self.all())


def _without_twins(hooks: Iterable[Hook]) -> list[Hook]:
    """Return the hooks without commands that stand in several files: each runs once."""
    found: list[Hook] = []
    seen: set[tuple[object, ...]] = set()
    for hook in hooks:
        if isinstance(hook.handler, CommandHook):
            key = (hook.handler.command, *sorted(hook.handler.environment.items()))
            if key in seen:
                continue
            seen.add(key)
        found.append(hook)
    return found
