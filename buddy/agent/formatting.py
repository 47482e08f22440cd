"""Numbers and sizes for people: `1 line`, `1,200 lines`, `1.2 kB`, long texts without their middle."""

from __future__ import annotations

from collections.abc import Sequence


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Return the number with the noun in the right form; `plural` if it is irregular."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def name_first(names: Sequence[str], most: int) -> str:
    """Join the first names and count the others: "a, b and 3 more"."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def keep_ends(text: str, most_chars: int) -> str:
    """Leave out the middle of a text longer than `most_chars`, and say how much."""
    if len(text) <= most_chars:
        return text
    half = most_chars // 2
    return f"{text[:half]}\n[… {format_count(len(text) - 2 * half, 'character')} left out …]\n{text[-half:]}"


def describe_calls(count: int, what: str, *, more: bool) -> str:
    """Say what became of calls: "3 more calls were not begun"."""
    return f"{format_count(count, 'more call' if more else 'call')} {'was' if count == 1 else 'were'} {what}"


def format_size(count: int) -> str:
    """Format a number of bytes in short form."""
    if count < 1000:
        return f"{count} B"
    for power, unit in enumerate(("kB", "MB", "GB"), 1):
        if count < 1000 ** (power + 1):
            return f"{count / 1000**power:.1f} {unit}"
    return f"{count / 1e12:.1f} TB"


MOST_DIGITS = 30


def whole_number(text: str) -> int | None:
    """Return the number written in a text of digits, None for any other text and for more digits than
    anything here counts to: from 4,300 on, Python's own conversion fails."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None
