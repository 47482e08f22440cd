"""Differences between two texts, by lines: for people, for models, and for what changed since a read."""

from __future__ import annotations

import msgspec

from buddy.agent.alike import alike_at_end, alike_at_start

MAX_COMPARED_LINES = 3000
"""Blocks longer than this are shown as replaced whole: comparing takes time that grows with the square."""


class LineChange(msgspec.Struct, frozen=True):
    """Lines `old` (from `old_start`, counted from 0) became `new` (from `new_start`)."""

    old_start: int
    old: tuple[str, ...]
    new_start: int
    new: tuple[str, ...]


class Middle(msgspec.Struct, frozen=True):
    """What is left of two texts without the lines they start and end with alike: positions in both, on line
    borders, and how many lines come before."""

    head: int
    old_stop: int
    new_stop: int
    lines_before: int


class Window(msgspec.Struct, frozen=True):
    """Some lines of a text with their line ends; `start` is the number of the first, from 0."""

    start: int
    lines: list[str]

    def between(self, first: int, stop: int) -> list[str]:
        """Lines by their number in the whole text."""
        return self.lines[max(0, first - self.start) : max(0, stop - self.start)]

    @property
    def stop(self) -> int:
        """The number after the last line."""
        return self.start + len(self.lines)


def _window(text: str, middle: Middle, stop: int, context: int) -> Window:
    """The lines from where two texts begin to differ to `stop`, and so many around them."""
    start, first = middle.head, middle.lines_before
    while first > 0 and middle.lines_before - first < context:
        start = text.rfind("\n", 0, start - 1) + 1
        first -= 1
    for _ in range(context):
        stop = text.find("\n", stop) + 1 or len(text)
    return Window(first, _lines(text[start:stop]))


class Comparison(msgspec.Struct, frozen=True):
    """Two texts, what changed between them, in order, and where."""

    before: str
    after: str
    changes: tuple[LineChange, ...]
    middle: Middle

    def old_lines(self, context: int) -> Window:
        """The lines of the old text that changed, and so many around them."""
        return _window(self.before, self.middle, self.middle.old_stop, context)

    def new_lines(self, context: int) -> Window:
        """The lines of the new text that changed, and so many around them."""
        return _window(self.after, self.middle, self.middle.new_stop, context)


def compared(before: str, after: str) -> Comparison:
    """Two texts side by side."""
    if before == after:
        return Comparison(before, after, (), Middle(0, 0, 0, 0))
    middle = _middle(before, after)
    old, new = before[middle.head : middle.old_stop], after[middle.head : middle.new_stop]
    return Comparison(before, after, _changes(_lines(old), _lines(new), middle), middle)


def line_changes(before: str, after: str) -> tuple[LineChange, ...]:
    """What changed, in order; empty when nothing did. A missing final newline makes its last line differ."""
    return compared(before, after).changes


def _middle(before: str, after: str) -> Middle:
    head = alike_at_start(before, after)
    head = before.rfind("\n", 0, head) + 1
    tail = alike_at_end(before, after, min(len(before), len(after)) - head)
    # The last lines are alike from behind the first newline in the common end on.
    first_kept = before.find("\n", len(before) - tail)
    tail = len(before) - first_kept - 1 if first_kept >= 0 else 0
    return Middle(head, len(before) - tail, len(after) - tail, before.count("\n", 0, head))


def _changes(old: list[str], new: list[str], middle: Middle) -> tuple[LineChange, ...]:
    import difflib  # here: 1 ms that a start need not pay

    base = middle.lines_before
    if len(old) + len(new) > MAX_COMPARED_LINES or not old or not new:
        return (LineChange(base, tuple(old), base, tuple(new)),)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return tuple(
        LineChange(base + i1, tuple(old[i1:i2]), base + j1, tuple(new[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    )


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


def unified(found: Comparison, *, context: int = 3) -> Unified:
    """The unified diff of two texts."""
    changes = found.changes
    if not changes:
        return Unified("", 0, 0)
    window = found.old_lines(context)
    pieces: list[str] = []
    for group in _grouped(changes, context):
        pieces.extend(_hunk(window, group, context))
    added = sum(len(change.new) for change in changes)
    removed = sum(len(change.old) for change in changes)
    return Unified("".join(pieces), added, removed)


def _grouped(changes: tuple[LineChange, ...], context: int) -> list[list[LineChange]]:
    groups: list[list[LineChange]] = []
    end = 0
    for change in changes:
        if groups and change.old_start - end <= 2 * context:
            groups[-1].append(change)
        else:
            groups.append([change])
        end = change.old_start + len(change.old)
    return groups


def _hunk(window: Window, group: list[LineChange], context: int) -> list[str]:
    first, last = group[0], group[-1]
    start = max(window.start, first.old_start - context)
    stop = min(window.stop, last.old_start + len(last.old) + context)
    body: list[str] = []
    at = start
    for change in group:
        body.extend(_marked(" ", window.between(at, change.old_start)))
        body.extend(_marked("-", change.old))
        body.extend(_marked("+", change.new))
        at = change.old_start + len(change.old)
    body.extend(_marked(" ", window.between(at, stop)))
    grown = sum(len(change.new) - len(change.old) for change in group)
    new_start = first.new_start - (first.old_start - start)
    old_range = _range(start, stop - start)
    return [f"@@ -{old_range} +{_range(new_start, stop - start + grown)} @@\n", *body]


def _range(start: int, length: int) -> str:
    """A range as `diff -u` writes it: an empty one names the line before it."""
    if length == 1:
        return f"{start + 1}"
    return f"{start + (length > 0)},{length}"


def _marked(sign: str, lines: list[str] | tuple[str, ...]) -> list[str]:
    return [
        f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
        for line in lines
    ]


def brief_changes(before: str, after: str, *, max_lines: int) -> tuple[tuple[str, ...], bool]:
    """Changed lines as `-12 old` / `+12 new`, at most `max_lines`, and whether that is all of them."""
    shown: list[str] = []
    for change in line_changes(before, after):
        shown.extend(
            f"-{change.old_start + at + 1:<5} {line.rstrip(chr(10))}" for at, line in enumerate(change.old)
        )
        shown.extend(
            f"+{change.new_start + at + 1:<5} {line.rstrip(chr(10))}" for at, line in enumerate(change.new)
        )
        if len(shown) > max_lines:
            break
    kept = tuple(line if len(line) <= 300 else line[:300] + "…" for line in shown[:max_lines])
    whole = len(shown) <= max_lines and all(len(line) <= 300 for line in shown)
    return kept, whole
