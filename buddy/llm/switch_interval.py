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
    """Inside, the interpreter changes hands quickly. Not to be used by two threads at once."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
