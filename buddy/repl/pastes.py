"""Long pastes: they stand in the line as `[pasted #1, 842 lines]`, and are what was pasted wherever the line
goes to.

A mark keeps its text for as long as the program runs, because the line it stands in comes back: from the
history, out of the undo list, from a queue.
"""

from __future__ import annotations

from collections.abc import Sequence

from buddy.agent.alike import alike_at_end, alike_at_start
from buddy.agent.pattern import pattern

FOLDED_CHARS = 4096
FOLDED_LINES = 15
_MARK = pattern(r"\[pasted #\d+, \d+ (?:lines|characters)\]")


class Pastes:
    """Pasted texts by their marks. No two marks are the same."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, text: str) -> str:
        """Return the text as inserted into the line: a mark for a long one."""
        lines = text.count("\n") + 1
        if len(text) <= FOLDED_CHARS and lines <= FOLDED_LINES:
            return text
        size = f"{lines} lines" if lines > FOLDED_LINES else f"{len(text)} characters"
        mark = f"[pasted #{len(self._texts) + 1}, {size}]"
        self._texts[mark] = text
        return mark

    def resolved(self, line: str) -> str:
        """The line with every mark replaced by its text."""
        return _MARK().sub(lambda found: self._texts.get(found[0], found[0]), line) if self._texts else line

    def marks(self, line: str) -> list[tuple[int, int]]:
        """Return start and end of each mark in a line."""
        return [found.span() for found in _MARK().finditer(line) if found[0] in self._texts]

    def mended(self, before: str, after: str) -> tuple[str, int] | None:
        """A line in which an edit broke a mark, without what is left of the mark, and where the cursor
        belongs; None where none was broken. A mark goes as a whole: what is left of one would be sent as
        words nobody wrote, and its text would be lost unseen."""
        marks = self.marks(before)
        if not marks:
            return None
        begin, end = _changed(before, after, marks)
        inserted = after[begin : len(after) - len(before) + end]
        broken = _broken(marks, begin, end)
        if not broken:
            return None
        begin, end = min(begin, broken[0][0]), max(end, broken[-1][1])
        return before[:begin] + inserted + before[end:], begin + len(inserted)


def _broken(marks: Sequence[tuple[int, int]], begin: int, end: int) -> list[tuple[int, int]]:
    """The marks of which an edit took or parted a piece, not the whole."""
    return [
        (first, last)
        for first, last in marks
        if first < end and begin < last and not begin <= first <= last <= end
    ]


def _changed(before: str, after: str, marks: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the range of a line that was changed. A bracket typed beside a mark could also have been typed
    inside it, two characters further on: of several possible places the one that breaks no mark is chosen."""
    latest = alike_at_start(before, after)
    kept = alike_at_end(before, after, min(len(before), len(after)) - latest)
    taken, put = len(before) - kept - latest, len(after) - kept - latest
    if taken and put:
        return latest, latest + taken
    earliest = latest - alike_at_end(before[: latest + taken], after[: latest + put], latest)
    edges = [edge - size for mark in marks for edge in mark for size in (0, taken)]
    places = [latest, *(place for place in edges if earliest <= place <= latest)]
    begin = next((place for place in places if not _broken(marks, place, place + taken)), latest)
    return begin, begin + taken
