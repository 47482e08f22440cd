"""Three-way merge of texts by lines. Pure.

Two sides changed one base. Where they changed different lines, the merge has both; where they changed the
same lines, or lines that touch, there is a conflict and nothing is guessed.
"""

from __future__ import annotations

from collections import deque

import msgspec

from buddy.workspace.linediff import LineChange, line_changes


class Merged(msgspec.Struct, frozen=True):
    """Both sides' changes in one text. `others`: how many places the other side (`theirs`) had changed."""

    text: str
    others: int


class Conflict(msgspec.Struct, frozen=True):
    """Both sides changed these lines of the base: first and last, counted from 1 (for text put in between two
    lines, the lines around it)."""

    first: int
    last: int
    ours: tuple[str, ...]
    theirs: tuple[str, ...]


def merge(base: str, ours: str, theirs: str) -> Merged | Conflict:
    """The base with both sides' changes, or the first place where they meet. The same change made by both is
    made once."""
    left, right = deque(line_changes(base, ours)), deque(line_changes(base, theirs))
    others = len(right)
    lines = _lines(base)
    pieces: list[str] = []
    at = 0
    while left or right:
        region = _next_region(left, right)
        mine, other = _changed(lines, region, region.ours), _changed(lines, region, region.theirs)
        if region.ours and region.theirs and mine != other:
            return _conflict(region, mine, other)
        pieces += lines[at : region.start]
        pieces += mine if region.ours else other
        at = region.stop
    return Merged("".join([*pieces, *lines[at:]]), others)


def merge_bytes(base: bytes, ours: bytes, theirs: bytes) -> bytes | Conflict | None:
    """The same for contents in any encoding; None where one of them is binary and both sides differ."""
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    if b"\0" in base or b"\0" in ours or b"\0" in theirs:
        return None
    # Latin-1 maps every byte to one character and back, and lines end at the same bytes.
    found = merge(base.decode("latin-1"), ours.decode("latin-1"), theirs.decode("latin-1"))
    return found.text.encode("latin-1") if isinstance(found, Merged) else found


class Region(msgspec.Struct, frozen=True):
    """Lines of the base, counted from 0, and the changes of both sides that meet there."""

    start: int
    stop: int
    ours: tuple[LineChange, ...]
    theirs: tuple[LineChange, ...]


def _next_region(left: deque[LineChange], right: deque[LineChange]) -> Region:
    """Take the first change and those that overlap or touch it, and what these touch."""
    start = stop = min(side[0].old_start for side in (left, right) if side)
    ours: list[LineChange] = []
    theirs: list[LineChange] = []
    grown = True
    while grown:
        grown = False
        for side, taken in ((left, ours), (right, theirs)):
            while side and side[0].old_start <= stop:
                change = side.popleft()
                taken.append(change)
                stop, grown = max(stop, change.old_start + len(change.old)), True
    return Region(start, stop, tuple(ours), tuple(theirs))


def _changed(lines: list[str], region: Region, changes: tuple[LineChange, ...]) -> list[str]:
    """Return the lines of a region with one side's changes."""
    pieces: list[str] = []
    at = region.start
    for change in changes:
        pieces += lines[at : change.old_start]
        pieces += change.new
        at = change.old_start + len(change.old)
    return pieces + lines[at : region.stop]


def _conflict(region: Region, mine: list[str], other: list[str]) -> Conflict:
    return Conflict(region.start + 1, max(region.stop, region.start + 1), tuple(mine), tuple(other))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    rest = lines.pop()
    return [line + "\n" for line in lines] + ([rest] if rest else [])
