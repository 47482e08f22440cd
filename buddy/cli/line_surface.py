"""Plain lines as a surface. Imported only on a dumb terminal."""

from __future__ import annotations

from buddy.repl.plain import LineRepl
from buddy.repl.view.blocks import NoteBlock


class LineSurface:
    """The surface of a dumb terminal: temporary texts are printed, drawing is left out."""

    def __init__(self, line: LineRepl) -> None:
        self.state = line.state
        self.run = line.run
        self.end = line.end
        self.leave = line.leave
        self.print = line.print
        self.touch = line.touch
        self._line = line

    def hint(self, text: str) -> None:
        """Print it, because nothing else is there."""
        self.print(NoteBlock("hint", text))

    def put(self, text: str, *, over: bool) -> None:
        """Print the text for copying: the line belongs to the terminal."""
        if text and over:
            self.print(NoteBlock("hint", f"not sent: {text}"))

    def edit(self) -> None:
        """Say that there is no line to edit."""
        self.hint("there is no editor on a dumb terminal; set TERM")

    def expand(self) -> None:
        """Print the last folded output in full."""
        if not self._line.expand():
            self.hint("nothing is folded")

    def theme(self, name: str) -> bool:
        """Return False: plain lines have no colours."""
        return False

    def write(self, sequence: str) -> bool:
        """Return False: a dumb terminal takes no sequences."""
        return False

    def redraw(self) -> None:
        """Do nothing."""

    def clear(self) -> None:
        """Do nothing."""
