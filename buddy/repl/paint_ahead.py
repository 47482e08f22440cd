"""Blocks that wait to be printed, painted before the frame that shows them: a few milliseconds at a time, so
that no key waits, and in another thread where a single block would take longer than that.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from buddy.agent.display import Checklist, Command, Diff, Display, FileList, Picture, Plain
from buddy.repl.arriving import language_of
from buddy.repl.blocks import (
    ApprovalAnswered,
    ApprovalAsked,
    Block,
    CommandEcho,
    Expanded,
    Fence,
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
from buddy.repl.printed import NARROWEST, Paint

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
        """A block's text for a number of columns."""
        found = self._texts.get(id(block))
        for kept in (found, *self._heavy) if found is not None else self._heavy:
            if kept.block is block and kept.columns == columns:
                return kept.text
        text = self._paint(block, columns)
        if is_heavy(block):
            self._heavy.append(_Painted(block, columns, text))
        return text

    def add(self, blocks: Sequence[Block]) -> None:
        """Blocks to be printed after all others."""
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
        """The blocks that are ready, which are asked for in their order; `unpainted`: whatever waits."""
        count = len(self._waiting) if unpainted else self._painted
        self._painted = max(self._painted - count, 0)
        return [self._waiting.popleft() for _ in range(count)]

    def forget(self, blocks: Iterable[Block]) -> None:
        """These have been printed. Only of the last heavy ones the text is kept: a repaint asks for it."""
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
        """An error is not lost: printing the block meets it again."""
        self._thread = None
        if thread.cancelled():
            return
        if thread.exception() is None:
            self._texts[id(block)] = _Painted(block, columns, thread.result())
        if self._painted < len(self._waiting) and self._waiting[self._painted] is block:
            self._painted += 1
        self._on_painted()


def _languages(block: Block) -> set[str]:
    """The languages of the code in a block."""
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
