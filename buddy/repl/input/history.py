"""History of typed prompts in a private file; empty where no file can be had."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator

from prompt_toolkit.history import History, InMemoryHistory

from buddy.safety.paths import make_private_folders

KEPT_LINES = 5000
READ_BYTES = 2_000_000
AT_ONCE = 100
"""Entries that are read without a pause: all of 5,000 kept the first key from its echo for 50 ms."""
KEPT_CHARS = 50_000
"""A longer line is not written: a few of them would leave no room for others in what is read again."""


class LineHistory(History):
    """One JSON string per line, newest last. Lines that begin with a blank are not written, as in a shell.
    Keys and tokens of known shapes come back while the program runs, and are never
    written. `resolved` gives a line with what was pasted into it, which is what another run needs; very long
    ones are kept for this run alone. A full or read-only disk loses history, nothing else."""

    def __init__(self, path: str, log: Callable[[str], None], resolved: Callable[[str], str]) -> None:
        super().__init__()
        self._path = path
        self._log = log
        self._resolved = resolved
        self._unread = iter(self.load_history_strings())

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield entries, newest first: some at once, for an arrow that was typed early, the rest between
        keys."""
        for count, entry in enumerate(self._entries(), 1):
            yield entry
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)

    def _entries(self) -> Iterator[str]:
        """Yield the entries already loaded, then those still to be read. Stopping early loses nothing."""
        yield from tuple(self._loaded_strings)
        for entry in self._unread:
            self._loaded_strings.append(entry)
            yield entry

    def load_history_strings(self) -> Iterable[str]:
        """Entries, newest first."""
        try:
            with open(self._path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - READ_BYTES))
                lines = file.read().decode("utf-8", "replace").splitlines()[-KEPT_LINES:]
        except OSError:
            return
        for line in reversed(lines):
            entry = _entry(line)
            if entry:
                yield entry

    def store_string(self, string: str) -> None:
        """Append one entry."""
        from buddy.safety.secrets.redact import redact  # 5 ms that the first frame does not wait for

        text = self._resolved(string)
        if string.startswith(" ") or len(text) > KEPT_CHARS:
            return
        try:
            _append(self._path, (json.dumps(redact(text)) + "\n").encode("ascii"))
        except OSError as error:
            self._log(f"input history was not written: {error}")


def _append(path: str, line: bytes) -> None:
    """Append a whole line or nothing: half a line would spoil the next, too. Raises `OSError`."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        written = os.write(fd, line)
        if written < len(line):
            end = os.lseek(fd, 0, os.SEEK_CUR)
            if os.fstat(fd).st_size == end:  # nobody else has added a line since
                os.ftruncate(fd, end - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    finally:
        os.close(fd)


def _entry(line: str) -> str:
    try:
        found: object = json.loads(line)
    except ValueError:  # the first line may be cut, and a person may have edited the file
        return ""
    return found if isinstance(found, str) else ""


def open_history(path: str | None, log: Callable[[str], None], resolved: Callable[[str], str]) -> History:
    """Return the history at `path`, its directory made; in memory where that is not possible."""
    if path is None:
        return InMemoryHistory()
    try:
        make_private_folders(os.path.dirname(path))
    except OSError as error:
        log(f"input history stays in memory: {error}")
        return InMemoryHistory()
    return LineHistory(path, log, resolved)
