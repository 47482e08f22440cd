"""Protection of this process's memory: no core dumps, no reading by other processes of the same user, no
variables in crash reports."""

from __future__ import annotations

import ctypes
import sys
import traceback
from collections.abc import Sequence

from buddy.safety.sanitise import clean
from buddy.safety.secrets.redact import redact

if sys.platform != "win32":  # pragma: no branch - on Windows through WSL; importing must work everywhere
    import resource

PR_SET_DUMPABLE = 4
"""From linux/prctl.h. A process that is not dumpable has a /proc/PID/environ and mem only root can read."""


def guard_process() -> tuple[str, ...]:
    """Make this process non-dumpable, without core files. Return one line per failure."""
    problems: list[str] = []
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (OSError, ValueError) as error:
        problems.append(f"core dumps cannot be switched off: {error}")
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
            problems.append(f"the process stays readable to others: error {ctypes.get_errno()}")
    return tuple(problems)


def crash_report(error: BaseException, keys: Sequence[str] = ()) -> str:
    """Return the traceback of a crash for a log: where it happened, without the values of variables, keys
    redacted."""
    return clean(redact("".join(traceback.format_exception(error)), keys), blank_lines=0)
