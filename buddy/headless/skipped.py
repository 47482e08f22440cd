"""Calls that needed an approval while nobody was there: told under the call, and once more at the end."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from buddy.agent.counting import calls_were
from buddy.agent.events import MissingApproval
from buddy.agent.pattern import pattern
from buddy.safety.sanitise import one_line

_PLAIN_RULE = pattern(r"[\w ./:,()@%+=*~-]+", re.ASCII)
SHOWN_RULES = 3


def skipped_line(missing: MissingApproval) -> str:
    """The sentence for one call: it was skipped, and what to do."""
    ways = _ways(missing.mode, missing.rules)
    if ways:
        return f"Skipped, needs approval. Rerun with {ways}."
    saved = "answer p there, and later runs without a terminal do it unasked"
    asks = (
        f"Run buddy in this folder: {saved}" if missing.can_be_saved else "Only buddy in a terminal can ask"
    )
    return f"Skipped, needs approval: {one_line(missing.reason, 200)}. {asks}."


def skipped_summary(missing: Sequence[MissingApproval]) -> str:
    """The sentence for the end of a run: how many calls were skipped, and what lets all of them run."""
    start = f"{calls_were(len(missing), 'skipped', more=False)} for want of an approval"
    mode = "edit" if all(one.mode == "edit" for one in missing) else ""
    rules = tuple(dict.fromkeys(rule for one in missing for rule in one.rules))
    covered = bool(rules) and all(one.rules for one in missing) and len(rules) <= SHOWN_RULES
    ways = _ways(mode, rules if covered else ())
    return f"{start}. Rerun with {ways}." if ways else f"{start}; what each one needs is said above."


def _ways(mode: str, rules: Sequence[str]) -> str:
    ways = [f"--permission-mode {mode}"] if mode else []
    if rules:
        ways.append(" ".join(f"--allow {_quoted(rule)}" for rule in rules))
    return " or ".join(ways)


def _quoted(rule: str) -> str:
    """The rule as a shell takes it as one word; the model chose some of its characters."""
    return f'"{rule}"' if _PLAIN_RULE().fullmatch(rule) else shlex.quote(rule)
