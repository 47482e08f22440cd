"""Measures how long the loop of a running buddy was busy without reading keys: every stretch between two
looks, in time of the loop's thread on a core, so that a slow or busy machine counts for little.

    watch = LoopWatch(tmp_path)
    async with on_terminal(program, command=watch.program) as terminal:
        watch.begin()
        …
        assert watch.usual_longest_ms() < 100
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

SHORTEST_MS = 1.0
WATCHED = f"""
import os, selectors, sys, threading, time
log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
of_main = threading.get_ident()
select = selectors.EpollSelector.select
began = [0.0]

def watched(self, timeout=None):
    if threading.get_ident() != of_main:
        return select(self, timeout)
    busy_ms = (time.thread_time() - began[0]) * 1000
    if busy_ms > {SHORTEST_MS}:
        os.write(log, b"%f %f\\n" % (time.monotonic(), busy_ms))
    found = select(self, timeout)
    began[0] = time.thread_time()
    return found

selectors.EpollSelector.select = watched
from buddy.__main__ import main
sys.exit(main())
"""


class LoopWatch:
    """The figures of one program. `program` is to be started instead of buddy."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "stretches"
        self._since = 0.0
        self.program = (sys.executable, "-c", WATCHED, str(self._log))

    def begin(self) -> None:
        """Discard earlier measurements."""
        self._since = time.monotonic()

    def stretches_ms(self) -> list[float]:
        """Those above a millisecond, the longest first."""
        lines = [line.split() for line in self._log.read_text().splitlines()]
        return sorted((float(busy) for at, busy in lines if float(at) >= self._since), reverse=True)

    def usual_longest_ms(self) -> float:
        """The longest but for one in fifty: where a machine gives its cores away, the time that somebody else
        had them counts as the thread's own."""
        longest = self.stretches_ms()
        return longest[len(longest) // 50 + 1] if len(longest) > 1 else 0.0
