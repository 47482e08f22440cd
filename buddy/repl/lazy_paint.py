"""The painter, imported when it is first needed: 100 ms and 9 MB that no first frame has to wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from buddy.repl.blocks import Block, Expanded, Foldable
from buddy.repl.style import Look


class LazyPainter:
    """Draws blocks as text for the terminal."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._paint: Callable[[Block, int], str] | None = None

    def warm(self) -> None:
        """Make the painter now; may be called from another thread."""
        from buddy.repl.paint import Painter  # measured: 100 ms for markdown-it and pygments

        self._paint = self._paint or Painter(self._look).ansi

    def last_folded(self, blocks: deque[Foldable], columns: int) -> Expanded | None:
        """The newest block of which something is hidden, taken out together with what came after it."""
        from buddy.repl.paint import Painter  # as above

        painter = Painter(self._look)
        while blocks:
            block = blocks.pop()
            if painter.is_folded(block, columns):
                return Expanded(block)
        return None

    def __call__(self, block: Block, columns: int) -> str:
        """A block as text, lines ended by newlines."""
        if self._paint is None:
            self.warm()
        return self._paint(block, columns) if self._paint is not None else ""
