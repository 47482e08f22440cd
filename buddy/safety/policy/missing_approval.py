"""Suggestions for a call that needed an approval where nobody could give it: a mode, or rules for `--allow`.

Each suggestion is tested against the policy first, so that following it works.
"""

from __future__ import annotations

import os
import shlex

from buddy.agent.events import MissingApproval
from buddy.safety.policy.decide import Facts, Mode, Verdict, judge
from buddy.safety.policy.rules_loading import rules_of_claude
from buddy.safety.policy.session import Policy
from buddy.safety.sanitise import one_line
from buddy.safety.secrets.redact import redact

LONGEST_RULE = 160


def missing_approval(facts: Facts, verdict: Verdict, policy: Policy, now: float) -> MissingApproval:
    """Return the approval a call lacked, with the mode and the rules that would have let it run."""
    # No wider mode than edit is ever suggested.
    mode = "edit" if policy.mode in ("plan", "ask") and _runs(facts, policy, now, mode="edit") else ""
    usable = (entries for entries in (_entries(facts), _entries_of_parts(facts)) if _are_printable(entries))
    rules = next((entries for entries in usable if _runs(facts, policy, now, entries=entries)), ())
    return MissingApproval(verdict.reason, mode, rules, can_be_saved=bool(verdict.rules_to_save))


def _runs(
    facts: Facts, policy: Policy, now: float, *, mode: Mode | None = None, entries: tuple[str, ...] = ()
) -> bool:
    rules = policy.rules.merge(rules_of_claude({"allow": list(entries)}, "user", "--allow"))
    verdict = judge(
        facts, mode or policy.mode, rules, policy.grants, policy.approvals, trusted=policy.trusted, now=now
    )
    return verdict.decision == "allow"


def _entries(facts: Facts) -> tuple[str, ...]:
    """Return the narrowest rules for this very call, in Claude's words."""
    if facts.shell is not None:
        return (f"Bash({facts.shell.command})",)
    if facts.host:
        return (f"WebFetch(domain:{facts.host})",)
    if facts.tool.startswith("mcp__"):
        return (facts.tool,)
    name, paths = ("Edit", facts.writes) if facts.writes else ("Read", facts.reads)
    return tuple(dict.fromkeys(f"{name}({_pattern(facts.root, path.real)})" for path in paths))


def _entries_of_parts(facts: Facts) -> tuple[str, ...]:
    """Return a rule for each command of a line that is not known to only read: rules are matched part by
    part."""
    parts = facts.shell.commands if facts.shell is not None else ()
    return tuple(dict.fromkeys(f"Bash({shlex.join(part.argv)})" for part in parts if part.level != "core"))


def _pattern(root: str, path: str) -> str:
    return os.path.relpath(path, root) if path.startswith(root + "/") else f"/{path}"


def _are_printable(entries: tuple[str, ...]) -> bool:
    return bool(entries) and all(map(_is_printable, entries))


def _is_printable(entry: str) -> bool:
    """Tell whether a person can copy the rule: no line ends, no pattern characters from a file name, no
    secret."""
    inside = entry.partition("(")[2]
    is_pattern = not entry.startswith("Bash") and any(sign in inside for sign in "*?[")
    return (
        len(entry) <= LONGEST_RULE
        and one_line(entry, LONGEST_RULE) == entry
        and not is_pattern
        and redact(entry) == entry
    )
