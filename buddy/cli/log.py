"""The log file. Nothing is logged to the terminal; without --debug only warnings are logged."""

from __future__ import annotations

import logging
import os
import time
from typing import TextIO

from buddy.app.stderr import tell
from buddy.config.loading import Directories
from buddy.safety.paths import make_private_folders


class _Redacting(logging.Formatter):
    """A formatter that removes secrets of known shapes."""

    def format(self, record: logging.LogRecord) -> str:
        from buddy.safety.secrets.redact import redact  # 5 ms, only needed with a warning

        return redact(super().format(record))


class _File(logging.StreamHandler[TextIO]):
    """The handler of the log file."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Drop the error. Logging would print it to stderr, which is logged again while the screen is up,
        without end."""


def start_log(where: Directories, *, debug: bool) -> str:
    """Log to today's file in the state directory and return its path, which is printed when debugging. A
    directory that can't be written only costs the log."""
    folder = os.path.join(where.state, "logs")
    path = os.path.join(folder, time.strftime("%Y-%m-%d.log"))
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    try:
        make_private_folders(folder)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        root.addHandler(logging.NullHandler())
        if debug:
            tell(f"buddy: no log: {path}: {error.strerror}\n")
        return ""
    handler = _File(os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace"))
    handler.setFormatter(_Redacting("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.WARNING)
    logging.captureWarnings(capture=True)
    if debug:
        tell(f"buddy: log: {path}\n")
    return path
