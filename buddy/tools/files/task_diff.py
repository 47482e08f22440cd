"""Changes of one task from the undo log, and files that git does not track yet, as diffs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from buddy.agent.display import Diff, FileDiff
from buddy.agent.tool import ToolContext, ToolError
from buddy.safety.paths import Boundary, locate
from buddy.tools.files.change import difference
from buddy.tools.git import git_run, output_of, path_arguments
from buddy.workspace.files.store import load
from buddy.workspace.git.run import run_git
from buddy.workspace.undo.entries import NOTHING, FileVersions
from buddy.workspace.undo.log import UndoEntry, UndoLog
from buddy.workspace.undo.moves import RenamedPath


def task_diff(log: UndoLog, task_id: int, cwd: str, machine: str = "") -> Diff:
    """Return the diff of a task's changes. A file's changes in a row are shown as one; where somebody else
    changed it in between, as several. What was moved or deleted whole comes last. Paths are relative to
    `cwd`; those of another `machine` whole, with its name."""
    return diff_of(log, log.entries(task_id), cwd, machine)


def diff_of(log: UndoLog, entries: Sequence[UndoEntry], cwd: str, machine: str = "") -> Diff:
    """Return the same, of these changes alone."""
    runs: dict[str, list[tuple[str, str]]] = {}
    moved: list[FileDiff] = []
    for entry in entries:
        moved.extend(_move_diff(rename, cwd) for rename in entry.renames)
        for file in entry.files:
            _add(runs.setdefault(file.real, []), file)
    files = [
        _file_diff(log, f"{machine}:{real}" if machine else os.path.relpath(real, cwd), before, after)
        for real, pairs in sorted(runs.items())
        for before, after in pairs
        if before != after
    ]
    return Diff((*files, *moved))


def _move_diff(one: RenamedPath, cwd: str) -> FileDiff:
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


def _file_diff(log: UndoLog, path: str, before: str, after: str) -> FileDiff:
    kind: Literal["add", "update", "delete"] = "update"
    if before == NOTHING:
        kind = "add"
    elif after == NOTHING:
        kind = "delete"
    with suppress(ToolError):
        found = difference(log.content(before) or b"", log.content(after) or b"")
        return FileDiff(path, kind, found.diff, found.added, found.removed)
    return FileDiff(path, kind, "the contents are no longer kept\n", 0, 0)


MAX_FILES = 20
MAX_BYTES = 100_000
MAX_LINES = 200


async def new_files(ctx: ToolContext, path: str = "") -> tuple[Diff, int]:
    """Return new files below a path, each up to its first lines, and the number of further ones. Raises
    `ToolError`."""
    run = git_run(ctx)
    arguments = ("ls-files", "-z", "--others", "--exclude-standard")
    done = await run_git(run, (*arguments, *path_arguments(ctx, (path,), run.repository)), "read")
    names = [name for name in output_of(done).split("\0") if name]
    boundary = ctx.service(Boundary)
    shown = await asyncio.to_thread(lambda: [_diff(boundary, name) for name in names[:MAX_FILES]])
    return Diff(tuple(shown)), max(0, len(names) - MAX_FILES)


def _diff(boundary: Boundary, name: str) -> FileDiff:
    found = locate(boundary, name)
    if found.secret:
        return FileDiff(name, "add", f"not shown: {found.secret}\n", 0, 0)
    if not found.inside:
        return FileDiff(name, "add", "not shown: it lies outside the workspace\n", 0, 0)
    try:
        loaded = load(found.real, found.shown, max_bytes=MAX_BYTES)
    except (ToolError, OSError):
        return FileDiff(name, "add", f"not shown: no text file of at most {MAX_BYTES:,} bytes\n", 0, 0)
    data = loaded.data if loaded is not None else b""
    lines = data.splitlines(keepends=True)
    whole = difference(b"", b"".join(lines[:MAX_LINES]))
    missing = len(lines) - MAX_LINES
    more = f"… {missing:,} more lines\n" if missing > 0 else ""
    return FileDiff(name, "add", whole.diff + more, max(whole.added, len(lines) if more else 0), 0)
