"""A whole number that somebody typed."""

from __future__ import annotations

MOST_DIGITS = 30


def whole_number(text: str) -> int | None:
    """The number that a text of digits is, None for any other text. More digits than anything here can count
    to are no number either: from 4,300 of them on Python's own conversion is an error."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None
