"""Bars above and below the input of this screen: refreshed before each frame, marked as seen after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from buddy.repl.announce import Announcer
from buddy.repl.arriving import Colour, uncoloured
from buddy.repl.blocks import ApprovalAsked, Block, Expanded
from buddy.repl.chrome import hint_lines, steer_hint, top_lines
from buddy.repl.footer import footer_line, with_sign
from buddy.repl.live import Prose, plain_prose
from buddy.repl.output import FrameOutput
from buddy.repl.style import Line, Look
from buddy.repl.view import focus
from buddy.repl.view_state import DeskFacts, ViewState

HINT_S = 4.0
LOW_ROWS = 6
"""In a window this low a hint takes the place of the footer."""
LEAST_ROWS = 3
"""A request, the input and the footer: with less, no request is on the screen."""


class Bars:
    """The lines above and below the input, and what the terminal is told beside them."""

    def __init__(
        self,
        state: ViewState,
        output: FrameOutput,
        *,
        look: Look,
        clock: Callable[[], float],
        desk: Callable[[], DeskFacts],
        announcer: Announcer,
        sign: Callable[[], str] = lambda: "",
        colour: Colour = uncoloured,
        prose: Prose = plain_prose,
    ) -> None:
        self._state = state
        self._output = output
        self._look = look
        self._clock = clock
        self._desk = desk
        self._announcer = announcer
        self._sign = sign
        self._colour, self._prose = colour, prose
        self._top: list[Line] = []
        self._footer: Line = []
        self._hint, self._hint_until = "", 0.0

    def refresh(self, show: Callable[[Sequence[Block]], None]) -> tuple[int, bool]:
        """Before a frame. How many rows stand above the input, and whether they change by themselves; `show`
        takes what a task brings when it comes to the front."""
        brought = focus(self._state, self._desk())
        if brought:
            show(brought)
        size = self._output.get_size()
        now = self._clock()
        hints = hint_lines("", self._shown_hint(), size.columns, size.rows, self._look)
        self._top = top_lines(
            self._state,
            now,
            size.columns,
            size.rows - (len(hints) if size.rows > LOW_ROWS else 0),
            self._look,
            colour=self._colour,
            prose=self._prose,
        )
        self._footer = footer_line(self._state, size.columns, self._look, beside=bool(self._sign()))
        self._announcer.announce()
        live = self._state.running() or self._state.desk.own
        ticks = bool(live or self._state.inbox or now < self._hint_until)
        return len(self._top), ticks

    def note_seen(self, unprinted: Iterable[Block]) -> None:
        """After a frame reached the terminal: requests in it have been seen from now on, but not those whose
        whole text still waits to be printed."""
        if not self._state.inbox or self._output.get_size().rows < LEAST_ROWS:
            return
        now = self._clock()
        waiting = (block.block if isinstance(block, Expanded) else block for block in unprinted)
        unseen = {block.request_id for block in waiting if isinstance(block, ApprovalAsked)}
        for index, row in enumerate(self._state.inbox):
            if row.request_id in unseen:
                continue
            row.drawn_at = now if row.drawn_at is None else row.drawn_at
            if index == 0 and row.marked_at is None:
                row.marked_at = now

    def restyle(self, look: Look) -> None:
        """Another look, from the next frame on."""
        self._look = look

    def hint(self, text: str) -> None:
        """Show a line above the footer for a few seconds."""
        self._hint, self._hint_until = text, self._clock() + HINT_S

    def _shown_hint(self) -> str:
        return self._hint if self._clock() < self._hint_until else ""

    def top(self) -> list[Line]:
        """The lines above the input."""
        return self._top

    def below(self, text: str) -> list[Line]:
        """The lines below the input while `text` stands in it. The footer is that of the last frame: a key
        does not change it, but for vi's sign."""
        size = self._output.get_size()
        steers = steer_hint(self._state, text)
        hints = hint_lines(text, self._shown_hint(), size.columns, size.rows, self._look, steers=steers)
        if hints and size.rows <= LOW_ROWS:
            return hints
        return [*hints, with_sign(self._footer, self._sign(), self._look)]
