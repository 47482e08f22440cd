"""The interpreter of a run: threads that give way to the event loop, so that keys are echoed meanwhile, and
the garbage collector."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Generator

SWITCH_S = 0.0002
"""How long such work keeps the interpreter from a thread that wants it. A key takes it six times over (each
system call gives it away); with Python's 5 ms, its echo took 40 ms (`tests/bench/import_echo.py`)."""


@contextlib.contextmanager
def giving_way() -> Generator[None]:
    """Inside, the interpreter changes hands quickly. Where a second thread enters, the first one sets the
    usual interval again when it leaves."""
    usual = sys.getswitchinterval()
    if usual <= SWITCH_S * 2:  # another thread is inside: its interval must not become the usual one
        yield
        return
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def collect_from_here() -> None:
    """Switch the collector on, without the objects made so far.

    Objects of the start-up live until the end; scanning them would take milliseconds in the middle of a
    keystroke.
    """
    gc.freeze()
    gc.enable()
