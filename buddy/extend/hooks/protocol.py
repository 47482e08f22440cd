"""The hook points of a session: events, handlers, their answers, and the merged answer that turns act on.

There are two kinds of handlers. A `CommandHook` is a shell command of a settings file, a `CallbackHook` a
function of this process, such as a program that drives buddy through the Agent SDK. Both get the same JSON
object and answer with the same fields, so turns do not know which kind they called. Everything in an answer
is untrusted text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, cast, get_args

import msgspec

from buddy.agent.formatting import keep_ends
from buddy.agent.tool import Blocked
from buddy.safety.paths import Boundary
from buddy.safety.sanitise import clean, one_line

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
    sandbox, where there is one. `scripts` are digests of the files in `folders` and the workspace that it
    named when it was accepted: it does not run others."""

    command: str
    environment: Mapping[str, str] = {}
    confined: bool = True
    folders: tuple[str, ...] = ()
    scripts: frozenset[str] = frozenset()


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


MAX_CONTEXT_CHARS = 10_000
MAX_SENTENCE_CHARS = 500
MAX_INPUT_BYTES = 1_000_000
TEXT_IS_CONTEXT: frozenset[HookEvent] = frozenset({"SessionStart", "UserPromptSubmit", "SubagentStart"})
"""Events whose plain output is for the model, as people's hooks expect; elsewhere tools print progress."""
ASKS_WITHOUT_ANSWER: frozenset[HookEvent] = frozenset({"PreToolUse", "PermissionRequest"})
"""Events whose hook guards something: without its answer the person decides."""
BLOCKING: frozenset[HookEvent] = frozenset(
    {
        *("UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"),
        *("Stop", "SubagentStop", "PreCompact"),
    }
)


def verdict_of_exit(hook: Hook, code: int | None, output: str, errors: str) -> HookVerdict:
    """Return the verdict of a command that ended by itself: 0 with JSON or text, 2 to block, else a
    warning."""
    if code == 0:
        return verdict_of_output(hook, output)
    words = context_text(errors)
    if code == 2:
        if hook.event in BLOCKING:
            return HookVerdict(decision="deny", reason=words or f"the hook {_name(hook)} blocked it")
        return HookVerdict(messages=(_warning(hook, words or "it wanted to block, which it can't here"),))
    ending = f"exit code {code}" if code is not None else "ended by a signal"
    return HookVerdict(messages=(_warning(hook, f"{ending}{': ' + words if words else ''}"),))


def note_blocked(hook: Hook, verdict: HookVerdict, blocked: Blocked) -> HookVerdict:
    """Add a warning that names what the sandbox refused a command that failed."""
    if not blocked:
        return verdict
    first, *others = (*blocked.hosts, *blocked.paths, *blocked.addresses)
    more = f" and {len(others)} more" if others else ""
    words = f"the sandbox blocked {first}{more}; a rule can open it for your own hooks (/help hooks)"
    return msgspec.structs.replace(verdict, messages=(*verdict.messages, _warning(hook, words)))


def verdict_of_output(hook: Hook, output: str) -> HookVerdict:
    """Return the verdict of the output of a command that succeeded."""
    text = output.strip()
    if not text.startswith("{"):
        words = context_text(text)
        return HookVerdict(context=(words,)) if words and hook.event in TEXT_IS_CONTEXT else NO_VERDICT
    try:
        fields: object = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return HookVerdict(messages=(_warning(hook, f"its output is no valid JSON: {error}"),))
    if not isinstance(fields, dict):
        return NO_VERDICT
    return verdict_of_fields(hook, cast(dict[str, Any], fields))


def verdict_of_fields(hook: Hook, fields: Mapping[str, Any]) -> HookVerdict:
    """Return the verdict of an output object. A field of another type than expected counts as missing."""
    nested = fields.get("hookSpecificOutput")
    own: Mapping[str, Any] = cast(dict[str, Any], nested) if isinstance(nested, dict) else {}
    message = _sentence(fields.get("systemMessage"))
    stops = fields.get("continue") is False
    decision, reason = _decision(hook, fields, own)
    context = context_text(_text(own.get("additionalContext")) or _text(fields.get("additionalContext")))
    changed = _changed_input(hook, own)
    problem = () if changed is not _TOO_LONG else (_warning(hook, "updatedInput is too long; ignored"),)
    return HookVerdict(
        decision=decision,
        reason=reason,
        updated_input=None if changed is _TOO_LONG else changed,
        context=(context,) if context else (),
        messages=(*((message,) if message else ()), *problem),
        stops=stops,
        stop_reason=_sentence(fields.get("stopReason")) if stops else "",
    )


def verdict_without_answer(hook: Hook, why: str) -> HookVerdict:
    """Return the verdict of a hook that gave no answer: it timed out, or could not be started."""
    if hook.event in ASKS_WITHOUT_ANSWER:
        return HookVerdict(decision="ask", reason=f"the hook {_name(hook)} gave no answer ({why})")
    return HookVerdict(messages=(_warning(hook, why),))


def merge_verdicts(verdicts: Iterable[HookVerdict]) -> HookVerdict:
    """Merge the verdicts of one event, in the order of the hooks. Deny beats ask; of several updated inputs
    the last counts."""
    given = [verdict for verdict in verdicts if verdict != NO_VERDICT]
    if len(given) < 2:
        return given[0] if given else NO_VERDICT
    words = [one.decision for one in given]
    decision = "deny" if "deny" in words else "ask" if "ask" in words else ""
    reasons = [one.reason for one in given if decision and one.decision == decision and one.reason]
    inputs = [one.updated_input for one in given if one.updated_input is not None]
    return HookVerdict(
        decision=decision,
        reason="; ".join(dict.fromkeys(reasons)),
        updated_input=inputs[-1] if inputs else None,
        context=tuple(text for one in given for text in one.context),
        messages=tuple(text for one in given for text in one.messages),
        stops=any(one.stops for one in given),
        stop_reason=next((one.stop_reason for one in given if one.stops and one.stop_reason), ""),
    )


def context_text(text: str) -> str:
    """Return text of a hook as the model may read it: no control characters, bounded."""
    return keep_ends(clean(text).strip(), MAX_CONTEXT_CHARS)


def _decision(hook: Hook, fields: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the decision and its reason. What would allow something is left out: a hook only tightens."""
    reason = context_text(_text(fields.get("reason")))
    if hook.event == "PreToolUse":
        word = own.get("permissionDecision", fields.get("decision"))
        reason = context_text(_text(own.get("permissionDecisionReason"))) or reason
        decision = {"deny": "deny", "block": "deny", "ask": "ask"}.get(_text(word), "")
    elif hook.event == "PermissionRequest":
        nested = own.get("decision")
        answer = cast(dict[str, Any], nested) if isinstance(nested, dict) else {}
        word = answer.get("behavior", fields.get("decision"))
        reason = context_text(_text(answer.get("message"))) or reason
        decision = "deny" if word in ("deny", "block") else ""
    else:
        blocks = fields.get("decision") == "block" and hook.event in BLOCKING
        decision = "deny" if blocks else ""
    if not decision:
        return "", ""
    return decision, reason or f"the hook {_name(hook)} gave no reason"


_TOO_LONG: Mapping[str, Any] = {"too": "long"}


def _changed_input(hook: Hook, own: Mapping[str, Any]) -> Mapping[str, Any] | None:
    changed = own.get("updatedInput")
    if hook.event != "PreToolUse" or not isinstance(changed, dict):
        return None
    arguments = cast(dict[str, Any], changed)
    return arguments if len(msgspec.json.encode(arguments)) <= MAX_INPUT_BYTES else _TOO_LONG


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _sentence(value: object) -> str:
    return one_line(clean(_text(value)), MAX_SENTENCE_CHARS)


def _warning(hook: Hook, words: str) -> str:
    return one_line(f"{hook.event} hook {_name(hook)}: {words}", MAX_SENTENCE_CHARS)


def _name(hook: Hook) -> str:
    where = f" ({one_line(clean(hook.source), 120)})" if hook.source else ""
    return f"{one_line(clean(hook.title), 80)}{where}"
