"""Differences between two texts by lines, and three-way merges. Pure."""

from __future__ import annotations

import importlib
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

_STEP = 8192


def alike_at_start(before: str, after: str) -> int:
    """Return the number of characters both start with."""
    low, high = 0, min(len(before), len(after))
    while low + _STEP < high and before.startswith(after[low : low + _STEP], low):
        low += _STEP
    high = min(high, low + _STEP)
    while low < high:
        half = (low + high + 1) // 2
        if before[low:half] == after[low:half]:
            low = half
        else:
            high = half - 1
    return low


def alike_at_end(before: str, after: str, most: int) -> int:
    """Return the number of characters both end with, at most `most`."""
    low, high = 0, most
    while low + _STEP < high and before.endswith(
        after[len(after) - low - _STEP : len(after) - low], 0, len(before) - low
    ):
        low += _STEP
    high = min(high, low + _STEP)
    while low < high:
        half = (low + high + 1) // 2
        if before[len(before) - half : len(before) - low] == after[len(after) - half : len(after) - low]:
            low = half
        else:
            high = half - 1
    return low


MAX_COMPARED_LINES = 50_000
"""Blocks longer than this without a line of their own in common are shown as replaced whole."""
ANCHORED_FROM_LINES = 3000
"""Longer blocks are divided at the lines that stand once in both texts, so that time grows with their length
and not with its square."""
MAX_EQUAL_PAIRS = 3_000_000
"""With more pairs of equal lines than this in a block, its most frequent lines no longer anchor a match: a
few seconds of comparing would become minutes."""


class LineChange(msgspec.Struct, frozen=True):
    """Lines `old` (from `old_start`, counted from 0) became `new` (from `new_start`)."""

    old_start: int
    old: tuple[str, ...]
    new_start: int
    new: tuple[str, ...]


class Middle(msgspec.Struct, frozen=True):
    """The middle of two texts without the lines that are equal at their start and end: positions in both, on
    line borders, and the number of lines before."""

    head: int
    old_stop: int
    new_stop: int
    lines_before: int


class LineWindow(msgspec.Struct, frozen=True):
    """Some lines of a text with their line ends; `start` is the number of the first, from 0."""

    start: int
    lines: list[str]

    def between(self, first: int, stop: int) -> list[str]:
        """Return lines by their number in the whole text."""
        return self.lines[max(0, first - self.start) : max(0, stop - self.start)]

    @property
    def stop(self) -> int:
        """Return the number after the last line."""
        return self.start + len(self.lines)


def _window(text: str, middle: Middle, stop: int, context: int) -> LineWindow:
    """Return the lines from where two texts begin to differ to `stop`, and so many around them."""
    start, first = middle.head, middle.lines_before
    while first > 0 and middle.lines_before - first < context:
        start = text.rfind("\n", 0, start - 1) + 1
        first -= 1
    for _ in range(context):
        stop = text.find("\n", stop) + 1 or len(text)
    return LineWindow(first, _lines(text[start:stop]))


class Comparison(msgspec.Struct, frozen=True):
    """Two texts, what changed between them, in order, and where."""

    before: str
    after: str
    changes: tuple[LineChange, ...]
    middle: Middle

    def old_lines(self, context: int) -> LineWindow:
        """Return the lines of the old text that changed, and so many around them."""
        return _window(self.before, self.middle, self.middle.old_stop, context)

    def new_lines(self, context: int) -> LineWindow:
        """Return the lines of the new text that changed, and so many around them."""
        return _window(self.after, self.middle, self.middle.new_stop, context)


def compare(before: str, after: str) -> Comparison:
    """Compare two texts line by line."""
    if before == after:
        return Comparison(before, after, (), Middle(0, 0, 0, 0))
    middle = _middle(before, after)
    old, new = before[middle.head : middle.old_stop], after[middle.head : middle.new_stop]
    return Comparison(before, after, _changes(_lines(old), _lines(new), middle), middle)


def line_changes(before: str, after: str) -> tuple[LineChange, ...]:
    """Return the changed lines in order; empty when nothing changed. A missing final newline makes the last
    line differ."""
    return compare(before, after).changes


def _middle(before: str, after: str) -> Middle:
    head = alike_at_start(before, after)
    head = before.rfind("\n", 0, head) + 1
    tail = alike_at_end(before, after, min(len(before), len(after)) - head)
    # The last lines are alike from behind the first newline in the common end on.
    first_kept = before.find("\n", len(before) - tail)
    tail = len(before) - first_kept - 1 if first_kept >= 0 else 0
    return Middle(head, len(before) - tail, len(after) - tail, before.count("\n", 0, head))


def _changes(old: list[str], new: list[str], middle: Middle) -> tuple[LineChange, ...]:
    base = middle.lines_before
    return tuple(
        LineChange(base + i1, tuple(old[i1:i2]), base + j1, tuple(new[j1:j2]))
        for i1, i2, j1, j2 in _differences(old, new)
    )


Span = tuple[int, int, int, int]
"""Lines `i1` to `i2` of one text and `j1` to `j2` of the other."""


def _differences(old: Sequence[str], new: Sequence[str]) -> Iterator[Span]:
    """Yield what differs, in order; neighbours are one."""
    whole: Span = (0, len(old), 0, len(new))
    gaps = [whole] if len(old) + len(new) <= ANCHORED_FROM_LINES else _between_anchors(old, new)
    i1 = i2 = j1 = j2 = 0
    for gap in gaps:
        for span in _compare_gap(old, new, gap):
            if (span[0], span[2]) == (i2, j2):
                i2, j2 = span[1], span[3]
                continue
            if (i1, j1) != (i2, j2):
                yield i1, i2, j1, j2
            i1, i2, j1, j2 = span
    if (i1, j1) != (i2, j2):
        yield i1, i2, j1, j2


def _compare_gap(old: Sequence[str], new: Sequence[str], gap: Span) -> Iterator[Span]:
    i1, i2, j1, j2 = gap
    while i1 < i2 and j1 < j2 and old[i1] == new[j1]:
        i1, j1 = i1 + 1, j1 + 1
    while i1 < i2 and j1 < j2 and old[i2 - 1] == new[j2 - 1]:
        i2, j2 = i2 - 1, j2 - 1
    if i1 == i2 and j1 == j2:
        return
    if i1 == i2 or j1 == j2 or i2 - i1 + j2 - j1 > MAX_COMPARED_LINES:
        yield i1, i2, j1, j2
        return
    before, after = old[i1:i2], new[j1:j2]
    long = len(before) + len(after) > ANCHORED_FROM_LINES
    frequent = long and _equal_pairs(before, after) > MAX_EQUAL_PAIRS
    for tag, a1, a2, b1, b2 in _opcodes(before, after, without_frequent=frequent):
        if tag != "equal":
            yield i1 + a1, i1 + a2, j1 + b1, j1 + b2


def _opcodes(
    before: Sequence[str], after: Sequence[str], *, without_frequent: bool
) -> Sequence[tuple[str, int, int, int, int]]:
    try:  # here: 1 ms that a start need not pay
        module: Any = importlib.import_module("cydifflib")
    except ImportError:  # there is no wheel for this Python: the same answers, more slowly
        module = importlib.import_module("difflib")
    return module.SequenceMatcher(None, before, after, autojunk=without_frequent).get_opcodes()


def _equal_pairs(old: Sequence[str], new: Sequence[str]) -> int:
    counts = Counter(new)
    return sum(count * counts[line] for line, count in Counter(old).items())


def _between_anchors(old: Sequence[str], new: Sequence[str]) -> Iterator[Span]:
    """Yield what lies between the lines that stand once in both texts, in the longest run of them that has
    one order in both."""
    i1 = j1 = 0
    for i2, j2 in [*_in_order(_unique_pairs(old, new)), (len(old), len(new))]:
        yield i1, i2, j1, j2
        i1, j1 = i2 + 1, j2 + 1


def _unique_pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    in_old, in_new = Counter(old), Counter(new)
    places = {line: at for at, line in enumerate(new) if in_new[line] == 1}
    for at, line in enumerate(old):
        if in_old[line] == 1 and line in places:
            yield at, places[line]


def _in_order(pairs: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of `pairs`, ascending in the first place, that ascends in the second too."""
    ends: list[int] = []
    chains: list[tuple[tuple[int, int], int]] = []  # a pair, and the index of the one before it
    last: list[int] = []  # the chain that ends with `ends[length]`
    for pair in pairs:
        length = bisect_left(ends, pair[1])
        chains.append((pair, last[length - 1] if length else -1))
        if length == len(ends):
            ends.append(pair[1])
            last.append(len(chains) - 1)
        else:
            ends[length], last[length] = pair[1], len(chains) - 1
    at = last[-1] if last else -1
    found: list[tuple[int, int]] = []
    while at >= 0:
        pair, at = chains[at]
        found.append(pair)
    return found[::-1]


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    kept = [line + "\n" for line in lines]
    return [*kept, last] if last else kept


class Unified(msgspec.Struct, frozen=True):
    """A unified diff without file headers, and its counts in lines."""

    diff: str
    added: int
    removed: int


def unify(found: Comparison, *, context: int = 3) -> Unified:
    """Return the unified diff of two texts."""
    changes = found.changes
    if not changes:
        return Unified("", 0, 0)
    window = found.old_lines(context)
    pieces: list[str] = []
    for group in _group(changes, context):
        pieces.extend(_hunk(window, group, context))
    added = sum(len(change.new) for change in changes)
    removed = sum(len(change.old) for change in changes)
    return Unified("".join(pieces), added, removed)


def _group(changes: tuple[LineChange, ...], context: int) -> list[list[LineChange]]:
    groups: list[list[LineChange]] = []
    end = 0
    for change in changes:
        if groups and change.old_start - end <= 2 * context:
            groups[-1].append(change)
        else:
            groups.append([change])
        end = change.old_start + len(change.old)
    return groups


def _hunk(window: LineWindow, group: list[LineChange], context: int) -> list[str]:
    first, last = group[0], group[-1]
    start = max(window.start, first.old_start - context)
    stop = min(window.stop, last.old_start + len(last.old) + context)
    body: list[str] = []
    at = start
    for change in group:
        body.extend(_mark(" ", window.between(at, change.old_start)))
        body.extend(_mark("-", change.old))
        body.extend(_mark("+", change.new))
        at = change.old_start + len(change.old)
    body.extend(_mark(" ", window.between(at, stop)))
    grown = sum(len(change.new) - len(change.old) for change in group)
    new_start = first.new_start - (first.old_start - start)
    old_range = _range(start, stop - start)
    return [f"@@ -{old_range} +{_range(new_start, stop - start + grown)} @@\n", *body]


def _range(start: int, length: int) -> str:
    """Return a range as `diff -u` writes it: an empty one names the line before it."""
    if length == 1:
        return f"{start + 1}"
    return f"{start + (length > 0)},{length}"


def _mark(sign: str, lines: list[str] | tuple[str, ...]) -> list[str]:
    return [
        f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
        for line in lines
    ]


MAX_EXCERPT_CHARS = 300
NEWLINE = "\n"


def excerpt(line: str, place: int, most: int = MAX_EXCERPT_CHARS) -> str:
    """Return a line, or at most `most` characters of it around a place, with "…" where it was cut."""
    if len(line) <= most:
        return line
    start = max(0, min(place - most // 3, len(line) - most))
    return f"{'…' if start else ''}{line[start : start + most]}{'…' if start + most < len(line) else ''}"


def brief_changes(before: str, after: str, *, max_lines: int) -> tuple[tuple[str, ...], bool]:
    """Return changed lines as `-12 old` / `+12 new`, at most `max_lines`, and whether these are all."""
    shown: list[str] = []
    uncut = True
    for change in line_changes(before, after):
        cuts = list(map(alike_at_start, change.old, change.new))  # a long line is cut around its change
        for sign, start, lines in (("-", change.old_start, change.old), ("+", change.new_start, change.new)):
            places = [*cuts, *[0] * (len(lines) - len(cuts))]
            shown.extend(
                f"{sign}{start + at + 1:<5} {excerpt(line.removesuffix(NEWLINE), places[at])}"
                for at, line in enumerate(lines)
            )
            uncut = uncut and all(len(line) <= MAX_EXCERPT_CHARS for line in lines)
        if len(shown) > max_lines:
            break
    whole = uncut and len(shown) <= max_lines
    return tuple(shown[:max_lines]), whole


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
    """Return the base with both sides' changes, or the first place where they meet. The same change made by
    both is made once."""
    left, right = deque(line_changes(base, ours)), deque(line_changes(base, theirs))
    others = len(right)
    lines = _merge_lines(base)
    pieces: list[str] = []
    at = 0
    while left or right:
        region = _next_region(left, right)
        mine, other = _apply_changes(lines, region, region.ours), _apply_changes(lines, region, region.theirs)
        if region.ours and region.theirs and mine != other:
            return Conflict(region.start + 1, max(region.stop, region.start + 1), tuple(mine), tuple(other))
        pieces += lines[at : region.start]
        pieces += mine if region.ours else other
        at = region.stop
    return Merged("".join([*pieces, *lines[at:]]), others)


def merge_bytes(base: bytes, ours: bytes, theirs: bytes) -> bytes | Conflict | None:
    """Return the same for contents in any encoding; None where one of them is binary and both sides
    differ."""
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


def _apply_changes(lines: list[str], region: Region, changes: tuple[LineChange, ...]) -> list[str]:
    """Return the lines of a region with one side's changes."""
    pieces: list[str] = []
    at = region.start
    for change in changes:
        pieces += lines[at : change.old_start]
        pieces += change.new
        at = change.old_start + len(change.old)
    return pieces + lines[at : region.stop]


def _merge_lines(text: str) -> list[str]:
    lines = text.split("\n")
    rest = lines.pop()
    return [line + "\n" for line in lines] + ([rest] if rest else [])
