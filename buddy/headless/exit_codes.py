"""Exit codes of runs without a terminal, and how an outcome maps to them."""

from __future__ import annotations

from buddy.agent.host import Outcome

OK = 0
FAILED = 1
USAGE = 2
APPROVAL = 3
CONFIGURATION = 4
LIMIT = 5
TRANSIENT = 75
INTERRUPTED = 130
TERMINATED = 143

_TRANSIENT_ERRORS = ("rate_limit", "overloaded", "server", "cut")


def exit_code(outcome: Outcome, *, approval_missing: bool, terminated: bool) -> int:
    """The exit code of a turn. `approval_missing`: a call was denied because nobody was there to approve
    it: the work is not done, whatever the model says of it."""
    match outcome.outcome:
        case "completed":
            return APPROVAL if approval_missing else OK
        case "cancelled":
            return TERMINATED if terminated else INTERRUPTED
        case "limit":
            return LIMIT if outcome.error in ("replies", "budget") else FAILED
        case "failed":
            if approval_missing:
                return APPROVAL
            if outcome.error in ("auth", "not_found"):  # the key, or the name or address of the model
                return CONFIGURATION
            return TRANSIENT if outcome.error in _TRANSIENT_ERRORS else FAILED
