"""The hook points of a session: events, handlers, and the merged answer that turns act on.

There are two kinds of handlers. A `CommandHook` is a shell command of a settings file, a `CallbackHook` a
function of this process, such as a program that drives buddy through the Agent SDK. Both get the same JSON
object and answer with the same fields, so turns do not know which kind they called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, get_args

import msgspec

from buddy.safety.paths import Boundary

HookEvent = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "Notification",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
]
EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)
HookScope = Literal["user", "project", "plug-in", "callback"]
DEFAULT_TIMEOUT_S = 60.0
SESSION_END_TIMEOUT_S = 5.0
"""Without a timeout of its own, a hook must not keep the person waiting who leaves."""

Callback = Callable[[Mapping[str, Any], str], Awaitable[Mapping[str, Any]]]
"""Gets the input object and the id of the call ("" outside of calls); returns the output object."""


class CommandHook(msgspec.Struct, frozen=True):
    """A shell command. `environment` is added to that of other child processes; `confined`: it runs in the
    sandbox, where there is one."""

    command: str
    environment: Mapping[str, str] = {}
    confined: bool = True


class CallbackHook(msgspec.Struct, frozen=True):
    """A function of this process."""

    function: Callback


class Hook(msgspec.Struct, frozen=True):
    """One handler for one event. `matcher` is compared with the subject of an event (a tool's name, say);
    "" and "*" match every subject. `source` is where it was defined, for the person."""

    event: HookEvent
    handler: CommandHook | CallbackHook
    matcher: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S
    scope: HookScope = "user"
    source: str = ""

    @property
    def title(self) -> str:
        """Return the handler in one line."""
        return self.handler.command if isinstance(self.handler, CommandHook) else "callback"


class HookPoint(msgspec.Struct, frozen=True):
    """An event as it happens. `subjects` are the names a matcher may mean; `fields` the event's own part of
    the input object; `boundary` and `task_id` say where a command runs, and for which task."""

    event: HookEvent
    fields: Mapping[str, Any]
    boundary: Boundary
    subjects: tuple[str, ...] = ()
    task_id: int = 0
    call_id: str = ""


class HookVerdict(msgspec.Struct, frozen=True):
    """The merged answer of all handlers of an event; the strictest decision wins.

    `decision` "deny" blocks what the event is about, "ask" wants the person asked; "" leaves it as it is. No
    handler can allow anything. `updated_input` replaces the arguments of a call, which the policy judges
    afterwards. `context` is text for the model, `messages` are sentences for the person. `stops`: the turn
    ends, for `stop_reason`.
    """

    decision: Literal["", "ask", "deny"] = ""
    reason: str = ""
    updated_input: Mapping[str, Any] | None = None
    context: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    stops: bool = False
    stop_reason: str = ""


NO_VERDICT = HookVerdict()


class HookDispatcher(Protocol):
    """The hooks of a session, as turns and approvals use them."""

    def handles(self, event: HookEvent) -> bool:
        """Tell whether any hook exists for an event. Cheap: asked at every point of every turn."""
        ...

    def take_session_start(self) -> bool:
        """Return True once: the hooks of SessionStart have not run in this session."""
        ...

    async def dispatch(self, point: HookPoint, cancelled: asyncio.Event) -> HookVerdict:
        """Run the matching hooks in parallel and merge their answers. Never raises but when cancelled."""
        ...


class HookRegistration(Protocol):
    """The part of a session's hooks by which callbacks are added."""

    def add(self, hook: Hook) -> Callable[[], None]:
        """Add a hook; calling the result removes it."""
        ...
