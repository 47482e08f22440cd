"""The terminal's side of a run: the screen, or plain lines on a dumb terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from buddy.agent.events import TaskEvent
from buddy.repl.early import Controller, LateCompleter
from buddy.repl.exit import Ending
from buddy.repl.view.blocks import Block, NoteBlock, ToolCall
from buddy.repl.view.state import ViewState


class Surface(Protocol):
    """The front end of a run, for a session."""

    state: ViewState

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> Ending:
        """Read input and show events until the user leaves."""
        ...

    def end(self, ending: Ending) -> None:
        """Leave; the first reason counts."""
        ...

    def leave(self) -> None:
        """Leave; while something runs, first warn what would end, and leave the second time."""
        ...

    def print(self, *blocks: Block) -> None:
        """Print blocks above the prompt."""
        ...

    def hint(self, text: str) -> None:
        """Show a short text that disappears."""
        ...

    def touch(self) -> None:
        """Report that the state of the session has changed."""
        ...

    def redraw(self) -> None:
        """Redraw the screen."""
        ...

    def clear(self) -> None:
        """Clear the screen."""
        ...

    def edit(self) -> None:
        """Open the line in the user's editor."""
        ...

    def expand(self) -> None:
        """Print the last folded output in full."""
        ...

    def put(self, text: str, *, over: bool) -> None:
        """Put text into the line, before its content; with `over` false, as a separate line."""
        ...

    def theme(self, name: str) -> bool:
        """Switch the theme; False without colours."""
        ...

    def write(self, sequence: str) -> bool:
        """Write a control sequence to the terminal; False when it takes none."""
        ...


class Front:
    """The terminal's side of a run, across sessions.

    `left` and `gone` are set when the screen closed; `switch_to` names the session to open next, None for
    none; `previous` is the session that was left for it; `trusted` tells whether the folder is trusted for
    this run; `theme` is the one chosen in this run.
    """

    def __init__(
        self,
        screen: Surface,
        controller: Controller,
        completer: LateCompleter,
        environment: Mapping[str, str],
    ) -> None:
        self.completer = completer
        self.screen = screen
        self.environment = environment
        self.state = screen.state
        self.controller = controller
        self.stop = asyncio.Event()
        self.gone = asyncio.Event()
        self.left = False
        self.previous = ""
        self.trusted = False
        self.switch_to: str | None = None
        self.theme = ""
        self.farewell = ""
        self.code = 0
        self.batches: asyncio.Queue[list[TaskEvent]] = asyncio.Queue()

    def print(self, *blocks: Block) -> None:
        """Print above the prompt, until the screen is closed."""
        if not self.left:
            self.state.folded.extend(block for block in blocks if isinstance(block, ToolCall))
            self.screen.print(*blocks)

    async def events(self) -> AsyncIterator[list[TaskEvent]]:
        """Yield the board's events, across sessions."""
        while True:
            yield await self.batches.get()
            self.batches.task_done()

    def end_without_session(self, code: int) -> None:
        """End the run: no session can be opened, and the reason is on the screen."""
        self.code = self.code or code
        self.screen.end("left")

    def report_loss(self, text: str) -> None:
        """Print what could not be saved, below the closed screen too; the run has failed."""
        self.print(NoteBlock("error", text))
        if self.left:
            self.farewell = text
        self.code = self.code or 1

    async def drain(self) -> None:
        """Wait until the screen has shown all events of the session, then reset the state."""
        displayed = asyncio.ensure_future(self.batches.join())
        gone = asyncio.ensure_future(self.gone.wait())
        await asyncio.wait({displayed, gone}, return_when=asyncio.FIRST_COMPLETED)
        displayed.cancel()
        gone.cancel()
        self.state.reset()
