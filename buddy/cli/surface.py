"""What a session does to whatever stands at the terminal: the screen, or the plain lines of a dumb one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from buddy.agent.events import TaskEvent
from buddy.repl.blocks import Block, Note
from buddy.repl.leaving import Ending
from buddy.repl.line_mode import LineRepl
from buddy.repl.view_state import ViewState


class Surface(Protocol):
    """The front end of a run, as a session sees it."""

    state: ViewState

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> Ending:
        """Read and show until the person leaves."""
        ...

    def end(self, ending: Ending) -> None:
        """Leave; the first reason counts."""
        ...

    def print(self, *blocks: Block) -> None:
        """Print blocks above the prompt."""
        ...

    def hint(self, text: str) -> None:
        """Say something short that does not last."""
        ...

    def touch(self) -> None:
        """What the desk says has changed."""
        ...

    def redraw(self) -> None:
        """Draw the screen again."""
        ...

    def clear(self) -> None:
        """Empty the screen."""
        ...

    def edit(self) -> None:
        """Open the line in the person's editor."""
        ...

    def expand(self) -> None:
        """Print the last folded output in full."""
        ...

    def put(self, text: str, *, over: bool) -> None:
        """Put text into the line: before what stands there (`over`), or only if nothing does."""
        ...

    def write(self, sequence: str) -> bool:
        """A control sequence for the terminal; False where it takes none."""
        ...


class LineSurface:
    """The plain lines of a dumb terminal: what a screen would show briefly is printed, what it would draw is
    left out."""

    def __init__(self, line: LineRepl) -> None:
        self.state = line.state
        self.run = line.run
        self.end = line.end
        self.print = line.print
        self.touch = line.touch
        self._line = line

    def hint(self, text: str) -> None:
        """Printed, since nothing else is there."""
        self.print(Note("hint", text))

    def put(self, text: str, *, over: bool) -> None:
        """The line belongs to the terminal: the text is printed, to be copied."""
        if text and over:
            self.print(Note("hint", f"not sent: {text}"))

    def edit(self) -> None:
        """There is no line to edit."""
        self.hint("there is no editor on a dumb terminal; set TERM")

    def expand(self) -> None:
        """What was folded is printed once more, in full."""
        if not self._line.expand():
            self.hint("nothing is folded")

    def write(self, sequence: str) -> bool:
        """A dumb terminal takes none."""
        return False

    def redraw(self) -> None:
        """Nothing is drawn."""

    def clear(self) -> None:
        """Nothing is drawn."""
