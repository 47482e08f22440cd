"""Claude-style permission entries (`Bash(git log:*)`, `Edit(src/**)`, `WebFetch(domain:x)`) as rules."""

from __future__ import annotations

import re
import shlex
from typing import cast

from buddy.agent.pattern import pattern
from buddy.safety.rules import Decision, Origin, Rule, RuleSet

_ENTRY = pattern(r"([A-Za-z_][\w-]*)(?:\((.*)\))?", re.DOTALL)
_PATH_TOOLS = {
    "Read": "read",
    "Grep": "read",
    "Glob": "read",
    "LS": "read",
    "NotebookRead": "read",
    "Edit": "edit",
    "Write": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
}
EXPECTED = "a tool and what it may do, like Bash(git log:*), Edit(src/**) or WebFetch(domain:example.com)"
_DECISIONS: tuple[Decision, ...] = ("allow", "ask", "deny")


def rules_of_claude(permissions: object, origin: Origin, source: str) -> RuleSet:
    """The rules of a `permissions` object. An entry that cannot be expressed is named in an error; where it
    would tighten, a wider rule takes its place or the set is broken."""
    if not isinstance(permissions, dict):
        return RuleSet((), (f"{source}: permissions must be an object",), broken=True)
    rules: list[Rule] = []
    errors: list[str] = []
    broken = False
    for decision in _DECISIONS:
        entries = cast(dict[str, object], permissions).get(decision, [])
        for entry in cast(list[object], entries) if isinstance(entries, list | tuple) else [entries]:
            rule = _rule(entry, decision, origin, source) if isinstance(entry, str) else None
            if rule is not None:
                rules.append(rule)
                continue
            errors.append(f"{source}: expected {EXPECTED}; found the {decision} entry {entry!r}")
            broken = broken or decision != "allow"
    return RuleSet(tuple(rules), tuple(errors), broken)


def _rule(entry: str, decision: Decision, origin: Origin, source: str) -> Rule | None:
    found = _ENTRY().fullmatch(entry.strip())
    if found is None:
        return None
    name, inside = found[1], found[2]
    if name == "Bash":
        return _bash(inside, decision, origin, source)
    if name in _PATH_TOOLS:
        path = "" if inside in (None, "", "*", "**") else _path(inside)
        return Rule(_PATH_TOOLS[name], decision, origin, path=path, source=source)
    if name == "WebFetch":
        host = (inside or "").removeprefix("domain:")
        if inside and not inside.startswith("domain:"):
            return None
        return Rule(
            "fetch", decision, origin, host=host.removeprefix("*") if host != "*" else "", source=source
        )
    if name == "WebSearch" and not inside:
        return Rule("web_search", decision, origin, source=source)
    if name.startswith("mcp__") and not inside:
        server, _, tool = name.removeprefix("mcp__").partition("__")
        return Rule(f"mcp:{server}/{tool or '*'}", decision, origin, source=source)
    return None


def _path(inside: str) -> str:
    """`//x` is absolute and `/x` relative to the project in Claude's spelling."""
    if inside.startswith("//"):
        return inside[1:]
    return inside.removeprefix("./").removeprefix("/")


def _bash(inside: str | None, decision: Decision, origin: Origin, source: str) -> Rule | None:
    if inside in (None, "", "*", ":*"):
        return Rule("shell", decision, origin, source=source)
    text = inside.strip()
    open_end = False
    for ending in (":*", " *"):
        if text.endswith(ending):
            text, open_end = text[: -len(ending)], True
            break
    try:
        tokens = shlex.split(text)
    except ValueError:
        return None
    if any("*" in token for token in tokens):
        if decision == "allow":
            return None
        # Wider than asked for: up to the first star.
        tokens = tokens[: next(index for index, token in enumerate(tokens) if "*" in token)]
        open_end = True
    return Rule(
        "shell", decision, origin, argv=tuple((token,) for token in tokens), open_end=open_end, source=source
    )
