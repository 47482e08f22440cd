"""Characters as a person counts them: a flag, a family, a letter with its accents are one each to the cursor
and to whatever deletes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from re import Pattern

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.cache import FastDictCache
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import FilterOrBool
from prompt_toolkit.history import History
from prompt_toolkit.selection import SelectionState
from wcwidth import grapheme_boundary_before, iter_graphemes

LOOKED_AT = 256
"""As many code points before a place are looked at, and a quarter of them behind it."""


def span_at(text: str, at: int) -> tuple[int, int]:
    """Return start and end of the grapheme that contains the code point at a position."""
    first = max(0, at - LOOKED_AT)
    near = text[first : at + LOOKED_AT // 4]
    if near.isascii():
        return at, at + 1
    begin = grapheme_boundary_before(near, at - first + 1)
    size = len(next(iter_graphemes(near[begin:])))
    return first + begin, first + begin + size


class GraphemeDocument(Document):
    """A text with a cursor that moves by characters, and by words of any script."""

    def get_cursor_left_position(self, count: int = 1) -> int:
        """Return the offset of `count` graphemes to the left, within the cursor's line."""
        if count < 0:
            return self.get_cursor_right_position(-count)
        at, first = self.cursor_position, self.cursor_position - self.cursor_position_col
        for _ in range(min(count, at - first)):
            at = max(span_at(self.text, at - 1)[0], first) if at > first else at
        return at - self.cursor_position

    def get_cursor_right_position(self, count: int = 1) -> int:
        """Return the offset of `count` graphemes to the right, within the cursor's line."""
        if count < 0:
            return self.get_cursor_left_position(-count)
        at, last = self.cursor_position, self.cursor_position + len(self.current_line_after_cursor)
        for _ in range(min(count, last - at)):
            at = min(span_at(self.text, at)[1], last) if at < last else at
        return at - self.cursor_position

    def _in_shapes(self) -> Document:
        """Return the same with a letter for whatever belongs to a word: prompt_toolkit knows those of
        English."""
        return self if self.text.isascii() else Document(_shapes(self.text), self.cursor_position)

    def find_start_of_previous_word(
        self,
        count: int = 1,
        WORD: bool = False,  # noqa: N803 - prompt_toolkit's name
        pattern: Pattern[str] | None = None,
    ) -> int | None:
        """Return the start of the word before the cursor, relative to the cursor."""
        shown = self if pattern is not None else self._in_shapes()
        return Document.find_start_of_previous_word(shown, count, WORD, pattern)

    def find_boundaries_of_current_word(
        self,
        WORD: bool = False,  # noqa: N803 - prompt_toolkit's name
        include_leading_whitespace: bool = False,
        include_trailing_whitespace: bool = False,
    ) -> tuple[int, int]:
        """Return start and end of the word at the cursor, relative to the cursor."""
        blanks = (include_leading_whitespace, include_trailing_whitespace)
        return Document.find_boundaries_of_current_word(self._in_shapes(), WORD, *blanks)

    def find_next_word_beginning(self, count: int = 1, WORD: bool = False) -> int | None:  # noqa: N803 - as above
        """Return the start of a word after the cursor, relative to the cursor."""
        return Document.find_next_word_beginning(self._in_shapes(), count, WORD)

    def find_next_word_ending(
        self,
        include_current_position: bool = False,
        count: int = 1,
        WORD: bool = False,  # noqa: N803 - as above
    ) -> int | None:
        """Return the end of a word after the cursor, relative to the cursor."""
        return Document.find_next_word_ending(self._in_shapes(), include_current_position, count, WORD)

    def find_previous_word_beginning(self, count: int = 1, WORD: bool = False) -> int | None:  # noqa: N803 - as above
        """Return the start of a word before the cursor, relative to the cursor."""
        return Document.find_previous_word_beginning(self._in_shapes(), count, WORD)

    def find_previous_word_ending(self, count: int = 1, WORD: bool = False) -> int | None:  # noqa: N803 - as above
        """Return the end of a word before the cursor, relative to the cursor."""
        return Document.find_previous_word_ending(self._in_shapes(), count, WORD)


def _shapes(text: str) -> str:
    """Return a text of the same length: "a" for letters and digits of all scripts, "." for other signs; marks
    and joiners are what they follow."""
    shapes: list[str] = []
    kind = "."
    for char in text:
        if char.isspace():
            kind = "."
            shapes.append(char)
            continue
        if char.isascii():
            kind = "a" if char.isalnum() or char == "_" else char
        elif char.isalnum():
            kind = "a"
        elif unicodedata.category(char) not in ("Mn", "Mc", "Me", "Cf"):
            kind = "."
        shapes.append(kind)
    return "".join(shapes)


class GraphemeBuffer(Buffer):
    """A line whose cursor stands between characters, never inside one; a key deletes a whole one."""

    def __init__(
        self,
        history: History,
        completer: Completer | None,
        complete_while_typing: FilterOrBool,
        on_text_changed: Callable[[Buffer], None],
        on_cursor_position_changed: Callable[[Buffer], None],
    ) -> None:
        self._documents: FastDictCache[tuple[str, int, SelectionState | None], Document] = FastDictCache(
            GraphemeDocument, size=10
        )
        super().__init__(
            name="input",
            multiline=True,
            history=history,
            completer=completer,
            complete_while_typing=complete_while_typing,
            on_text_changed=on_text_changed,
            on_cursor_position_changed=on_cursor_position_changed,
        )

    @property
    def document(self) -> Document:
        """The text with the cursor."""
        return self._documents[self.text, self.cursor_position, self.selection_state]

    @document.setter
    def document(self, value: Document) -> None:
        self.set_document(value)

    def delete_before_cursor(self, count: int = 1) -> str:
        """Delete to the left; returns what was deleted. One is one character, as every key that deletes asks
        for; of more, code points are counted: those were measured, to the beginning of a word."""
        at = self.cursor_position
        if count == 1 and at:
            count = at - span_at(self.text, at - 1)[0]
        return super().delete_before_cursor(count)

    def delete(self, count: int = 1) -> str:
        """Delete to the right; returns what was deleted. Counted as to the left."""
        at = self.cursor_position
        if count == 1 and at < len(self.text):
            count = span_at(self.text, at)[1] - at
        return super().delete(count)
