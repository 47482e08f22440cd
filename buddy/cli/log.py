"""The log file. Nothing is ever logged to the terminal; without --debug only warnings are kept."""

from __future__ import annotations

import logging
import os
import time
from typing import TextIO

from buddy.app.stderr import tell
from buddy.config.loading import Directories
from buddy.safety.paths import make_private_folders


class _Redacting(logging.Formatter):
    """Known secret shapes don't reach the log, whatever was logged; tracebacks carry no locals."""

    def format(self, record: logging.LogRecord) -> str:
        from buddy.safety.secrets.redact import redact  # 5 ms that a start without a warning need not pay

        return redact(super().format(record))


class _File(logging.StreamHandler[TextIO]):
    """The file. What it cannot take (the disk is full) waits in its buffer; telling stderr about it, as
    logging does, would be logged again while the screen is up, and so on without end."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """No more about a line that cannot be written."""


def start_log(where: Directories, *, debug: bool) -> str:
    """Log to a file of this day in the state directory; its path, printed when debugging. A directory that
    can't be written costs the log, not the run."""
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
