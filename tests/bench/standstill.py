"""The time the machine took from a measurement: time its host gave the cores to others (steal), and time in
which somebody who wanted to run had to wait for a core (pressure). A figure above a limit says something
about the program only when both are small. Zero where the system does not tell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
STEAL = 8


class Taken(NamedTuple):
    """Milliseconds up to now: `host` over all cores, in whole ticks; `core` while anybody waited for one."""

    host: float
    core: float

    def since(self, before: Taken) -> Taken:
        """Return the time taken since then."""
        return Taken(self.host - before.host, self.core - before.core)


def taken() -> Taken:
    """The time taken so far."""
    return Taken(_host_ms(), _core_ms())


def _host_ms() -> float:
    try:
        line = Path("/proc/stat").read_text().split("\n", 1)[0]
    except OSError:
        return 0.0
    return int(line.split()[STEAL]) * TICK_MS


def _core_ms() -> float:
    try:
        line = Path("/proc/pressure/cpu").read_text().split("\n", 1)[0]
    except OSError:
        return 0.0
    return int(line.rpartition("total=")[2]) / 1000
