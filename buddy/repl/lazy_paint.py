"""The painter, imported when it is first needed: 160 ms and 13 MB that no first frame has to wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache

from buddy.repl.arriving import Colour, uncoloured
from buddy.repl.blocks import Block, Expanded, Foldable, Markdown
from buddy.repl.live import Prose, plain_prose
from buddy.repl.style import Line, Look

KEPT_LINES = 64
KEPT_PROSE = 2


class LazyPainter:
    """Draws blocks as text for the terminal."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._paint: Callable[[Block, int], str] | None = None
        self._code: Colour = uncoloured
        self._prose: Prose = plain_prose

    def restyle(self, look: Look) -> None:
        """Draw with another look from now on."""
        self._look, was_warm, self._paint = look, self.is_warm, None
        if was_warm:
            self.warm()

    @property
    def is_warm(self) -> bool:
        """Tell whether the paint has been created."""
        return self._paint is not None

    def warm(self) -> None:
        """Make the painter now; may be called from another thread."""
        from buddy.repl.canvas import live_line  # rich: as below
        from buddy.repl.highlight import highlighted  # pygments: as below
        from buddy.repl.paint import Painter  # measured: 160 ms for rich, markdown-it and pygments

        @lru_cache(KEPT_LINES)
        def coloured(text: str, language: str) -> Line:
            return highlighted(text, language)[0]

        look, paint = self._look, self._paint
        if paint is None:
            painter = Painter(look)

            @lru_cache(KEPT_PROSE)
            def prose(block: Markdown, width: int) -> list[Line]:
                return [live_line(row) for row in painter.rows(block, width)]

            paint, self._prose = painter.ansi, prose
        self._code = coloured
        self._paint = paint
        if look is not self._look:  # another theme was chosen meanwhile
            self._paint = None
            self.warm()

    def code(self, text: str, language: str) -> Line:
        """A line of code for the live region, with colours as soon as those are loaded. The lines of the last
        frame are known: colouring them again, 30 times a second, would cost 6 % of a core."""
        return self._code(text, language)

    def prose(self, block: Markdown, width: int) -> list[Line]:
        """The lines of Markdown that is still being written, as they will be printed as soon as the painter
        is there. The last frame's text is known."""
        return self._prose(block, width)

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
