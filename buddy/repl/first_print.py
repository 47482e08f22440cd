"""Blocks on their way to the screen: the first ones wait for the painter, which is imported in a thread. What
is typed meanwhile is drawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from buddy.repl.blocks import Block


class Warmed(Protocol):
    """A resource that must be created before a block can be drawn."""

    @property
    def is_warm(self) -> bool:
        """Tell whether it has been created."""
        ...

    def warm(self) -> None:
        """Make it; in another thread."""
        ...


class FirstPrint:
    """`show` takes blocks as soon as they can be drawn. Used on the event loop's thread."""

    def __init__(self, painter: Warmed, show: Callable[[Sequence[Block]], None]) -> None:
        self._painter = painter
        self._show = show
        self._waiting: list[Block] = []
        self._warming: asyncio.Future[None] | None = None

    @property
    def waiting(self) -> Sequence[Block]:
        """Blocks that cannot be drawn yet."""
        return self._waiting

    def print(self, blocks: Sequence[Block]) -> None:
        """Show blocks, in their order, at once or when the painter is there; draw what is live."""
        if self._painter.is_warm or (self._warming is not None and self._warming.done()):
            self.flush()
            self._show(blocks)
            return
        if blocks:
            self._waiting.extend(blocks)
            self.warm()
        self._show(())

    def warm(self) -> None:
        """Begin to make the painter, once."""
        if self._warming is None and not self._painter.is_warm:
            try:
                self._warming = asyncio.get_running_loop().run_in_executor(None, self._painter.warm)
            except RuntimeError:  # no further thread can be started: a key waits instead
                self.flush()
                return
            self._warming.add_done_callback(self._is_warm)

    def _is_warm(self, warming: asyncio.Future[None]) -> None:
        """An error is not lost: drawing the blocks meets it again, and ends the screen in order."""
        if not warming.cancelled():
            warming.exception()
            self.flush()

    def flush(self) -> None:
        """Show what waits now, whatever it takes: the program is about to leave."""
        if waiting := self._waiting:
            self._waiting = []
            self._show(waiting)
