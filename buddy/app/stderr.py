"""Output for the user on stderr or stdout that never fails."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def tell(text: str, to: TextIO | None = None) -> None:
    """Write to stderr or another stream; never fail when it is closed or full.

    The text is dropped then, and so is later output: the exit code stays right even when Python flushes at
    exit.
    """
    stream = sys.stderr if to is None else to
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
