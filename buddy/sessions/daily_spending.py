"""Today's spending over all sessions and processes, in one small file a day that each process appends to.

It is not part of a session, and losing it loses no work: it is written without waiting for the disk (60
bytes, 20 µs). Where it can't be written, this process still counts its own spending.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from datetime import datetime

from buddy.safety.paths import make_private_folders

PREFIX = "spent-"


def local_date() -> str:
    """Return today's date in the local time zone."""
    return datetime.now().astimezone().date().isoformat()


class DaySpending:
    """The dollars spent since midnight. `today` is called each time, because a session may last past
    midnight."""

    def __init__(self, folder: str, today: Callable[[], str] = local_date) -> None:
        self._folder = folder
        self._today = today
        self._day: str = ""
        self._read_to = 0
        self._total = 0.0
        self._unwritten = 0.0

    def add(self, usd: float) -> None:
        """Add the cost of a reply."""
        path = self._path()
        try:
            descriptor = self._open(path)
        except OSError:
            self._unwritten += usd
            return
        try:
            os.write(descriptor, b"%.9f\n" % usd)  # one write: other processes append as well
        except OSError:
            self._unwritten += usd
        finally:
            os.close(descriptor)

    def spent_today(self) -> float:
        """Return today's dollars so far. Reads only the bytes appended since the last call."""
        path = self._path()
        try:
            with open(path, "rb") as file:
                file.seek(self._read_to)
                data = file.read()
        except OSError:
            data = b""
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for line in whole.split():
            with contextlib.suppress(ValueError):
                self._total += max(0.0, float(line))
        return self._total + self._unwritten

    def _open(self, path: str) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags, 0o600)
        make_private_folders(self._folder)
        return os.open(path, flags, 0o600)

    def _path(self) -> str:
        day = self._today()
        if day != self._day:
            self._day = day
            self._read_to = 0
            self._total = self._unwritten = 0.0
            self._forget_days_before(day)
        return os.path.join(self._folder, PREFIX + day)

    def _forget_days_before(self, day: str) -> None:
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folder):
                if name.startswith(PREFIX) and name < PREFIX + day:
                    os.unlink(os.path.join(self._folder, name))
