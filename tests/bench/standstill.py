"""What the machine took from a measurement: time its host gave the cores to others (steal), and time the main
threads of the program and of the bench wanted to run and had to wait for a core. A figure above a limit says
something about the program only when this is small. Zero where the system does not tell (`/proc/stat`,
`/proc/PID/schedstat`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
STEAL = 8


class Taken(NamedTuple):
    """Milliseconds up to now: `host` over all cores, in whole ticks; `core` of both main threads."""

    host: float
    core: float

    def since(self, before: Taken) -> Taken:
        """What came since then."""
        return Taken(self.host - before.host, self.core - before.core)


def taken(pid: int) -> Taken:
    """What was taken from a process and from this one so far."""
    try:
        host = int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[STEAL]) * TICK_MS
        core = sum(_waited_ms(one) for one in (pid, os.getpid()))
    except (OSError, IndexError):
        return Taken(0.0, 0.0)
    return Taken(host, core)


def _waited_ms(pid: int) -> float:
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e6
