"""The end of a journal file, and the one way to add to it: all of a batch is on the disk, or none of it."""

from __future__ import annotations

import contextlib
import os

from buddy.sessions.files import JournalFiles


class Appender:
    """An open journal. Owned by the thread that writes; nothing here waits for anybody else.

    `end` is where the good bytes end. After a failure the file is cut back to it, at once where that works,
    otherwise before the next write, so that a reader never finds half a line in the middle.
    """

    def __init__(self, files: JournalFiles, path: str, end: int) -> None:
        self.path = path
        self.end = end
        self._files = files
        self._descriptor = files.open(path, os.O_RDWR | os.O_CREAT)
        self._ragged = True
        self._identity = files.identity(self._descriptor)

    def append(self, data: bytes) -> None:
        """Add whole lines, synced. Raises `OSError`; nothing of `data` is then in the file, or it will be
        taken out before anything else is written."""
        if self._ragged:
            self._files.truncate(self._descriptor, self.end)
        self._ragged = True
        try:
            self._files.write_all(self._descriptor, data, self.end)
            self._files.sync(self._descriptor)
            self._check_place()
        except OSError:
            with contextlib.suppress(OSError):  # tried again by the next append
                self._files.truncate(self._descriptor, self.end)
                self._ragged = False
            raise
        self._ragged = False
        self.end += len(data)

    def move(self, path: str) -> None:
        """Go on in a new file that begins with everything in this one; works for a file that was deleted, as
        long as it is open. Raises `OSError`, and then nothing has changed."""
        data = self._files.read_open(self._descriptor, 0, self.end)
        if len(data) < self.end:
            raise OSError(f"expected {self.end} bytes in {self.path}, found {len(data)}")
        self._files.replace(path, data)
        descriptor = self._files.open(path, os.O_RDWR)
        self.close()
        self._descriptor, self.path, self._ragged = descriptor, path, False
        self._identity = self._files.identity(descriptor)

    def close(self) -> None:
        """Let go of the file. A second time does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                self._files.close(descriptor)

    def _check_place(self) -> None:
        """Bytes in a file that nobody finds again are not saved: its folder was deleted, replaced, or taken
        over by another process. One lstat, about 2 µs."""
        try:
            in_place = self._files.identity(self.path) == self._identity
        except (FileNotFoundError, NotADirectoryError):
            in_place = False
        if not in_place:
            raise OSError(f"{self.path} was deleted, replaced or taken over")
