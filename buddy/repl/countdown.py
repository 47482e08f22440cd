"""A time that has to pass without being started anew: until a size has come to rest, until frames go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Countdown:
    """Calls `over` so many seconds after it was started last."""

    def __init__(self, over: Callable[[], None]) -> None:
        self._over = over
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        """Tell whether the countdown is running."""
        return self._timer is not None

    def start(self, loop: asyncio.AbstractEventLoop | None, seconds: float) -> None:
        """Count from now on; without a loop there is nothing to wait for."""
        self.stop()
        if loop is not None and not loop.is_closed():
            self._timer = loop.call_later(max(seconds, 0), self._ended)

    def _ended(self) -> None:
        self._timer = None
        self._over()

    def stop(self) -> None:
        """Never mind."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
