"""Putting new text in the place of old text so that what both have in common keeps the file's own bytes."""

from __future__ import annotations

from collections.abc import Callable

from buddy.workspace.content import split_ends, with_line_ends

MAX_ALIGNED_LINES = 1500
"""Longer replacements are not aligned line by line: the new text is taken as it is."""

Blend = Callable[[str, str, str], str]
"""(line in the file, line in `old`, line in `new`) → the line to write, for a line that was changed."""


def take_new(_original: str, _old: str, new: str) -> str:
    """A changed line is the new line."""
    return new


def keep_typography(original: str, old: str, new: str) -> str:
    """A changed line keeps the file's characters where `old` and `new` agree at its start and its end, as far
    as `original` and `old` correspond one to one."""
    if len(original) != len(old):
        return new
    shortest = min(len(old), len(new))
    head = 0
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return original[:head] + new[head : len(new) - tail] + original[len(original) - tail :]


def spliced(original: str, old: str, new: str, line_end: str, blend: Blend = take_new) -> str:
    """`new` as it goes into the file in place of `original`, which `old` was matched with line by line.

    Lines that `old` and `new` share are copied from `original`, line ends included; other lines end as their
    neighbours in `original` do, or with `line_end` where there are none."""
    import difflib  # here: 1 ms that a start need not pay

    kept = split_ends(original)
    old_lines, new_lines = old.split("\n"), new.split("\n")
    if len(kept) != len(old_lines) or len(old_lines) + len(new_lines) > MAX_ALIGNED_LINES:
        return with_line_ends(new, line_end)
    pieces: list[tuple[str, str]] = []
    alike = difflib.SequenceMatcher(None, _compared(old_lines), _compared(new_lines), autojunk=False)
    for tag, i1, i2, j1, j2 in alike.get_opcodes():
        if tag == "equal":
            pieces.extend(kept[i1:i2])
            continue
        paired = i2 - i1 == j2 - j1
        for at, line in enumerate(new_lines[j1:j2]):
            text = blend(kept[i1 + at][0], old_lines[i1 + at], line) if paired else line
            pieces.append((text, _end_at(kept, min(i1 + at, i2 - 1 if i2 > i1 else i1), line_end)))
    return _joined(pieces, line_end)


def _compared(lines: list[str]) -> list[str]:
    """Mark the empty text after the last line end as no blank line, so that it is not matched with one."""
    return lines if lines[-1] else [*lines[:-1], "\n"]


def _end_at(kept: list[tuple[str, str]], index: int, line_end: str) -> str:
    """Return the line end for a line at this place: that of the original line there, or of the nearest one
    before it."""
    for at in range(min(index, len(kept) - 1), -1, -1):
        if kept[at][1]:
            return kept[at][1]
    return line_end


def _joined(pieces: list[tuple[str, str]], line_end: str) -> str:
    """All but the last piece end somehow; the last one does not: what follows it in the file does that."""
    joined: list[str] = []
    before = ""
    for text, found in pieces[:-1]:
        end = found or line_end
        if not text and before == "\r" and end == "\n":
            end = "\r\n"  # a lone newline would be one line end with what is before it
        joined.append(text + end)
        before = end
    return "".join((*joined, pieces[-1][0]))


def kept_apart(before: str, new: str, after: str) -> str:
    """New text whose line ends do not melt into one with those around it, where "\\r" and "\\n" are mixed."""
    if before.endswith("\r") and new.startswith("\n"):
        new = "\r" + new
    if new.endswith("\r") and after.startswith("\n"):
        new += "\n"
    return new
