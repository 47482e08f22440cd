"""Exit codes and how the outcome of a headless run maps to them. The string below each code is its meaning in
the manual."""

from __future__ import annotations

from buddy.agent.host import Outcome

OK = 0
"""done"""
FAILED = 1
"""the task failed"""
USAGE = 2
"""options or words buddy cannot use"""
APPROVAL = 3
"""a call needed an approval and nobody was there; the rest ran"""
CONFIGURATION = 4
"""a key, a model's name or the configuration is wrong"""
LIMIT = 5
"""a budget or the limit of replies is reached"""
STRUCTURE = 6
"""the answer is not the JSON that --json-schema asks for, after three tries"""
TRANSIENT = 75
"""the provider failed: try again later"""
INTERRUPTED = 130
"""interrupted (Ctrl+C)"""
CLOSED_PIPE = 141
"""the reader closed the pipe, as the shell counts SIGPIPE"""
TERMINATED = 143
"""terminated (SIGTERM)"""

_TRANSIENT_ERRORS = ("rate_limit", "overloaded", "server", "cut")


def exit_code(outcome: Outcome, *, approval_missing: bool, terminated: bool) -> int:
    """Return the exit code of a turn. `approval_missing`: a call was denied because nobody was there to
    approve it, so the work is not done whatever the model claims."""
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
            if outcome.error in ("auth", "not_found"):  # a wrong key, model name or address
                return CONFIGURATION
            return TRANSIENT if outcome.error in _TRANSIENT_ERRORS else FAILED
