"""One process at one moment, as every system tells of it."""

from __future__ import annotations

import msgspec

DEAD = "ZX"


class ProcessInfo(msgspec.Struct, frozen=True):
    """One process at one moment. `started` (clock ticks since boot) tells two owners of one id apart. In a
    container `group` and `session` are 0 for a process whose leader stands outside of it."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    started: int
    kernel: bool = False

    @property
    def alive(self) -> bool:
        """Tell whether the process still runs; a zombie does not."""
        return self.state not in DEAD
