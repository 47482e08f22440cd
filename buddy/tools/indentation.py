"""Difference between a block's indentation in a file and as a model quoted it, and its application to text.
Pure.

The difference is one for all lines: the same blanks more or less, or a tab for a number of spaces on every
level. Anything else would nest the lines in another way, which in many languages is another program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

BLANKS = " \t"
_USUAL_WIDTHS = (4, 2, 8, 3)


class Shift(msgspec.Struct, frozen=True):
    """A change of indentation of lines that are not blank: every `unit` they start with becomes `becomes`,
    then `remove` goes from their start and `add` comes."""

    remove: str
    add: str
    unit: str = ""
    becomes: str = ""

    def fits(self, line: str) -> bool:
        """Tell whether the line is indented far enough."""
        return self.converted(line).startswith(self.remove)

    def converted(self, line: str) -> str:
        """The line in the other unit."""
        if not self.unit:
            return line
        body = line
        levels = 0
        while body.startswith(self.unit):
            body = body[len(self.unit) :]
            levels += 1
        return self.becomes * levels + body


NO_SHIFT = Shift("", "")


def shifted(text: str, shift: Shift) -> str:
    """The text with the indentation of every line changed. A line of blanks alone that is indented less than
    the shift takes away becomes an empty one."""
    if shift == NO_SHIFT:
        return text
    return "\n".join(_shifted_line(line, shift) if line else line for line in text.split("\n"))


def _shifted_line(line: str, shift: Shift) -> str:
    if not line.strip(BLANKS) and not shift.fits(line):
        return ""
    return shift.add + shift.converted(line)[len(shift.remove) :]


def indent_of(line: str) -> str:
    """The blanks a line starts with."""
    return line[: len(line) - len(line.lstrip(BLANKS))]


def shift_between(lines: Sequence[str], old_lines: Sequence[str], new_lines: Sequence[str]) -> Shift | None:
    """The one change of indentation that turns `old_lines` into `lines`, None when there is none, or none
    that `new_lines` can take part in without tabs and spaces being mixed. Blank lines fit each other."""
    pairs = [(line, old) for line, old in zip(lines, old_lines, strict=True) if old.strip(BLANKS)]
    if not pairs:
        return None
    ours, theirs = [indent_of(line) for line, _ in pairs], [indent_of(old) for _, old in pairs]
    new = [indent_of(line) for line in new_lines if line.strip(BLANKS)]
    plain = _uniform(ours, theirs)
    if plain is not None and (len(_levels([*theirs, *new])) < 2 or not _other_kind(ours, [*theirs, *new])):
        return plain
    for unit, becomes in _units(ours, theirs, new):
        change = Shift("", "", unit, becomes)
        if any(len(indent) % len(unit) > 1 for indent in new):
            continue
        found = _uniform(ours, [change.converted(indent) for indent in theirs])
        if found is not None and not (found.remove + found.add).strip(becomes[0]):
            return msgspec.structs.replace(found, unit=unit, becomes=becomes)
    return None


def _uniform(ours: list[str], theirs: list[str]) -> Shift | None:
    """Find the one change at the start of every indentation that turns theirs into ours; None when there is
    none."""
    remove, add = _common_start(theirs), _common_start(ours)
    if any(mine[len(add) :] != other[len(remove) :] for mine, other in zip(ours, theirs, strict=True)):
        return None
    if add.endswith(remove):
        return Shift("", add[: len(add) - len(remove)])
    if remove.endswith(add):
        return Shift(remove[: len(remove) - len(add)], "")
    return Shift(remove, add)


def _common_start(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    for at, sign in enumerate(low):
        if sign != high[at]:
            return low[:at]
    return low


def _other_kind(ours: list[str], quoted: list[str]) -> bool:
    """Tell whether one side is indented with tabs and the other with spaces."""
    mine, other = "".join(ours), "".join(quoted)
    return (mine[:1] == "\t" and other[:1] == " ") or (mine[:1] == " " and other[:1] == "\t")


def _levels(indents: list[str]) -> list[int]:
    """The different depths in columns or tabs, without the one space by which some comments are set in (which
    steps of three columns are not)."""
    if not any(len(indent) % 3 for indent in indents):
        return sorted({len(indent) for indent in indents})
    return sorted({len(indent) // 2 * 2 if "\t" not in indent else len(indent) for indent in indents})


def _units(ours: list[str], theirs: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of indentation units, as quoted and in the file, the likeliest first."""
    quoted = [*theirs, *new]
    if any("\t" in indent for indent in quoted):
        if not any("\t" in indent for indent in ours) and not any(" " in indent for indent in quoted):
            yield from (("\t", " " * width) for width in _widths_of_a_tab(ours, theirs))
    elif any("\t" in indent for indent in ours):
        if not any(" \t" in indent for indent in ours):
            gaps = _gaps(quoted) + (list(_USUAL_WIDTHS) if _gaps(theirs) else [])
            yield from ((" " * width, "\t") for width in dict.fromkeys(gaps))
    elif len(_levels(theirs)) > 2 and len(_levels(ours)) > 2:  # of two levels the step may just be wrong
        yield " " * _gaps(theirs)[0], " " * _gaps(ours)[0]


def _widths_of_a_tab(ours: list[str], theirs: list[str]) -> list[int]:
    if _gaps(ours) or not theirs[0]:
        return _gaps(ours)
    width, rest = divmod(len(ours[0]), len(theirs[0]))
    return [width] if not rest and width in {2, 4} else []  # eight may as well be two levels


def _gaps(indents: list[str]) -> list[int]:
    """The smallest step between depths; nothing where all are one."""
    return sorted(high - low for low, high in pairwise(_levels(indents)))[:1]
