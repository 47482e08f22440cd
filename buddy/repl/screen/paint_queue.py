"""Blocks that wait to be printed: painted ahead in small steps or in another thread, once the painter is
imported."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, Protocol

from buddy.agent.display import Checklist, Command, Diff, Display, FileList, Picture, Plain
from buddy.repl.render.style import NO_PICTURES, Line, Look, PictureWay
from buddy.repl.screen.scrollback import NARROWEST, Paint
from buddy.repl.view.blocks import (
    ApprovalAnswered,
    ApprovalAsked,
    Block,
    CommandEcho,
    Expanded,
    Fence,
    Foldable,
    Lookups,
    Markdown,
    NoteBlock,
    PlainText,
    QuestionAsked,
    ReceiptBlock,
    TableBlock,
    TaskHeading,
    Thought,
    ToolCall,
    TurnSummary,
    UserPrompt,
    Welcome,
)
from buddy.repl.view.live import Colour, Prose, language_of, plain_code, plain_prose


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
        """Tell whether the painter is imported. An error is not lost: drawing the blocks meets it again and
        ends the screen in order."""
        if not warming.cancelled():
            warming.exception()
            self.flush()

    def flush(self) -> None:
        """Show what waits now, whatever it takes: the program is about to leave."""
        if waiting := self._waiting:
            self._waiting = []
            self._show(waiting)


KEPT_LINES = 64
KEPT_PROSE = 2


class LazyPainter:
    """Draws blocks as text for the terminal."""

    def __init__(self, look: Look, pictures: Callable[[], PictureWay] = lambda: NO_PICTURES) -> None:
        self._look = look
        self._pictures = pictures
        self._paint: Callable[[Block, int], str] | None = None
        self._code: Colour = plain_code
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
        from buddy.repl.render.code import highlight  # pygments: as below
        from buddy.repl.render.console import live_line  # rich: as below
        from buddy.repl.render.painter import Painter  # measured: 160 ms for rich, markdown-it and pygments

        @lru_cache(KEPT_LINES)
        def highlight_line(text: str, language: str) -> Line:
            return highlight(text, language)[0]

        look, paint = self._look, self._paint
        if paint is None:
            painter = Painter(look, self._pictures)

            @lru_cache(KEPT_PROSE)
            def prose(block: Markdown, width: int) -> list[Line]:
                return [live_line(row) for row in painter.rows(block, width)]

            paint, self._prose = painter.ansi, prose
        self._code = highlight_line
        self._paint = paint
        if look is not self._look:  # another theme was chosen meanwhile
            self._paint = None
            self.warm()

    def code(self, text: str, language: str) -> Line:
        """Return a line of code for the live region, with colours as soon as those are loaded. The lines of
        the last frame are known: colouring them again, 30 times a second, would cost 6 % of a core."""
        return self._code(text, language)

    def prose(self, block: Markdown, width: int) -> list[Line]:
        """Return the lines of Markdown that is still being written, as they will be printed as soon as the
        painter is there. The last frame's text is known."""
        return self._prose(block, width)

    def expand_last(self, blocks: deque[Foldable], columns: int) -> Expanded | None:
        """Return the newest block of which something is hidden, taken out together with what came after
        it."""
        from buddy.repl.render.painter import Painter  # as above

        painter = Painter(self._look, self._pictures)
        while blocks:
            block = blocks.pop()
            if painter.is_folded(block, columns):
                return Expanded(block)
        return None

    def __call__(self, block: Block, columns: int) -> str:
        """Return a block as text, lines ended by newlines."""
        if self._paint is None:
            self.warm()
        return self._paint(block, columns) if self._paint is not None else ""


STEP_S = 0.004
"""A key waits so long for a step, or as long as a single block that is not heavy."""
HEAVY_CHARS = 6000
HEAVY_TABLE_CHARS = 1000
"""Of Markdown with a table: every cell is laid out on its own, 0.3 ms a row."""
HEAVY_ROWS = 20
AHEAD_BLOCKS = 300
"""More are not painted before the screen has taken them: the terminal may be slow."""
DIFF_WEIGHT = 3
"""A diff is coloured twice and compared word by word: 13 ms for 80 lines."""
KEPT_HEAVY = 4
"""Heavy blocks whose text is kept: a repaint needs the last lines of it."""


class _Painted(NamedTuple):
    block: Block
    columns: int
    text: str


class PaintAhead:
    """The blocks in their order. Paints as `paint` does, and at once what was painted before; used on the
    event loop's thread. `on_painted` follows when another thread has painted something."""

    def __init__(
        self, paint: Paint, on_painted: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._paint = paint
        self._on_painted = on_painted
        self._clock = clock
        self._waiting: deque[Block] = deque()
        self._texts: dict[int, _Painted] = {}
        self._heavy: deque[_Painted] = deque(maxlen=KEPT_HEAVY)
        self._painted = 0
        self._thread: asyncio.Future[str] | None = None
        self._next: asyncio.Handle | None = None
        self._languages: set[str] = set()

    def __call__(self, block: Block, columns: int) -> str:
        """Return a block's text for a number of columns."""
        found = self._texts.get(id(block))
        for kept in (found, *self._heavy) if found is not None else self._heavy:
            if kept.block is block and kept.columns == columns:
                return kept.text
        text = self._paint(block, columns)
        if is_heavy(block):
            self._heavy.append(_Painted(block, columns, text))
        return text

    def add(self, blocks: Sequence[Block]) -> None:
        """Add blocks to be printed after all others."""
        self._waiting.extend(blocks)

    def is_ready(self, columns: int) -> bool:
        """Tell whether painted blocks are ready to print; paint the next ones when none is."""
        if not self._painted:
            self.step(columns)
        return self._painted > 0

    @property
    def waiting(self) -> Iterable[Block]:
        """The blocks that are not printed yet, in their order."""
        return self._waiting

    @property
    def is_empty(self) -> bool:
        """Tell whether no block waits."""
        return not self._waiting

    @property
    def has_work(self) -> bool:
        """Tell whether a step would paint something now."""
        return self._thread is None and self._painted < min(len(self._waiting), AHEAD_BLOCKS)

    def step(self, columns: int) -> None:
        """Paint the next blocks, for as long as a key may wait; at least one."""
        until = self._clock() + STEP_S
        columns = max(columns, NARROWEST)
        while self.has_work:
            block = self._waiting[self._painted]
            if is_heavy(block) or self._is_new(block):
                self._in_thread(block, columns)
                return
            self._texts[id(block)] = _Painted(block, columns, self._paint(block, columns))
            self._painted += 1
            if self._clock() >= until:
                return

    def go_on(self, columns: int) -> None:
        """Paint what waits, step by step, with keys between the steps."""
        if self.has_work and self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._go_on, columns)

    def _go_on(self, columns: int) -> None:
        self._next = None
        self.step(columns)
        self._on_painted()
        self.go_on(columns)

    def stop(self) -> None:
        """Paint no more."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def take(self, *, unpainted: bool = False) -> list[Block]:
        """Return the blocks that are ready, which are asked for in their order; `unpainted`: whatever
        waits."""
        count = len(self._waiting) if unpainted else self._painted
        self._painted = max(self._painted - count, 0)
        return [self._waiting.popleft() for _ in range(count)]

    def forget(self, blocks: Iterable[Block]) -> None:
        """Drop printed blocks. The text of the last heavy ones is kept for a repaint."""
        for block in blocks:
            painted = self._texts.pop(id(block), None)
            if painted is not None and is_heavy(block):
                self._heavy.append(painted)

    def _is_new(self, block: Block) -> bool:
        """Tell whether a block is code in a language not painted before: creating its lexer takes 50 ms."""
        languages = _languages(block) - {""}
        is_new = not languages <= self._languages
        self._languages |= languages
        return is_new

    def _in_thread(self, block: Block, columns: int) -> None:
        try:
            self._thread = asyncio.get_running_loop().run_in_executor(None, self._paint, block, columns)
        except RuntimeError:  # no further thread can be started: printing the block paints it
            self._painted += 1
            return
        self._thread.add_done_callback(partial(self._is_painted, block, columns))

    def _is_painted(self, block: Block, columns: int, thread: asyncio.Future[str]) -> None:
        """Tell whether the block is painted. An error is not lost: printing the block meets it again."""
        self._thread = None
        if thread.cancelled():
            return
        if thread.exception() is None:
            self._texts[id(block)] = _Painted(block, columns, thread.result())
        if self._painted < len(self._waiting) and self._waiting[self._painted] is block:
            self._painted += 1
        self._on_painted()


def _languages(block: Block) -> set[str]:
    """Return the languages of the code in a block."""
    match block:
        case Markdown(fence=Fence(language=language)):
            return {language}
        case ToolCall(display=Diff(files=files)) | ApprovalAsked(preview=Diff(files=files)):
            return {language_of(file.new_path or file.path) for file in files}
        case _:
            return set()


def is_heavy(block: Block) -> bool:
    """Tell whether painting a block takes longer than a key may wait. Folded text counts too: it is wrapped
    as well."""
    match block:
        case Markdown(text=text, fence=fence):
            most = HEAVY_TABLE_CHARS if fence is None and "\n|" in text else HEAVY_CHARS
            return len(text) + len(fence.context if fence is not None else "") > most
        case NoteBlock(text=text) | PlainText(text=text) | UserPrompt(text=text):
            return len(text) > HEAVY_CHARS
        case TableBlock():
            return len(block.rows) > HEAVY_ROWS
        case ToolCall(display=Picture(files=files)) if files:
            return True  # read, decoded, perhaps after asking the terminal
        case ToolCall():
            return max(_chars(block.display), len(block.text)) > HEAVY_CHARS
        case ApprovalAsked():
            return _chars(block.preview) > HEAVY_CHARS
        case Expanded():
            return True
        case Welcome() | Thought() | Lookups() | ApprovalAnswered() | TurnSummary() | TaskHeading():
            return False
        case ReceiptBlock() | QuestionAsked() | CommandEcho():
            return False


def _chars(display: Display) -> int:
    match display:
        case Plain(body=body):
            return len(body)
        case Diff():
            return DIFF_WEIGHT * sum(len(file.diff) for file in display.files)
        case Command():
            return len(display.command) + len(display.output)
        case FileList() | Checklist() | Picture():
            return 0
