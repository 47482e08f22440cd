"""Waiting for what is true, with a deadline against hanging."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def until(true: Callable[[], object], *, within_s: float = 50.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "it did not come true in time"
        await asyncio.sleep(0.005)
