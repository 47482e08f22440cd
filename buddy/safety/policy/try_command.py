"""Verdict on one shell command, for `buddy permissions test` and `/permissions test`."""

from __future__ import annotations

import msgspec

from buddy.safety.paths import Boundary, locate
from buddy.safety.policy.decide import ASK, Approvals, Decision, Grant, Mode, Verdict, judge
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import RuleSet
from buddy.safety.shell.analysis import Analyser
from buddy.safety.shell.context import TRUSTED_PATH, CommandPlace
from buddy.safety.shell.scripts import script_digests


class CommandVerdict(msgspec.Struct, frozen=True):
    """Predicted judgement of a command: decision, reason, and the full verdict."""

    decision: Decision
    why: str
    verdict: Verdict


def judge_command(
    command: str,
    boundary: Boundary,
    analyser: Analyser,
    *,
    rules: RuleSet = RuleSet(),
    grants: tuple[Grant, ...] = (),
    approvals: Approvals = ASK,
    mode: Mode = "ask",
    trusted: bool = True,
    sandboxed: bool = False,
    search_path: str = TRUSTED_PATH,
    now: float = 0,
) -> CommandVerdict:
    """Judge a command in the boundary's working directory; by default in a trusted project, in the default
    mode, without a sandbox."""
    analysis = analyser.analyse(command, CommandPlace(boundary, search_path))
    facts = Facts(
        "run_shell",
        "high",
        boundary.root,
        boundary.home,
        anything=True,
        shell=analysis,
        sandboxed=sandboxed,
        main=boundary.main,
        category="shell",
        folder=locate(boundary, boundary.cwd),
        scripts=() if analysis.read_only else script_digests(analysis, boundary),
    )
    verdict = judge(facts, mode, rules, grants, approvals, trusted=trusted, now=now)
    return CommandVerdict(verdict.decision, verdict.reason, verdict)
