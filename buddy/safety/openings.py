"""The user's openings of the sandbox, made by rules and grants: hosts, and places to write to. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from buddy.safety.rules import Rule

SANDBOX = "sandbox"
"""The `tool` of rules that open something instead of allowing a call."""


class Openings(msgspec.Struct, frozen=True):
    """`hosts` as the sandbox's proxy reads them, `places` as absolute paths."""

    hosts: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


def openings(rules: Iterable[Rule], *, roots: tuple[str, ...], home: str) -> Openings:
    """Collect what rules open in a project. `roots`: its folder, and the main tree of a worktree."""
    fitting = [
        rule
        for rule in rules
        if rule.tool == SANDBOX and rule.decision == "allow" and (not rule.project or rule.project in roots)
    ]
    places = (_absolute(rule.path, home) for rule in fitting if rule.path)
    return Openings(
        tuple(dict.fromkeys(rule.host for rule in fitting if rule.host)), tuple(dict.fromkeys(places))
    )


def opening_rules(found: Openings, project: str) -> tuple[Rule, ...]:
    """Make the rules that would open the same again in one project."""
    return (
        *(Rule(SANDBOX, "allow", "saved", host=host, project=project) for host in found.hosts),
        *(Rule(SANDBOX, "allow", "saved", path=place, project=project) for place in found.places),
    )


def _absolute(path: str, home: str) -> str:
    return os.path.normpath(home + path[1:] if path == "~" or path.startswith("~/") else path)
