"""Work in a thread that gives way to the event loop: keys are echoed meanwhile."""

from __future__ import annotations

import contextlib
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
