"""Hooks of settings files: Claude's JSON, read from the person's folders, the project and plug-ins; and their
matchers, names separated by bars or a regular expression."""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.extend.hooks.protocol import (
    DEFAULT_TIMEOUT_S,
    EVENTS,
    SESSION_END_TIMEOUT_S,
    CommandHook,
    Hook,
    HookEvent,
    HookScope,
)
from buddy.safety.hook_scripts import hook_scripts, project_variables
from buddy.safety.trusted_files import hook_digest

MAX_MATCHER_CHARS = 500
_NAMES = pattern(r"[A-Za-z0-9_\-|, ]+")


class WrongMatcher(ValueError):
    """The matcher is no regular expression; the message says why."""


def matches(matcher: str, subjects: Sequence[str]) -> bool:
    """Tell whether a matcher means one of the subjects; an event without subjects is meant by every matcher.
    A wrong one matches nothing: whoever loads hooks has reported it."""
    if matcher in ("", "*") or not subjects:
        return True
    try:
        test = compile_matcher(matcher)
    except WrongMatcher:
        return False
    return any(map(test, subjects))


@functools.lru_cache(maxsize=256)
def compile_matcher(matcher: str) -> Callable[[str], bool]:
    """Return the test of a matcher. Raises `WrongMatcher`."""
    if len(matcher) > MAX_MATCHER_CHARS:
        raise WrongMatcher(f"a matcher has at most {MAX_MATCHER_CHARS} characters")
    if _NAMES().fullmatch(matcher):
        names = {name.strip() for name in matcher.replace(",", "|").split("|")}
        return lambda subject: subject in names
    try:
        search = linear_search(matcher)
    except re.error as error:
        raise WrongMatcher(f"the matcher {matcher!r} is no regular expression: {error}") from error
    return lambda subject: search(subject) is not None


def linear_search(matcher: str) -> Callable[[str], object]:
    """Return the search of RE2, which no pattern can make slow; of `re` where RE2 has no wheel. Raises
    `re.error`."""
    try:
        re2: Any = importlib.import_module("re2")  # here: only hooks with a pattern need it
    except ImportError:
        return re.compile(matcher).search
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(matcher, options).search
    except re2.error as error:
        raise re.error(_words(error)) from error


def _words(error: BaseException) -> str:
    first = error.args[0] if error.args else ""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)


LONGEST_TIMEOUT_S = 3600.0
MAX_DEFINITIONS = 200
MAX_COMMAND_CHARS = 20_000


class HookDefinition(msgspec.Struct, frozen=True):
    """One entry of a hooks file: the hook, or the reason why it is none. `digest` identifies what it does:
    trust in a project's hook is trust in this."""

    label: str
    source: str
    digest: str
    hook: Hook | None = None
    problem: str = ""


class HooksFile(msgspec.Struct, frozen=True):
    """File of hooks, and the rights they get: `confined` ones run in the sandbox,
    `accepted` are the digests of a plug-in's hooks as the person added them. Scripts beneath `folder` are a
    part of its hooks' digests; those beneath `workspace` may not change while a session runs."""

    path: str
    label: str
    scope: HookScope
    confined: bool
    environment: Mapping[str, str] = {}
    accepted: frozenset[str] = frozenset()
    folder: str = ""
    workspace: tuple[str, ...] = ()


def read_definitions(file: HooksFile, data: bytes) -> tuple[tuple[HookDefinition, ...], bool]:
    """Return the definitions of a file, malformed ones with their problem, and whether the file switches all
    hooks off (`disableAllHooks`)."""
    try:
        table: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return (HookDefinition("the whole file", file.label, "", problem=f"no valid JSON: {error}"),), False
    if not isinstance(table, dict):
        return (HookDefinition("the whole file", file.label, "", problem="expected a JSON object"),), False
    fields = cast(dict[str, Any], table)
    found = tuple(_definitions(file, fields.get("hooks", {})))
    more = len(found) - MAX_DEFINITIONS
    if more > 0:
        why = f"{more} more definitions than the {MAX_DEFINITIONS} that are read"
        found = (*found[:MAX_DEFINITIONS], HookDefinition("the rest", file.label, "", problem=why))
    return found, fields.get("disableAllHooks") is True


def _definitions(file: HooksFile, hooks: object) -> Iterator[HookDefinition]:
    if not isinstance(hooks, dict):
        yield HookDefinition("hooks", file.label, "", problem='expected "hooks": {EVENT: [...]}')
        return
    for event, groups in cast(dict[str, Any], hooks).items():
        if event not in EVENTS:
            yield HookDefinition(
                event[:40], file.label, "", problem=f"no event of buddy; there are {', '.join(EVENTS)}"
            )
            continue
        for group in cast(list[object], groups) if isinstance(groups, list) else [groups]:
            if not isinstance(group, dict):
                yield HookDefinition(event, file.label, "", problem='expected {"matcher": …, "hooks": […]}')
                continue
            yield from _group(file, event, cast(dict[str, Any], group))


def _group(file: HooksFile, event: HookEvent, group: Mapping[str, Any]) -> Iterator[HookDefinition]:
    matcher = group.get("matcher", "")
    handlers = group.get("hooks", [])
    if not isinstance(matcher, str) or not isinstance(handlers, list):
        yield HookDefinition(event, file.label, "", problem='expected a text as "matcher", a list as "hooks"')
        return
    try:
        if matcher not in ("", "*"):
            compile_matcher(matcher)
    except WrongMatcher as error:
        yield HookDefinition(f"{event} {matcher[:40]}", file.label, "", problem=str(error))
        return
    for entry in cast(list[object], handlers):
        fields = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
        yield _definition(file, event, matcher, fields)


def _definition(file: HooksFile, event: HookEvent, matcher: str, fields: Mapping[str, Any]) -> HookDefinition:
    label = f"{event} {matcher}".strip()
    command, timeout = fields.get("command"), fields.get("timeout")
    kind = fields.get("type", "command")
    variables = {**project_variables(file.workspace[0] if file.workspace else ""), **file.environment}
    scripts: dict[str, str] = {}
    if file.folder and isinstance(command, str):
        named = hook_scripts(command[:MAX_COMMAND_CHARS], (file.folder,), variables)
        top = os.path.realpath(file.folder)
        scripts = {os.path.relpath(path, top): content for path, content in named.items()}
    digest = hook_digest(event, matcher, fields, scripts)
    if kind != "command":
        why = f'hooks of type {str(kind)[:40]!r} are not supported; expected "command"'
        return HookDefinition(label, file.label, digest, problem=why)
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        return HookDefinition(label, file.label, digest, problem='expected a text as "command"')
    if len(command) > MAX_COMMAND_CHARS:
        return HookDefinition(
            label, file.label, digest, problem=f"its command is over {MAX_COMMAND_CHARS:,} characters"
        )
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0
    usual = SESSION_END_TIMEOUT_S if event == "SessionEnd" else DEFAULT_TIMEOUT_S
    seconds = min(float(cast(float, timeout)), LONGEST_TIMEOUT_S) if is_number else usual
    folders = (*([file.folder] if file.folder else []), *file.workspace)
    handler = CommandHook(
        command,
        file.environment,
        confined=file.confined,
        folders=folders,
        scripts=frozenset(hook_scripts(command, folders, variables).values()),
    )
    hook = Hook(event, handler, matcher, seconds, file.scope, file.label)
    return HookDefinition(label, file.label, digest, hook)
