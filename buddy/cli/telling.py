"""One line for a person on stderr, wherever that leads."""

from __future__ import annotations

import os
import sys


def tell(text: str) -> None:
    """Write to stderr. Where it takes nothing (a full disk, nobody who reads), the text is dropped and so is
    what comes later: the exit code is still right, also when Python flushes once more at its end."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stderr.fileno())
        os.close(nothing)
