"""The part of a request for approval that is printed at once. Pure.

A command is never folded: its last line may be the one that matters. Of a long diff the first lines are
printed; it can be approved only after Ctrl+O has printed the rest.
"""

from __future__ import annotations

from msgspec.structs import replace

from buddy.agent.display import Diff, Display, FileDiff
from buddy.repl.style import DIFF_FOLD_LINES

LEAST_FOLDED = 2
"""A fold that hides one line would save nothing."""


def folded_lines(preview: Display) -> int:
    """Return the number of a preview's lines that are hidden when it is first printed."""
    if not isinstance(preview, Diff):
        return 0
    hidden = sum(len(_lines(file)) for file in preview.files) - DIFF_FOLD_LINES
    return hidden if hidden >= LEAST_FOLDED else 0


def first_part(preview: Display) -> Display:
    """The preview without those lines; files of which nothing is left keep their heading."""
    if not isinstance(preview, Diff) or not folded_lines(preview):
        return preview
    room = DIFF_FOLD_LINES
    files: list[FileDiff] = []
    for file in preview.files:
        kept = _lines(file)[:room]
        room -= len(kept)
        files.append(replace(file, diff="\n".join(kept)))
    return Diff(tuple(files))


def _lines(file: FileDiff) -> list[str]:
    return file.diff.strip("\n").split("\n") if file.diff.strip("\n") else []
