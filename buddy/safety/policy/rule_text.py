"""Words for what an answer would cover, as an approval shows them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import Rule
from buddy.safety.sandbox_openings import SANDBOX
from buddy.safety.sanitise import visible

MAX_QUOTED_CHARS = 60
EDITS = "edits of files in this project (Shift+Tab: mode edit)"


def coverage(rules: Sequence[Rule], facts: Facts) -> str:
    """Describe in one line what some rules would allow; "" for none."""
    return "; ".join(dict.fromkeys(_words(rule, facts) for rule in rules))


def _words(rule: Rule, facts: Facts) -> str:
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
