"""Changes of one task that have not been taken back, from the undo log. Blocks; call it in a thread."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from buddy.agent.display import Diff, FileDiff
from buddy.agent.tool import ToolError
from buddy.tools.changing import difference
from buddy.workspace.files import load
from buddy.workspace.renames import RenamedPath
from buddy.workspace.undo import UndoEntry, UndoLog
from buddy.workspace.versions import NOTHING, FileVersions


def task_diff(log: UndoLog, task_id: int, cwd: str) -> Diff:
    """A file's changes in a row are shown as one; where somebody else changed it in between, as several. What
    was moved or deleted whole comes last."""
    return diff_of(log, log.entries(task_id), cwd)


def diff_of(log: UndoLog, entries: Sequence[UndoEntry], cwd: str) -> Diff:
    """The same, of these changes alone."""
    runs: dict[str, list[tuple[str, str]]] = {}
    moved: list[FileDiff] = []
    for entry in entries:
        moved.extend(_moved(one, cwd) for one in entry.renames)
        for file in entry.files:
            _add(runs.setdefault(file.real, []), file)
    files = [
        _shown(log, os.path.relpath(real, cwd), before, after)
        for real, pairs in sorted(runs.items())
        for before, after in pairs
        if before != after
    ]
    return Diff((*files, *moved))


def _moved(one: RenamedPath, cwd: str) -> FileDiff:
    source = os.path.relpath(one.source, cwd)
    if not one.trashed:
        return FileDiff(source, "move", "", 0, 0, new_path=os.path.relpath(one.target, cwd))
    if os.path.islink(one.target) or not os.path.isfile(one.target):
        return FileDiff(source, "delete", "in the trash\n", 0, 0)
    with suppress(OSError, ToolError):
        kept = load(one.target, source)
        found = difference(kept.data if kept else b"", b"")
        return FileDiff(source, "delete", found.diff, found.added, found.removed)
    return FileDiff(source, "delete", "no longer in the trash\n", 0, 0)


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
