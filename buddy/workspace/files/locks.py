"""One lock per file, shared by all tasks of a program.

Thread locks, because the work between reading and replacing a file happens in a worker thread and goes on
there even when the task that started it is cancelled.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class FileLocks:
    """Locks by real path, made when first asked for and dropped when nobody wants them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def holding(self, *real_paths: str) -> Generator[None]:
        """Hold the locks of these files, always taken in the same order to prevent deadlock."""
        taken: list[str] = []
        try:
            for real in sorted(set(real_paths)):
                self._acquire(real).acquire()
                taken.append(real)
            yield
        finally:
            for real in reversed(taken):
                self._release(real)

    def _acquire(self, real: str) -> threading.Lock:
        with self._guard:
            lock, users = self._locks.get(real) or (threading.Lock(), 0)
            self._locks[real] = (lock, users + 1)
            return lock

    def _release(self, real: str) -> None:
        with self._guard:
            lock, users = self._locks[real]
            lock.release()
            if users == 1:
                del self._locks[real]
            else:
                self._locks[real] = (lock, users - 1)


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread and see it through: cancelling waits for the work to end, so that a file
    is never changed after its task is gone."""
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # looked at, so that it is not reported as lost
        raise
