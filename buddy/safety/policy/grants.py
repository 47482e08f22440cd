"""The user's answers for more than one call: grants, and the standing answer to every question."""

from __future__ import annotations

from typing import Literal

import msgspec

from buddy.safety.policy.rules import Rule

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
