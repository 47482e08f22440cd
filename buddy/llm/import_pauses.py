"""A long import that stops between two modules when it is asked to: what shares the interpreter with it gets
the time. Knows nothing of what that is.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

Pause = Callable[[], None]
"""Comes back when the import may go on."""


class BetweenModules:
    """A finder that finds nothing: the import system asks it first, before each module. Only the thread that
    made it is paused; another one that needs a module this thread has begun waits with it."""

    def __init__(self, pause: Pause) -> None:
        self._pause = pause
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Nothing, after a pause."""
        if threading.get_ident() == self._thread:
            self._pause()
        return None


@contextmanager
def pauses(pause: Pause) -> Generator[None]:
    """Modules this thread imports in here are imported with pauses between them."""
    finder = BetweenModules(pause)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
