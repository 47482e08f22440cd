"""Work the user started beside the tasks: a `!command`, a side question. It is shown while it runs, and Esc
ends the latest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator

from buddy.repl.view.state import OwnRow


class Work:
    """A running piece of work. `cancelled` is set when the user ends it."""

    def __init__(self, title: str, since: float) -> None:
        self.title = title
        self.since = since
        self.last_line = ""
        self.cancelled = asyncio.Event()


class OwnWork:
    """The user's running work in a session. `changed` is called when some starts or ends."""

    def __init__(self, clock: Callable[[], float], changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._running: list[Work] = []

    @contextlib.contextmanager
    def register(self, title: str) -> Generator[Work]:
        """Register work until the context is left."""
        work = Work(title, self._clock())
        self._running.append(work)
        self._changed()
        try:
            yield work
        finally:
            self._running.remove(work)
            self._changed()

    def last(self) -> Work | None:
        """Return the latest work that has not been cancelled."""
        return next((work for work in reversed(self._running) if not work.cancelled.is_set()), None)

    def rows(self) -> tuple[OwnRow, ...]:
        """Return the running work, for the screen."""
        return tuple(OwnRow(work.title, work.since, work.last_line) for work in self._running)
