"""Numbers for people: `1 line`, `1,200 lines`, `1.2 kB`, and whole numbers that a person typed."""

from __future__ import annotations


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun, singular or plural; `plural` where it is irregular."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def describe_calls(count: int, what: str, *, more: bool) -> str:
    """Return a clause about a number of calls: "3 more calls were not begun"."""
    return f"{format_count(count, 'more call' if more else 'call')} {'was' if count == 1 else 'were'} {what}"


def format_size(count: int) -> str:
    """Return a number of bytes with its unit: `1.2 kB`."""
    if count < 1000:
        return f"{count} B"
    for power, unit in enumerate(("kB", "MB", "GB"), 1):
        if count < 1000 ** (power + 1):
            return f"{count / 1000**power:.1f} {unit}"
    return f"{count / 1e12:.1f} TB"


MOST_DIGITS = 30


def whole_number(text: str) -> int | None:
    """Parse a text of digits; None for any other text. A text longer than any count here is refused too: from
    4,300 digits on, `int` raises."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None
