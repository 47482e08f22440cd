"""The hooks of a session: which match an event, run in parallel, merged into one verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from buddy.extend.hooks.answers import merge_verdicts, verdict_of_fields, verdict_without_answer
from buddy.extend.hooks.commands import CommandRunner
from buddy.extend.hooks.matchers import matches
from buddy.extend.hooks.protocol import (
    NO_VERDICT,
    CallbackHook,
    CommandHook,
    Hook,
    HookEvent,
    HookPoint,
    HookVerdict,
)

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
