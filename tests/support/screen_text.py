"""The text on a terminal's screen."""

from __future__ import annotations

from collections.abc import Mapping

import pyte
from pyte.screens import Char
from wcwidth import wcwidth


def rows_of(screen: pyte.Screen) -> list[str]:
    """The screen, without blank lines at its end."""
    # Not `screen.display`: it fails where half of a wide character was written over.
    lines = [_text(screen.buffer[y], screen.columns).rstrip() for y in range(screen.lines)]
    return "\n".join(lines).rstrip().split("\n")


def everything_of(screen: pyte.HistoryScreen) -> list[str]:
    """Scrollback and screen."""
    past = [_text(line, screen.columns).rstrip() for line in screen.history.top]
    return past + rows_of(screen)


def _text(line: Mapping[int, Char], columns: int) -> str:
    """The second half of a wide character is an empty cell; without its first half, a blank one."""
    signs = [line[x].data for x in range(columns)]
    before = ["", *signs]
    return "".join(
        sign or ("" if wcwidth(left[:1]) == 2 else " ") for left, sign in zip(before, signs, strict=False)
    )
