"""The result of a change as the model reads it: counts, lines, the new text with a little around it."""

from __future__ import annotations

from collections.abc import Sequence

from buddy.workspace.linediff import Comparison, LineChange, LineWindow

CONTEXT_LINES = 2
MAX_REGION_LINES = 40
MAX_LINE_CHARS = 400
NEWLINE = "\n"


def summary(shown: str, found: Comparison) -> str:
    """`src/a.py: +2 −1, lines 10–12`, then the new text with numbers."""
    changes = found.changes
    if not changes:
        return f"{shown}: only line ends changed"
    added = sum(len(change.new) for change in changes)
    removed = sum(len(change.old) for change in changes)
    spans = ", ".join(_span(change) for change in changes[:8]) + (" …" if len(changes) > 8 else "")
    return (
        f"{shown}: +{added} −{removed}, {spans}\n{_regions(changes, found.new_lines(CONTEXT_LINES))}".rstrip(
            "\n"
        )
    )


def _span(change: LineChange) -> str:
    first, last = change.new_start + 1, change.new_start + len(change.new)
    if not change.new:
        return f"removed after line {change.new_start}"
    return f"line {first}" if first == last else f"lines {first}–{last}"


def _regions(changes: Sequence[LineChange], window: LineWindow) -> str:
    shown: list[str] = []
    last = -1
    for change in changes:
        start = max(0, change.new_start - CONTEXT_LINES, last + 1)
        stop = min(window.stop, change.new_start + len(change.new) + CONTEXT_LINES)
        if last >= 0 and start > last + 1:
            shown.append("     …")
        shown.extend(
            f"{at + 1:>6}\t{_short(line.removesuffix(NEWLINE))}"
            for at, line in enumerate(window.between(start, stop), start)
        )
        last = max(last, stop - 1)
        if len(shown) > MAX_REGION_LINES:
            return "\n".join([*shown[:MAX_REGION_LINES], "     … (more lines changed)"])
    return "\n".join(shown)


def _short(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else line[:MAX_LINE_CHARS] + "…"
