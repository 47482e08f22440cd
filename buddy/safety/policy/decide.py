"""The decision about a call: facts in, a verdict with its reason out, by the table of modes and the user's
standing answers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import msgspec

from buddy.agent.formatting import format_count
from buddy.safety.paths import Located
from buddy.safety.policy.facts import Facts, HookOpinion
from buddy.safety.policy.rules import (
    Rule,
    RuleSet,
    applies,
    covers,
    no_place_for_commands,
    rules_for_session,
    rules_to_save,
)
from buddy.safety.protected import pipeline_reason
from buddy.safety.shell.result import Analysis

ApprovalKind = Literal["ask", "all", "none"]


class Grant(msgspec.Struct, frozen=True):
    """A remembered answer: a rule for this session, until a time (None: as long as the session lives)."""

    rule: Rule
    until: float | None

    def holds(self, now: float) -> bool:
        """Tell whether the grant has not expired."""
        return self.until is None or now < self.until


class Approvals(msgspec.Struct, frozen=True):
    """The session's standing answer to approval requests: `ask` the user, yes to `all` of them, or to `none`,
    until a time (None: until changed)."""

    kind: ApprovalKind = "ask"
    until: float | None = None

    def now(self, now: float) -> ApprovalKind:
        """Return the kind in force at this time."""
        return self.kind if self.until is None or now < self.until else "ask"


ASK = Approvals()


def living(grants: tuple[Grant, ...], now: float) -> tuple[Rule, ...]:
    """Return the rules of the grants that still hold."""
    return tuple(grant.rule for grant in grants if grant.holds(now))


Mode = Literal["plan", "ask", "edit", "auto", "yolo"]
Decision = Literal["allow", "ask", "deny"]
Column = Literal[
    "low_inside",
    "low_outside",
    "medium_inside",
    "medium_outside",
    "high",
    "shell_read_only",
    "shell_sandboxed",
    "floor",
]

MODES: tuple[Mode, ...] = get_args(Mode)
MODE_WORDS: dict[Mode, str] = {
    "plan": "read-only",
    "ask": "edits and commands ask",
    "edit": "edits in the workspace run, commands ask",
    "auto": "edits and sandboxed commands run",
    "yolo": "everything runs",
}
"""Each mode in a few words, for the person who switches to it."""
CLAUDE_MODES: dict[str, Mode] = {
    "plan": "plan",
    "default": "ask",
    "acceptEdits": "edit",
    "auto": "auto",
    "bypassPermissions": "yolo",
}
"""Claude's `permissionMode` names."""

CLAUDE_NAMES: dict[Mode, str] = {mode: name for name, mode in CLAUDE_MODES.items()}

_COLUMNS: tuple[Column, ...] = get_args(Column)
_WORDS: dict[str, Decision] = {"run": "allow", "ask": "ask", "deny": "deny"}
_ROWS: dict[Mode, str] = {
    "plan": "run ask deny deny deny run deny deny",
    "ask": " run ask ask  ask  ask  run ask  ask",
    "edit": "run ask run  ask  ask  run ask  ask",
    "auto": "run ask run  ask  ask  run run  ask",
    "yolo": "run run run  run  run  run run  ask",
}
TABLE: dict[tuple[Mode, Column], Decision] = {
    (mode, column): _WORDS[word]
    for mode, row in _ROWS.items()
    for column, word in zip(_COLUMNS, row.split(), strict=True)
}

COLUMN_WORDS: dict[Column, str] = {
    "low_inside": "reading in the workspace",
    "low_outside": "reading outside the workspace, or a secret file",
    "medium_inside": "a change in the workspace",
    "medium_outside": "a change outside the workspace",
    "high": "a high-risk call",
    "shell_read_only": "a shell command that only reads",
    "shell_sandboxed": "a shell command in the sandbox",
    "floor": "something no mode runs without asking",
}
ASK_WORDS: dict[Column, str] = {
    "low_outside": "it reads outside the workspace",
    "medium_outside": "it changes a file outside the workspace",
}
"""The reasons to ask, worded to stand before the path."""
NO_FILE_WORDS = "a medium-risk call that changes no file itself"
_STRICTNESS: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}


def strictest(decisions: Sequence[Decision]) -> Decision:
    """Return the strictest of some decisions; at least one."""
    return max(decisions, key=_STRICTNESS.__getitem__)


def stricter_mode(one: Mode | None, other: Mode | None) -> Mode | None:
    """Return the stricter of two modes, where None is no limit."""
    if one is None or other is None:
        return one or other
    return MODES[min(MODES.index(one), MODES.index(other))]


def mode_by_name(name: str) -> Mode | None:
    """Return the mode of this name, buddy's or Claude's."""
    for mode in MODES:
        if mode == name:
            return mode
    return CLAUDE_MODES.get(name)


__all__ = ["Decision", "Facts", "HookOpinion", "Mode", "Verdict", "judge", "mode_by_name"]

NAMED_REASONS = 3
"""A request names this many reasons, worst first, and counts the others."""

DecidedBy = Literal["floor", "rules file", "place", "hook", "rule", "grant", "approvals", "read-only", "mode"]


class Verdict(msgspec.Struct, frozen=True):
    """Judgement of one call: decision, reason, and who decided. `floor`: no standing approval answers it.
    `network`: it may use the network inside the sandbox, `outside`: it runs outside of it. `rules_to_save`:
    the rules "always" would save, one per sub-command, `rules_for_session`: those "this session" would
    remember; () when none may be."""

    decision: Decision
    reason: str
    decided_by: DecidedBy
    column: Column
    floor: bool = False
    network: bool = False
    outside: bool = False
    rules_to_save: tuple[Rule, ...] = ()
    rules_for_session: tuple[Rule, ...] = ()


class _Opinion(msgspec.Struct, frozen=True):
    decision: Decision
    reason: str
    by: DecidedBy
    floor: bool = False
    network: bool = False
    outside: bool = False


def judge(
    facts: Facts,
    mode: Mode,
    rules: RuleSet,
    grants: tuple[Grant, ...],
    approvals: Approvals,
    *,
    trusted: bool,
    now: float,
) -> Verdict:
    """Decide about one call. `trusted`: the person trusts this project; `now`: seconds, on the clock the
    expiries were set by."""
    remembered = living(grants, now)
    opinion = _strict_opinion(facts, mode, rules, remembered)
    if opinion is None:
        opinion = _allowing_opinion(facts, mode, rules, remembered, trusted=trusted)
    opinion = _apply_approvals(opinion, approvals.now(now))
    remembers = opinion.decision == "ask" and not opinion.floor and opinion.by == "mode"
    return Verdict(
        opinion.decision,
        opinion.reason,
        opinion.by,
        _columns(facts)[-1],
        opinion.floor,
        opinion.network,
        opinion.outside,
        rules_to_save(facts) if remembers else (),
        rules_for_session(facts) if remembers else (),
    )


def _strict_opinion(
    facts: Facts, mode: Mode, rules: RuleSet, remembered: tuple[Rule, ...]
) -> _Opinion | None:
    """Return the strictest of everything that can only tighten; the first of equals, so that the floor is
    named."""
    opinions = list(_tightening(facts, mode, rules, remembered))
    if not opinions:
        return None
    worst = strictest([opinion.decision for opinion in opinions])
    chosen = next(opinion for opinion in opinions if opinion.decision == worst)
    reasons = [opinion.reason for opinion in opinions if opinion.decision == worst]
    reason = _join_reasons(reasons) if worst == "ask" else chosen.reason
    return msgspec.structs.replace(chosen, reason=reason, floor=any(opinion.floor for opinion in opinions))


def _tightening(facts: Facts, mode: Mode, rules: RuleSet, remembered: tuple[Rule, ...]) -> Iterator[_Opinion]:
    floor = _floor(facts)
    if floor:
        yield _Opinion(TABLE[mode, "floor"], floor, "floor", floor=True)
    if facts.shell is not None and not facts.shell.parsed and mode != "yolo":
        yield _Opinion("ask", f"unparsed command: {facts.shell.reason}", "floor")
    if rules.broken:
        yield _Opinion("ask", "a rules file could not be read, so everything is asked about", "rules file")
    place = no_place_for_commands(facts)
    if place and mode != "yolo":
        yield _Opinion("ask", place, "place")
    if facts.hook is not None:
        yield _Opinion(facts.hook.decision, facts.hook.reason, "hook")
    for rule in (*rules.rules, *remembered):
        if rule.decision != "allow" and applies(rule, facts):
            yield _Opinion(rule.decision, _because(rule), "rule")
    for column in _columns(facts):
        if TABLE[mode, column] != "deny":
            continue
        advice = "/mode ask, or --permission-mode ask, asks instead"
        does = facts.effect or f"this is {COLUMN_WORDS[column]}"
        yield _Opinion("deny", f"{mode} mode is read-only, and {does}; {advice}", "mode")


def _floor(facts: Facts) -> str:
    """Why no mode, rule or standing approval may run this without the person, "" when nothing forbids it."""
    if facts.leaves_sandbox:
        return "it asks to run outside the sandbox"
    shell = facts.shell
    if shell is not None and (shell.catastrophic or shell.protected):
        return _join_reasons([shell.catastrophic, shell.protected, *_shell_reasons(shell)])
    for located in facts.writes:
        if located.protected:
            return f"{located.shown} is protected: {located.protected}"
    return ""


def _allowing_opinion(
    facts: Facts, mode: Mode, rules: RuleSet, remembered: tuple[Rule, ...], *, trusted: bool
) -> _Opinion:
    """Return the first in order that allows, or what the mode says."""
    granted = tuple(rule for rule in remembered if rule.decision == "allow")
    own = tuple(rule for rule in rules.rules if rule.decision == "allow" and rule.origin != "project")
    projects = tuple(rule for rule in rules.rules if rule.decision == "allow" and rule.origin == "project")
    chosen = covers(own + granted, facts)
    if chosen:
        by: DecidedBy = "grant" if chosen[-1].origin == "session" else "rule"
        ways = {rule.sandbox for rule in chosen}
        because, leaves = _because(chosen[-1]), ways == {"off"}
        if leaves and facts.sandboxed and facts.own_programs:
            name = facts.own_programs[0]
            leaves = False
            because += (
                f"; in the sandbox, since {name} is a program of the workspace (a rule may name its path)"
            )
        return _Opinion("allow", because, by, network="network" in ways, outside=leaves)
    if trusted and facts.sandboxed:
        chosen = covers(projects + own + granted, facts)
        if chosen:
            return _Opinion("allow", f"{_because(chosen[-1])} (project rule, in the sandbox)", "rule")
    columns = _columns(facts)
    decision = strictest([TABLE[mode, column] for column in columns])
    column: Column = next(column for column in columns if TABLE[mode, column] == decision)
    if decision == "allow" and column in ("low_inside", "shell_read_only"):
        return _Opinion("allow", f"read-only: {COLUMN_WORDS[column]}", "read-only")
    return _Opinion(decision, _by_mode(facts, mode, column), "mode")


def _apply_approvals(opinion: _Opinion, approvals: ApprovalKind) -> _Opinion:
    """Apply the session's standing answer (all or none) to an opinion that asks."""
    if opinion.decision != "ask":
        return opinion
    if approvals == "none":
        return _Opinion("deny", f"approvals are set to none; it would ask: {opinion.reason}", "approvals")
    if approvals == "all" and not opinion.floor:
        return _Opinion("allow", f"approved with all others; it would ask: {opinion.reason}", "approvals")
    return opinion


def _columns(facts: Facts) -> tuple[Column, ...]:
    """Return the columns of the table a call falls into; the strictest counts, the last names its main
    risk."""
    folder = facts.folder
    outside: tuple[Column, ...] = (
        ("low_outside",) if folder is not None and (not folder.inside or folder.secret) else ()
    )
    if facts.shell is not None:
        if facts.shell.level == "core" or (facts.shell.level == "wide" and facts.read_only_sandbox):
            return (*outside, "shell_read_only")
        return (*outside, "shell_sandboxed" if facts.sandboxed else "high")
    delicate = any(not path.inside or path.secret for path in facts.reads) or any(
        path.secret for path in facts.writes
    )
    found: list[Column] = ["low_outside"] if delicate or outside else []
    if facts.risk == "high" or (facts.programs and not facts.sandboxed):
        found.append("high")
    elif facts.risk == "medium" or facts.writes or facts.anything:
        # A tool that calls itself harmless and writes is judged by what it does.
        near = all(path.inside for path in facts.writes) and not _pipeline(facts) and not facts.target
        found.append("medium_inside" if near else "medium_outside")
    elif not found:
        found.append("low_inside")
    return tuple(found)


def _pipeline(facts: Facts) -> str:
    """Why an edit of a build server's instructions is asked about like one outside of the workspace."""
    found = ((path.shown, pipeline_reason(path.real)) for path in facts.writes)
    return next((f"it changes {shown}: {reason}" for shown, reason in found if reason), "")


def _shell_reasons(shell: Analysis) -> list[str]:
    """Return the reason of the whole line, then those of its parts, the weaker parts first."""
    parts = sorted(shell.commands, key=lambda part: part.level != "ask")
    return [shell.reason, *(part.reason for part in parts)]


def _join_reasons(reasons: list[str]) -> str:
    """Join reasons in order, each once; of many the first, and the number of the others."""
    named: list[str] = []
    for reason in reasons:
        if reason and not any(reason in earlier for earlier in named):
            named.append(reason)
    missing = len(named) - NAMED_REASONS
    return "; ".join(named[:NAMED_REASONS]) + (f"; and {missing} more" if missing > 0 else "")


def _because(rule: Rule) -> str:
    """Describe a rule as the reason of a decision."""
    origin = "a grant of this session" if rule.origin == "session" else f"a {rule.origin} rule"
    return f"{origin} ({rule.shown}){': ' + rule.why if rule.why else ''}"


def _by_mode(facts: Facts, mode: Mode, column: Column) -> str:
    """Why a mode runs a call, or what it does that has to be asked about."""
    detail, concern = _detail(facts, column), _concern(facts)
    path = f"{concern.shown}{', ' + concern.secret if concern.secret else ''}" if concern is not None else ""
    touches = facts.reads or facts.writes or facts.anything or column != "medium_inside"
    kind = COLUMN_WORDS[column] if touches else NO_FILE_WORDS
    if TABLE[mode, column] == "allow":
        about = detail or path
        return f"mode {mode} runs {kind}: {about}" if about else f"mode {mode} runs {kind}"
    if detail:
        return detail
    if column == "medium_inside" and facts.writes:
        return f"it changes {format_count(len(facts.writes), 'file')}"
    does = ASK_WORDS.get(column, f"it is {kind}")
    if column == "high":
        does = facts.effect or does
    elif column == "low_outside" and concern is not None and concern.secret:
        does = "it reads a secret file" if concern in facts.reads else "it changes a secret file"
    return f"{does}: {path}" if path else does


def _detail(facts: Facts, column: Column) -> str:
    """Return the program, folder or command that a decision is about; "" where it is about paths alone."""
    if facts.programs:
        return facts.programs
    if column == "medium_outside" and all(path.inside for path in facts.writes):
        there = f"it changes {format_count(len(facts.writes), 'file')} on {facts.target}"
        return _pipeline(facts) or (there if facts.target else "")
    if facts.folder is not None and column == "low_outside" and not facts.folder.inside:
        return f"it runs in {facts.folder.shown}"
    if facts.shell is not None and facts.shell.reason:
        return _join_reasons(_shell_reasons(facts.shell))
    return ""


def _concern(facts: Facts) -> Located | None:
    """Return the first path that lies outside or holds secrets."""
    paths = (*facts.reads, *facts.writes)
    return next((path for path in paths if not path.inside or path.secret), None)
