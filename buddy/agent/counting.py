"""How many of something there are, in words: `1 line`, `1,200 lines`."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """The number with the noun in its form; `plural` where it isn't the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
