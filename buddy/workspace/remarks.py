"""Capture of a program's stderr, kept apart from its stdout."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType

READ_BYTES = 64 * 1024
KEPT_BYTES = 16 * 1024
"""The beginning is kept; the rest is read, so that the program never waits, and forgotten."""


class Remarks:
    """A pipe to give to a program as its stderr. Used as `with`, around the program's whole life, on the
    event loop's thread."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._kept = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reading, self._read)

    def __enter__(self) -> Remarks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.given()
        self._stop()

    def given(self) -> None:
        """The program has its end of the pipe: ours goes, so that the pipe ends with it."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def text(self) -> str:
        """Return the stderr text captured so far."""
        self._read()
        return self._kept.decode("utf-8", "replace")

    def _read(self) -> None:
        if self._reading < 0:
            return
        try:
            data = os.read(self._reading, READ_BYTES)
        except BlockingIOError:
            return
        self._kept += data[: KEPT_BYTES - len(self._kept)]
        if not data:
            self._stop()

    def _stop(self) -> None:
        if self._reading >= 0:
            self._loop.remove_reader(self._reading)
            os.close(self._reading)
            self._reading = -1
