"""Hooks of the program that drives buddy: callbacks it registers when it initializes, called over the control
channel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from buddy.extend.hooks.files import WrongMatcher, compile_matcher
from buddy.extend.hooks.protocol import (
    BLOCKING,
    DEFAULT_TIMEOUT_S,
    EVENTS,
    Callback,
    CallbackHook,
    Hook,
    HookEvent,
)
from buddy.headless.control import ControlChannel, ProgramGoneError, RequestRefusedError
from buddy.headless.input_lines import InputError, as_object

LONGEST_TIMEOUT_S = 24 * 3600.0
MAX_CALLBACKS = 500


def read_hooks(given: object, channel: ControlChannel) -> list[Hook]:
    """Return the hooks of an `initialize` request. Raises `InputError`: a guard is never left out."""
    hooks: list[Hook] = []
    for event, matchers in as_object(given or {}).items():
        if event not in EVENTS:
            raise InputError(f"hooks: there is no event {event[:60]!r}; expected one of {', '.join(EVENTS)}")
        for entry in map(as_object, _list(matchers, event)):
            hooks += _hooks_of(event, entry, channel)
    if len(hooks) > MAX_CALLBACKS:
        raise InputError(f"hooks: expected at most {MAX_CALLBACKS} callbacks, found {len(hooks)}")
    return hooks


def _hooks_of(event: HookEvent, entry: Mapping[str, Any], channel: ControlChannel) -> list[Hook]:
    matcher = entry.get("matcher") or ""
    if not isinstance(matcher, str):
        raise InputError(f"hooks: expected text as matcher of {event}")
    try:
        if matcher not in ("", "*"):
            compile_matcher(matcher)
    except WrongMatcher as error:
        raise InputError(f"hooks: {event}: {error}") from error
    timeout_s = entry.get("timeout", DEFAULT_TIMEOUT_S)
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s <= LONGEST_TIMEOUT_S:
        raise InputError(f"hooks: {event}: expected seconds above 0 as timeout, found {timeout_s!r}")
    blocks = entry.get("onFailure", "continue") != "continue"
    return [
        Hook(
            event,
            CallbackHook(_callback(str(callback_id), event, channel, timeout_s if blocks else 0.0)),
            matcher=matcher,
            # A callback that blocks on failure keeps the time itself, to answer with a denial.
            timeout_s=timeout_s + 5 if blocks else timeout_s,
            scope="callback",
            source="the program",
        )
        for callback_id in _list(entry.get("hookCallbackIds"), event)
    ]


def _callback(callback_id: str, event: HookEvent, channel: ControlChannel, blocks_after_s: float) -> Callback:
    async def call(fields: Mapping[str, Any], call_id: str) -> Mapping[str, Any]:
        request = {
            "subtype": "hook_callback",
            "callback_id": callback_id,
            "input": msgspec.to_builtins(fields),
            "tool_use_id": call_id or None,
        }
        if not blocks_after_s or event not in BLOCKING:
            return await channel.ask(request)
        try:
            async with asyncio.timeout(blocks_after_s):
                return await channel.ask(request)
        except TimeoutError:
            return _block(event, f"a hook of the program gave no answer within {blocks_after_s:g} s")
        except (ProgramGoneError, RequestRefusedError) as error:
            return _block(event, f"a hook of the program failed: {error}")

    return call


def _block(event: HookEvent, reason: str) -> dict[str, Any]:
    match event:
        case "PreToolUse":
            own = {"permissionDecision": "deny", "permissionDecisionReason": reason}
        case "PermissionRequest":
            own = {"decision": {"behavior": "deny", "message": reason}}
        case _:
            return {"decision": "block", "reason": reason}
    return {"hookSpecificOutput": {"hookEventName": event, **own}}


def _list(value: object, event: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"hooks: expected a list for {event}, found {type(value).__name__}")
    return cast("list[Any]", value)
