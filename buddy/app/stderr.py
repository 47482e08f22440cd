"""Lines for a person on stderr or stdout, wherever those lead."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def tell(text: str, to: TextIO | None = None) -> None:
    """Write to stderr, or to another stream. Where it takes nothing (a full disk, nobody who reads, a closed
    terminal), the text is dropped and so is what comes later: the exit code is still right, also when Python
    flushes once more at its end."""
    stream = sys.stderr if to is None else to
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
