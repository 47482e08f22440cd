"""Lines of the live region and their width in terminal cells: measuring, cutting, wrapping. Needed before
rich is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from prompt_toolkit import utils
from wcwidth import wcwidth

from buddy.agent.lazy_regex import pattern
from buddy.repl.render.style import Line, Span

_SGR = pattern("\x1b\\[[0-9;]*[mK]")
_DRAWING = pattern("\x1b7((?:\x1b_Ga=d,[^\x1b]*\x1b\\\\)?).*?\x1b8", re.DOTALL)
"""A picture over rows that are there already; before it, the command that takes away where it was."""
_PIECES = pattern(r"[ ]+|[^ ]+")


HALF_FLAGS = range(0x1F1E6, 0x1F200)
"""Letters of which two are a flag. wcwidth gives each two cells; terminals give the pair two."""


@lru_cache(maxsize=4096)
def _cell(char: str) -> int:
    return 1 if ord(char) in HALF_FLAGS else max(0, wcwidth(char))


def teach_flags() -> None:
    """Let prompt_toolkit measure flags as we do. Called before the first frame."""
    utils._CHAR_SIZES_CACHE.update((chr(half), 1) for half in HALF_FLAGS)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - no public way


def cells(text: str) -> int:
    """Return the terminal cells a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cell, text))


def line_cells(line: Line) -> int:
    """Return the terminal cells a line takes."""
    return sum(cells(text) for _style, text in line)


def split_at(text: str, width: int) -> tuple[str, str]:
    """Return a text cut so that the first part takes at most `width` cells (at least one character, so that
    cutting always gets on)."""
    if text.isascii():
        width = max(width, 1)
        return text[:width], text[width:]
    used = 0
    for index, char in enumerate(text):
        used += _cell(char)
        if used > width and index:
            return text[:index], text[index:]
    return text, ""


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """Return a text in at most `width` cells, with an ellipsis where something is missing."""
    if cells(text) <= width:
        return text
    if width <= 1:
        return ellipsis[: max(width, 0)]
    return split_at(text, width - cells(ellipsis))[0] + ellipsis


def fit_line(line: Line, width: int, ellipsis: str = "…") -> Line:
    """Return a line in at most `width` cells."""
    if line_cells(line) <= width:
        return line
    kept: Line = []
    left = width
    for style, text in line:
        size = cells(text)
        if size >= left:
            kept.append((style, fit(text + "  ", left, ellipsis)))
            break
        kept.append((style, text))
        left -= size
    return kept


def wrap(line: Line, width: int) -> list[Line]:
    """Return a line as lines of at most `width` cells, broken at blanks where possible. Nothing is lost but
    the blanks at a break."""
    width = max(width, 1)
    if line_cells(line) <= width:
        return [line]
    lines: list[Line] = []
    current: Line = []
    used = 0
    for word in _words(line):
        size = line_cells(word)
        if used + size > width and current and not _is_blank(word):
            lines.append(current)
            current, used = [], 0
        if _is_blank(word):
            if used + size > width or (lines and not current):
                continue
            current.extend(word)
            used += size
            continue
        for piece in _break_word(word, width - used, width):
            if piece is None:
                lines.append(current)
                current, used = [], 0
            else:
                current.append(piece)
                used += cells(piece[1])
    lines.append(current)
    return lines


def _is_blank(word: Line) -> bool:
    return word[0][1].startswith(" ")


def _words(line: Line) -> Iterable[Line]:
    """Yield runs of blanks, and words: everything between blanks, over several styles."""
    word: Line = []
    for style, text in line:
        for piece in _PIECES().findall(text):
            if piece[0] == " ":
                if word:
                    yield word
                    word = []
                yield [(style, piece)]
            else:
                word.append((style, piece))
    if word:
        yield word


def _break_word(word: Line, room: int, width: int) -> Iterable[Span | None]:
    """Yield the spans of a word, cut where a line is full; None stands for "next line"."""
    for style, text in word:
        rest = text
        while rest:
            head, tail = split_at(rest, room)  # never measures all of the rest: it may be megabytes
            size = cells(head)
            if (tail or size > room) and (room <= 0 or (room < width and cells(rest[0]) > room)):
                yield None
                room = width
                continue
            yield style, head
            yield from ((None,) if tail else ())
            room = width if tail else room - size
            rest = tail


def indent(lines: Iterable[Line], first: Line, rest: Line) -> list[Line]:
    """Return lines behind a prefix: one for the first line, another for all that follow."""
    return [(rest if index else first) + line for index, line in enumerate(lines)]


def plain(line: Line) -> str:
    """Return the text of a line."""
    return "".join(text for _style, text in line)


def without_drawing(line: str) -> str:
    """Return a painted line without the picture that ends on it, which is taken away where it was."""
    return _DRAWING().sub("\x1b7\\1\x1b8", line) if "\x1b7" in line else line


def ansi_cells(line: str) -> int:
    """Count the terminal cells of a painted line without its colours."""
    return cells(_SGR().sub("", _DRAWING().sub("", line) if "\x1b7" in line else line))
