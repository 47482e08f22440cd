"""The policy of a session: the one owner of its mode, grants, approvals, rules and decision log."""

from __future__ import annotations

import hashlib
import hmac
from collections import deque

import msgspec

from buddy.agent.display import Display
from buddy.agent.messages import Call
from buddy.safety.policy.decide import (
    ASK,
    ApprovalKind,
    Approvals,
    Facts,
    Grant,
    Mode,
    Verdict,
    judge,
    stricter_mode,
)
from buddy.safety.policy.rules import Rule, RuleSet

LOG_LENGTH = 500
MAX_NAMED = 5
CYCLE: tuple[Mode, ...] = ("plan", "ask", "edit", "auto")
"""The modes Shift+Tab cycles through; yolo is only a start flag."""


class LogEntry(msgspec.Struct, frozen=True):
    """One decision as `/permissions` shows it: when, about what, what came out and why. `answer`: who ended
    the question and with what, "" where there was none or it still waits."""

    at: float
    tool: str
    subject: str
    verdict: Verdict
    answer: str = ""


class CallLimits(msgspec.Struct, frozen=True):
    """Limits and permissions of the calls of one task: a permission mode (None for none; it counts where it
    is stricter than the session's) and rules the person's own files allow it."""

    mode: Mode | None = None
    rules: tuple[Rule, ...] = ()


NO_CALL_LIMITS = CallLimits()


class Policy:
    """Mutable state around `judge`. Times are seconds on one clock of the caller's choice."""

    def __init__(
        self, rules: RuleSet, *, mode: Mode = "ask", trusted: bool = False, yolo_allowed: bool = False
    ) -> None:
        self._yolo_allowed = yolo_allowed
        self.rules = rules
        self.trusted = trusted
        self.grants: tuple[Grant, ...] = ()
        self.approvals = ASK
        self.log: deque[LogEntry] = deque(maxlen=LOG_LENGTH)
        self.mode: Mode = "ask"
        self.set_mode(mode)

    def decide(self, facts: Facts, now: float, limits: CallLimits = NO_CALL_LIMITS) -> Verdict:
        """Judge one call and keep the decision."""
        verdict = self.consider(facts, now, limits)
        self.log.append(LogEntry(now, facts.tool, _subject(facts), verdict))
        return verdict

    def log_answer(self, facts: Facts, verdict: Verdict, answer: str, now: float) -> None:
        """Log who answered the request of this verdict, and with what. A request made while the call ran
        (about the sandbox) gets its own row."""
        for at in reversed(range(len(self.log))):
            if self.log[at].verdict is verdict:
                self.log[at] = msgspec.structs.replace(self.log[at], answer=answer)
                return
        self.log.append(LogEntry(now, facts.tool, _subject(facts), verdict, answer))

    def consider(self, facts: Facts, now: float, limits: CallLimits = NO_CALL_LIMITS) -> Verdict:
        """Judge one call without logging: for testing rules, and for judging open requests again after a
        change."""
        mode = stricter_mode(self.mode, limits.mode) or self.mode
        grants = (*self.grants, *(Grant(rule, None) for rule in limits.rules))
        return judge(facts, mode, self.rules, grants, self.approvals, trusted=self.trusted, now=now)

    def set_mode(self, mode: Mode) -> None:
        """Change the mode. Raises `ValueError` for yolo unless buddy was started with it."""
        if mode == "yolo" and not self._yolo_allowed:
            raise ValueError("mode yolo can only be chosen when buddy starts: --permission-mode yolo")
        self.mode = mode

    def next_mode(self) -> Mode:
        """Go on to the next mode of the cycle."""
        position = CYCLE.index(self.mode) if self.mode in CYCLE else 0
        self.mode = CYCLE[(position + 1) % len(CYCLE)]
        return self.mode

    def approve(self, kind: ApprovalKind, until: float | None = None) -> None:
        """Set the standing answer to questions, until a time or for good."""
        self.approvals = Approvals(kind, until)

    def grant(self, rules: tuple[Rule, ...], until: float | None = None) -> tuple[Grant, ...]:
        """Remember rules for this session, until a time or as long as it lives."""
        new = tuple(Grant(msgspec.structs.replace(rule, origin="session"), until) for rule in rules)
        self.grants = (*(grant for grant in self.grants if grant not in new), *new)
        return new

    def learn(self, rules: tuple[Rule, ...]) -> None:
        """Add saved rules to those in force."""
        new = tuple(rule for rule in rules if rule not in self.rules.rules)
        self.rules = self.rules.merge(RuleSet(new))

    def unlearn(self, rule: Rule) -> None:
        """Forget a saved rule."""
        self.rules = self.rules.without(rule)

    def revoke(self, grant: Grant) -> None:
        """Forget a grant."""
        self.grants = tuple(known for known in self.grants if known != grant)


def _subject(facts: Facts) -> str:
    if facts.shell is not None:
        return facts.shell.command
    paths = list(dict.fromkeys(path.shown for path in (*facts.writes, *facts.reads)))
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    return facts.host or ", ".join(paths[:MAX_NAMED]) + more


def digest(call: Call, shown: Display, *also_shown: str) -> str:
    """Return a fingerprint of a call and everything the person saw of it (preview, reason, rule). Any change
    of it makes an answer void."""
    seen = msgspec.json.encode([call.id, call.name, call.arguments, shown, also_shown])
    return hashlib.sha256(seen).hexdigest()


def is_answer_to(request_id: str, shown_digest: str, *, answer_id: str, answer_digest: str) -> bool:
    """Tell whether an answer was given to this question exactly as it was shown; no other answer counts."""
    return request_id == answer_id and hmac.compare_digest(shown_digest.encode(), answer_digest.encode())
