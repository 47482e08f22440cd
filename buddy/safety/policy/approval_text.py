"""Words of approvals: what an answer would cover, and what would have allowed a call that nobody could
approve.

Each suggestion is tested against the policy first, so that following it works."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from buddy.agent.events import MissingApproval
from buddy.safety.policy.decide import Mode, Verdict, judge
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import Rule
from buddy.safety.policy.rules_loading import rules_of_claude
from buddy.safety.policy.session import Policy
from buddy.safety.sandbox_openings import SANDBOX
from buddy.safety.sanitise import one_line, visible
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


MAX_QUOTED_CHARS = 60
EDITS = "edits of files in this project (Shift+Tab: mode edit)"


def coverage(rules: Sequence[Rule], facts: Facts) -> str:
    """Describe in one line what some rules would allow; "" for none."""
    return "; ".join(dict.fromkeys(_words(rule, facts) for rule in rules))


def _words(rule: Rule, facts: Facts) -> str:
    words = _words_here(rule, facts)
    return f"{words}, on {rule.target}" if rule.target else words


def _words_here(rule: Rule, facts: Facts) -> str:
    if rule.tool == SANDBOX:
        return f"{visible(rule.host or _place(rule.path, facts))} in this project's sandbox"
    if rule.tool == "shell" or rule.argv:
        return _exactly(rule, facts)
    if rule.host:
        return f"pages of {visible(rule.host)}, in every project"
    if rule.tool == "edit" and rule.path == f"{facts.root}/**":
        return EDITS
    if rule.tool in ("edit", "read"):
        verb = "edits" if rule.tool == "edit" else "reading"
        folder = rule.path.removesuffix("/**")
        where = _place(folder, facts)
        return (
            f"{verb} in {where}/"
            if folder != rule.path
            else f"{verb} of {where}"
            if verb == "edits"
            else f"{verb} {where}"
        )
    return f"every {rule.tool} in this project"


def _exactly(rule: Rule, facts: Facts) -> str:
    text = rule.command or shlex.join(token[0] for token in rule.argv)
    alone = facts.shell is None or text == facts.shell.command.strip()
    said = "this command" if alone and len(text) > MAX_QUOTED_CHARS else f"`{visible(text)}`"
    folder = f", in its folder {_place(rule.folder, facts)}" if rule.folder not in ("", rule.project) else ""
    if rule.folder and not (rule.folder + "/").startswith(rule.project + "/"):
        folder = f" run in {visible(rule.folder)}"
    names = ", ".join(_place(path, facts) for path, _ in rule.files)
    unchanged = f", while {names} is unchanged" if names else ""
    sandbox = ", in the sandbox" if rule.sandbox == "only" else ""
    if facts.runs_tests and rule.tool == facts.tool:  # the command line does not say what it loads
        return f"every run of {said} in this project{folder}, whatever the tests are then"
    return f"exactly {said}, in this project{folder}{unchanged}{sandbox}"


def _place(path: str, facts: Facts) -> str:
    """Return a path in the project by its name there, any other in full."""
    if path.startswith(facts.root + "/"):
        return visible(os.path.relpath(path, facts.root))
    return visible(path)
