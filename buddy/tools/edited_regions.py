"""The result of a change as the model reads it: counts, lines, the new text with a little around it."""

from __future__ import annotations

from collections.abc import Sequence

from buddy.workspace.linediff import LineChange, line_changes

CONTEXT_LINES = 2
MAX_REGION_LINES = 40
MAX_LINE_CHARS = 400


def summary(shown: str, before: str, after: str) -> str:
    """`src/a.py: +2 −1, lines 10–12`, then the new text with numbers."""
    changes = line_changes(before, after)
    if not changes:
        return f"{shown}: only line ends changed"
    added = sum(len(change.new) for change in changes)
    removed = sum(len(change.old) for change in changes)
    spans = ", ".join(_span(change) for change in changes[:8]) + (" …" if len(changes) > 8 else "")
    return f"{shown}: +{added} −{removed}, {spans}\n{_regions(changes, after)}".rstrip("\n")


def _span(change: LineChange) -> str:
    first, last = change.new_start + 1, change.new_start + len(change.new)
    if not change.new:
        return f"removed after line {change.new_start}"
    return f"line {first}" if first == last else f"lines {first}–{last}"


def _regions(changes: Sequence[LineChange], after: str) -> str:
    lines = after.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    shown: list[str] = []
    last = -1
    for change in changes:
        start = max(0, change.new_start - CONTEXT_LINES, last + 1)
        stop = min(len(lines), change.new_start + len(change.new) + CONTEXT_LINES)
        if last >= 0 and start > last + 1:
            shown.append("     …")
        shown.extend(f"{at + 1:>6}\t{_short(lines[at])}" for at in range(start, stop))
        last = max(last, stop - 1)
        if len(shown) > MAX_REGION_LINES:
            return "\n".join([*shown[:MAX_REGION_LINES], "     … (more lines changed)"])
    return "\n".join(shown)


def _short(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else line[:MAX_LINE_CHARS] + "…"
