"""Text a model copied from what our tools print, taken back to what stands in the file.

Readers and searches put line numbers before lines; refusals also make the blanks at line ends visible.
Pure, and strict: every line has to carry the mark of the same form, with the next number.
"""

from __future__ import annotations

import msgspec

from buddy.agent.pattern import pattern

_NUMBER = pattern(r"[ ]*(\d{1,9})")
_ANY = pattern(r"[ ]*\d{1,9}(?:\t|→|\||:| [ |])")
_VISIBLE_START = pattern(r"[·→]+")
_VISIBLE_END = pattern(r"[·→]+$")
_BLANKS = str.maketrans("·→", " \t")


class Copied(msgspec.Struct, frozen=True):
    """The text without marks, and the number of its first line (0: the form has no numbers)."""

    first: int
    text: str


class Form(msgspec.Struct, frozen=True):
    """One way lines are printed: what stands between number and line, and whether blanks are visible."""

    separator: str
    numbered: bool
    visible: bool

    def read(self, block: str) -> Copied | None:
        """The block without this form's marks, None where a line does not carry them."""
        lines = block.split("\n")
        first = 0
        if self.numbered:
            found = self._without_numbers(lines)
            if found is None:
                return None
            first, lines = found
        if self.visible:
            real = [_with_real_blanks(line) for line in lines]
            if not self.numbered and real == lines:
                return None
            lines = real
        return Copied(first, "\n".join(lines))

    def _without_numbers(self, lines: list[str]) -> tuple[int, list[str]] | None:
        first = -1
        texts: list[str] = []
        for at, line in enumerate(lines):
            match = _NUMBER().match(line)
            if match is None:
                return None
            rest = line[match.end() :]
            if not rest.startswith(self.separator):
                if rest.rstrip() != self.separator.rstrip():
                    return None
                rest = self.separator  # a blank line whose separator lost its last space
            number = int(match.group(1))
            first = number if first < 0 else first
            if number != first + at:
                return None
            texts.append(rest[len(self.separator) :])
        return first, texts


FORMS = (
    Form("\t", numbered=True, visible=False),
    Form("→", numbered=True, visible=False),
    Form(" | ", numbered=True, visible=False),
    Form("|", numbered=True, visible=False),
    Form(": ", numbered=True, visible=False),
    Form(":", numbered=True, visible=False),
    Form("  ", numbered=True, visible=True),
    Form("", numbered=False, visible=True),
)
"""Forms in the order in which they are tried: what fits the file decides."""


def carries_marks(text: str) -> bool:
    """Tell whether any line looks as if it carried a line number."""
    return any(_ANY().match(line) for line in text.split("\n"))


def _with_real_blanks(line: str) -> str:
    line = (
        _VISIBLE_START().sub(lambda marks: marks.group().translate(_BLANKS), line, count=1)
        if line[:1] in "·→"
        else line
    )
    return _VISIBLE_END().sub(lambda marks: marks.group().translate(_BLANKS), line)
