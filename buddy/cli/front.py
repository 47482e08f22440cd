"""The terminal's side of a run, as its sessions see it: the screen, or plain lines on a dumb terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from buddy.agent.events import TaskEvent
from buddy.repl.exit import Ending
from buddy.repl.input.late_completion import LateCompleter
from buddy.repl.intent_queue import Controller
from buddy.repl.view.blocks import Block, ToolCall
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


class Front:
    """The terminal's side of a run: what a session prints to, and what it is told when the person leaves.
    `left` and `gone` are set when the screen is; `switch_to` names the session to open next, None when there
    is none; `previous` is the one that was left for it. `trusted`: the folder is, for this run. `theme`: the
    one chosen in it."""

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
        """Print above the prompt; afterwards, when the screen is gone, nowhere."""
        if not self.left:
            self.state.folded.extend(block for block in blocks if isinstance(block, ToolCall))
            self.screen.print(*blocks)

    async def events(self) -> AsyncIterator[list[TaskEvent]]:
        """Yield the board's events, across sessions."""
        while True:
            yield await self.batches.get()
            self.batches.task_done()

    def end_without_session(self, code: int) -> None:
        """No session can be had: the reason is on the screen, and nothing that is typed could be kept."""
        self.code = self.code or code
        self.screen.end("left")

    async def settle(self) -> None:
        """Wait until the screen has taken what the board said to the end, then forget the session."""
        shown = asyncio.ensure_future(self.batches.join())
        gone = asyncio.ensure_future(self.gone.wait())
        await asyncio.wait({shown, gone}, return_when=asyncio.FIRST_COMPLETED)
        shown.cancel()
        gone.cancel()
        self.state.reset()
