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


class ScreenText:
    """The text of a screen that is looked at often: it is read again only after a change."""

    def __init__(self, screen: pyte.HistoryScreen) -> None:
        self._screen = screen
        self._stream = pyte.ByteStream(screen)
        self._fed = 0
        self._rows: tuple[object, list[str]] = (None, [])
        self._everything: tuple[object, list[str]] = (None, [])

    def feed(self, data: bytes) -> None:
        """Show the output of a program."""
        self._fed += 1
        self._stream.feed(data)

    def rows(self) -> list[str]:
        """The screen, without blank lines at its end."""
        if self._rows[0] != self._state():
            self._rows = self._state(), rows_of(self._screen)
        return list(self._rows[1])

    def everything(self) -> list[str]:
        """Scrollback and screen."""
        if self._everything[0] != self._state():
            self._everything = self._state(), everything_of(self._screen)
        return list(self._everything[1])

    def _state(self) -> object:
        return self._fed, self._screen.columns, self._screen.lines


def _text(line: Mapping[int, Char], columns: int) -> str:
    """The second half of a wide character is an empty cell; without its first half, a blank one."""
    signs = [line[x].data for x in range(columns)]
    if "" not in signs:
        return "".join(signs)
    before = ["", *signs]
    return "".join(
        sign or ("" if wcwidth(left[:1]) == 2 else " ") for left, sign in zip(before, signs, strict=False)
    )
