"""A thread for one piece of work that changes its thread for good, such as a filter of system calls."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

T = TypeVar("T")


def call_in_own_thread(work: Callable[[], T], name: str) -> T:
    """Call `work` in a new thread; return its result when the system has no such thread any more. Blocks.
    Raises what `work` raises, and `OSError` when there can be no thread."""
    call = _Call(work)
    thread = threading.Thread(target=call.run, name=name)
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(str(error)) from error
    thread.join()
    # `join` returns when Python has finished with it, some instructions before the kernel has.
    while os.path.exists(f"/proc/self/task/{call.thread_id}"):
        time.sleep(0)
    return call.result()


class _Call(Generic[T]):
    """A call and its outcome."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._returned: list[T] = []
        self._error: BaseException | None = None
        self.thread_id = 0

    def run(self) -> None:
        """Make the call and keep its outcome."""
        self.thread_id = threading.get_native_id()
        try:
            with _no_collection():
                self._returned.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again by `result`, in the thread that waits for it
            self._error = error

    def result(self) -> T:
        """Return or raise the outcome."""
        if self._error is not None:
            raise self._error
        return self._returned[0]


@contextlib.contextmanager
def _no_collection() -> Generator[None]:
    """Collect no garbage meanwhile: what others left would be finalised with the rights of this thread."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
