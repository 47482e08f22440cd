"""The common beginning and end of two texts. Compared in steps and then by halving:
comparing slices is much faster than characters.
"""

from __future__ import annotations

_STEP = 8192


def alike_at_start(before: str, after: str) -> int:
    """Return the number of characters both start with."""
    low, high = 0, min(len(before), len(after))
    while low + _STEP < high and before.startswith(after[low : low + _STEP], low):
        low += _STEP
    high = min(high, low + _STEP)
    while low < high:
        half = (low + high + 1) // 2
        if before[low:half] == after[low:half]:
            low = half
        else:
            high = half - 1
    return low


def alike_at_end(before: str, after: str, most: int) -> int:
    """Return the number of characters both end with, at most `most`."""
    low, high = 0, most
    while low + _STEP < high and before.endswith(
        after[len(after) - low - _STEP : len(after) - low], 0, len(before) - low
    ):
        low += _STEP
    high = min(high, low + _STEP)
    while low < high:
        half = (low + high + 1) // 2
        if before[len(before) - half : len(before) - low] == after[len(after) - half : len(after) - low]:
            low = half
        else:
            high = half - 1
    return low
