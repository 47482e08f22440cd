"""Counts in words: `1 line`, `1,200 lines`, `1.2 kB`."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """The number with the noun in its form; `plural` where it isn't the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def calls_were(count: int, what: str, *, more: bool) -> str:
    """Say what became of calls: "3 more calls were not begun"."""
    return f"{counted(count, 'more call' if more else 'call')} {'was' if count == 1 else 'were'} {what}"


def sized(count: int) -> str:
    """A number of bytes, short."""
    if count < 1000:
        return f"{count} B"
    for power, unit in enumerate(("kB", "MB", "GB"), 1):
        if count < 1000 ** (power + 1):
            return f"{count / 1000**power:.1f} {unit}"
    return f"{count / 1e12:.1f} TB"
