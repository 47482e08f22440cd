"""What one task changed and has not been taken back, from the undo log. Blocks; call it in a thread."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Literal

from buddy.agent.display import Diff, FileDiff
from buddy.agent.tool import ToolError
from buddy.tools.changing import difference
from buddy.workspace.undo import NOTHING, FileVersions, UndoLog


def task_diff(log: UndoLog, task_id: int, cwd: str) -> Diff:
    """A file's changes in a row are shown as one; where somebody else changed it in between, as several."""
    runs: dict[str, list[tuple[str, str]]] = {}
    for entry in log.entries(task_id):
        for file in entry.files:
            _add(runs.setdefault(file.real, []), file)
    files = [
        _shown(log, os.path.relpath(real, cwd), before, after)
        for real, pairs in sorted(runs.items())
        for before, after in pairs
        if before != after
    ]
    return Diff(tuple(files))


def _add(pairs: list[tuple[str, str]], file: FileVersions) -> None:
    if pairs and pairs[-1][1] == file.before:
        pairs[-1] = (pairs[-1][0], file.after)
    else:
        pairs.append((file.before, file.after))


def _shown(log: UndoLog, path: str, before: str, after: str) -> FileDiff:
    kind: Literal["add", "update", "delete"] = "update"
    if before == NOTHING:
        kind = "add"
    elif after == NOTHING:
        kind = "delete"
    with suppress(ToolError):
        found = difference(log.content(before) or b"", log.content(after) or b"")
        return FileDiff(path, kind, found.diff, found.added, found.removed)
    return FileDiff(path, kind, "the contents are no longer kept\n", 0, 0)
