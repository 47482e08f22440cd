"""The coroutines a screen owns: started, watched, ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine


class OwnedTasks:
    """A few tasks with one owner. An error in any of them goes to `crashed`."""

    def __init__(self, crashed: Callable[[BaseException], None]) -> None:
        self._crashed = crashed
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, job: Coroutine[None, None, None]) -> None:
        """Run beside everything else."""
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    async def end(self) -> None:
        """Cancel and await them all."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._crashed(error)
