"""The garbage collector of a run: off while the program starts, on while it works."""

from __future__ import annotations

import gc


def collect_from_here() -> None:
    """Switch it on. What the start made stays until the end: it is never looked at again, which would take
    some milliseconds each time, in the middle of a keystroke."""
    gc.freeze()
    gc.enable()
