"""`sys.stdout` and `sys.stderr` while the screen is up: lines that go to the log instead."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Generator

MAX_LINE_CHARS = 100_000


class LogStream(io.TextIOBase):
    """A text stream that gives every complete line to `log`."""

    def __init__(self, log: Callable[[str], None]) -> None:
        super().__init__()
        self._log = log
        self._line = ""

    def writable(self) -> bool:
        """It can be written to."""
        return True

    def write(self, text: str, /) -> int:
        """Take text; complete lines are logged."""
        *lines, self._line = (self._line + text).split("\n")
        if len(self._line) > MAX_LINE_CHARS:
            lines.append(self._line)
            self._line = ""
        for line in lines:
            self._log(line)
        return len(text)

    def finish(self) -> None:
        """Log what stands without a line end."""
        if self._line:
            self._log(self._line)
            self._line = ""


@contextlib.contextmanager
def streams_to(log: Callable[[str], None]) -> Generator[None]:
    """Nothing but the screen writes to the terminal: prints and warnings become log lines."""
    stream = LogStream(log)
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        try:
            yield
        finally:
            stream.finish()
            sys.stdout.flush()
