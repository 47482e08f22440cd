"""The garbage collector of a run: off during start-up, on afterwards."""

from __future__ import annotations

import gc


def collect_from_here() -> None:
    """Switch the collector on, without the objects made so far.

    Objects of the start-up live until the end; scanning them would take milliseconds in the middle of a
    keystroke.
    """
    gc.freeze()
    gc.enable()
