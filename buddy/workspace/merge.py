"""Three-way merge of texts by lines. Pure.

Two sides changed one base. Where they changed different lines, the merge has both; where they changed the
same lines, or lines that touch, there is a conflict and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    mine, other = line_changes(base, ours), line_changes(base, theirs)
    together: list[LineChange] = []
    left, right = list(mine), list(other)
    while left and right:
        if _same(left[0], right[0]):
            together.append(left.pop(0))
            right.pop(0)
        elif _stop(left[0]) < right[0].old_start:
            together.append(left.pop(0))
        elif _stop(right[0]) < left[0].old_start:
            together.append(right.pop(0))
        else:
            return _conflict(left[0], right[0])
    return Merged(_applied(base, (*together, *left, *right)), len(other))


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


def _same(one: LineChange, other: LineChange) -> bool:
    return (one.old_start, one.old, one.new) == (other.old_start, other.old, other.new)


def _stop(change: LineChange) -> int:
    return change.old_start + len(change.old)


def _conflict(mine: LineChange, other: LineChange) -> Conflict:
    first = min(mine.old_start, other.old_start)
    last = max(_stop(mine), _stop(other), first + 1)
    return Conflict(first + 1, last, mine.new, other.new)


def _applied(base: str, changes: Sequence[LineChange]) -> str:
    lines = base.split("\n")
    rest = lines.pop()
    whole = [line + "\n" for line in lines] + ([rest] if rest else [])
    pieces: list[str] = []
    at = 0
    for change in changes:
        pieces.extend(whole[at : change.old_start])
        pieces.extend(change.new)
        at = _stop(change)
    pieces.extend(whole[at:])
    return "".join(pieces)
