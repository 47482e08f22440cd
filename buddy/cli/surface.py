"""Interface between a session and the front end at the terminal: the screen, or plain lines on a dumb one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from buddy.agent.events import TaskEvent
from buddy.repl.exit import Ending
from buddy.repl.view.blocks import Block
from buddy.repl.view.state import ViewState


class Surface(Protocol):
    """The front end of a run, as a session sees it."""

    state: ViewState

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> Ending:
        """Read and show until the person leaves."""
        ...

    def end(self, ending: Ending) -> None:
        """Leave; the first reason counts."""
        ...

    def leave(self) -> None:
        """Leave; while something runs, say first what would end, and leave the second time."""
        ...

    def print(self, *blocks: Block) -> None:
        """Print blocks above the prompt."""
        ...

    def hint(self, text: str) -> None:
        """Say something short that does not last."""
        ...

    def touch(self) -> None:
        """Note that the state of the session has changed."""
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
        """Put text into the line, before what stands there; not `over`: as a line of its own."""
        ...

    def theme(self, name: str) -> bool:
        """Draw with another theme; False where there are no colours."""
        ...

    def write(self, sequence: str) -> bool:
        """A control sequence for the terminal; False where it takes none."""
        ...
