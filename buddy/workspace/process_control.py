"""Adopting orphans: what buddy asks the system to do with its own process."""

from __future__ import annotations

import sys

_SET_CHILD_SUBREAPER = 36


def adopt_orphans(*, wanted: bool) -> bool:
    """Have orphaned descendants handed to this process instead of to process 1, so that they can be found
    and waited for; or no longer. Returns whether the system did as asked."""
    return _prctl(_SET_CHILD_SUBREAPER, int(wanted))


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes  # 5 ms, and only a session that starts a process pays them

    try:
        return ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False
