"""Regular expressions that are compiled when they are first used: a start uses few of them, and compiling all
of them takes 20 ms."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import AnyStr


def pattern(text: AnyStr, flags: int = 0) -> Callable[[], re.Pattern[AnyStr]]:
    """What `re.compile` takes. Call what comes back to have the compiled pattern, always the same one."""
    return cache(lambda: re.compile(text, flags))
