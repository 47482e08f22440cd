"""The screen as a surface. Imported only with a screen: prompt_toolkit takes 60 ms that a dumb terminal does
not need."""

from __future__ import annotations

from collections.abc import Callable

from buddy.repl.app import Repl
from buddy.repl.render.style import Look


class ScreenSurface:
    """The surface of a real terminal."""

    def __init__(self, repl: Repl, look_of: Callable[[str], Look]) -> None:
        self.state = repl.state
        self.run = repl.run
        self.end = repl.end
        self.leave = repl.leave
        self.print = repl.print
        self.hint = repl.hint
        self.touch = repl.screen.touch
        self.redraw = repl.redraw
        self.clear = repl.screen.clear
        self.edit = repl.edit
        self.expand = repl.expand
        self._restyle, self._look_of = repl.restyle, look_of
        self._screen = repl.screen
        self._editor, self._give_back = repl.editor, repl.give_back

    def theme(self, name: str) -> bool:
        """Switch the theme."""
        look = self._look_of(name)
        self._restyle(look)
        return look.theme != "mono" or name == "plain"

    def write(self, sequence: str) -> bool:
        """Write a control sequence with the next frame."""
        self._screen.write(sequence)
        return True

    def put(self, text: str, *, over: bool) -> None:
        """Put text into the line, before its content; with `over` false, as a refused line."""
        if over:
            self._editor.put_back(text)
        elif text:
            self._give_back(text)
