"""Parsing of the delay a provider asks for: in headers, in the body, or in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from buddy.llm.error_body import Told

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
UNIT = r"(?:milliseconds?|ms|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|[smhd])"
# Patterns are text, compiled when an error first needs them: compiling at import would cost every start.
DURATION = rf"(\d+(?:\.\d+)?)\s*({UNIT})?(?![a-z])"
WORDING = (
    r"(?:try again|retry|wait|resets?|available)(?:\s+(?:your request|again|after|in|for|at least|about))*\s+"
    rf"((?:\d+(?:\.\d+)?\s*{UNIT}[\s,]*(?:and\s+)?)+)"
)


def retry_after_s(headers: Mapping[str, str], told: Told, now: float | None) -> float | None:
    """Seconds to wait, never negative; None when nothing usable is said. `headers` in lower case."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after")
    if header is not None:
        stated = _number(header)
        if stated is None:
            stated = _until(header, headers.get("date"), now)
        if stated is not None:
            return stated
    stated = duration_s(told.delay)
    if stated is not None:
        return stated
    wording = re.search(WORDING, told.searched, re.IGNORECASE)
    return duration_s(wording[1]) if wording else None


def duration_s(text: str) -> float | None:
    """Seconds of "1.5s", "174ms", "9m38.016s", "2 minutes"; None for anything else."""
    total, found = 0.0, False
    for amount, unit in re.findall(DURATION, text, re.IGNORECASE):
        found = True
        total += float(amount) * UNITS[_unit(unit)]
    return total if found else None


def _unit(word: str) -> str:
    word = word.lower()
    if word.startswith(("ms", "milli")):
        return "ms"
    return word[:1] or "s"


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    return max(0.0, value)


def _until(text: str, answered: str | None, now: float | None) -> float | None:
    """Seconds from now (or from the answer's own date) to an HTTP date."""
    at = _date(text)
    if at is None:
        return None
    since = datetime.fromtimestamp(now, UTC) if now is not None else _date(answered or "")
    return max(0.0, (at - (since or datetime.now(UTC))).total_seconds())


def _date(text: str) -> datetime | None:
    """An HTTP date, in any of its three formats; always GMT."""
    from email.utils import parsedate_tz  # here: 13 ms that only an error with a date needs

    parsed = parsedate_tz(text)
    if parsed is None:
        return None
    year, month, day, hour, minute, second = parsed[:6]
    try:
        return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None
