"""What stands on a terminal's screen, as text."""

from __future__ import annotations

import pyte


def rows_of(screen: pyte.Screen) -> list[str]:
    """The screen, without blank lines at its end."""
    return "\n".join(line.rstrip() for line in screen.display).rstrip().split("\n")


def everything_of(screen: pyte.HistoryScreen) -> list[str]:
    """Scrollback and screen."""
    past = ["".join(line[x].data for x in range(screen.columns)).rstrip() for line in screen.history.top]
    return past + rows_of(screen)
