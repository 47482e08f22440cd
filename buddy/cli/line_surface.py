"""Plain lines as a session sees them. Imported only on a dumb terminal."""

from __future__ import annotations

from buddy.repl.plain import LineRepl
from buddy.repl.view.blocks import NoteBlock


class LineSurface:
    """The plain lines of a dumb terminal: what a screen would show briefly is printed, what it would draw is
    left out."""

    def __init__(self, line: LineRepl) -> None:
        self.state = line.state
        self.run = line.run
        self.end = line.end
        self.leave = line.leave
        self.print = line.print
        self.touch = line.touch
        self._line = line

    def hint(self, text: str) -> None:
        """Printed, since nothing else is there."""
        self.print(NoteBlock("hint", text))

    def put(self, text: str, *, over: bool) -> None:
        """The line belongs to the terminal: the text is printed, to be copied."""
        if text and over:
            self.print(NoteBlock("hint", f"not sent: {text}"))

    def edit(self) -> None:
        """There is no line to edit."""
        self.hint("there is no editor on a dumb terminal; set TERM")

    def expand(self) -> None:
        """Print the last folded output in full."""
        if not self._line.expand():
            self.hint("nothing is folded")

    def theme(self, name: str) -> bool:
        """Plain lines have no colours."""
        return False

    def write(self, sequence: str) -> bool:
        """A dumb terminal takes none."""
        return False

    def redraw(self) -> None:
        """Nothing is drawn."""

    def clear(self) -> None:
        """Nothing is drawn."""
