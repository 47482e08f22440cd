"""Bringing what a task did in its worktree to the main tree: three-way, all of it or nothing, and one undo
takes it back. What the person changed meanwhile stays. Symbolic links are named, for the person to make: a
link in the main tree decides where later writes go."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from typing import Literal

import msgspec

from buddy.agent.display import Diff, FileDiff
from buddy.agent.formatting import format_count
from buddy.agent.tool import ToolContext, ToolError
from buddy.safety.git_repository import read_if_regular
from buddy.safety.paths import Boundary, Located, locate
from buddy.safety.sanitise import visible
from buddy.tools.files.change import ChangePlan, FileChange, Loader, change_files, difference, loader_of
from buddy.workspace.checkpoints.snapshots import LINK_MODE
from buddy.workspace.files.line_diff import Conflict, merge_bytes
from buddy.workspace.files.store import LoadedFile
from buddy.workspace.undo.log import UndoLog
from buddy.workspace.worktrees.changes import FileChanged, WorktreeChanges

MAX_NAMED = 20
_PROTECTED = "look at it, then /worktree merge N protected brings such files too"
_ANY_EXECUTE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


async def bring(ctx: ToolContext, changes: WorktreeChanges, *, protected: bool = False) -> Diff:
    """Make the changes of a worktree in the main tree, whose services `ctx` has; the files that became
    different there. `protected`: also those with names that are dangerous to write. `links_by_hand` names
    the links, which are left out. Raises `ToolError`: where both changed the same lines, with all such
    places; then nothing has changed."""
    if await asyncio.to_thread(_has_all, ctx, changes):
        return Diff(())
    root = ctx.service(Boundary).root
    files = [file for file in changes.files if not file.is_link]
    paths = [f"{root}/{file.path}" for file in files]

    def plan(_ctx: ToolContext, targets: Sequence[Located], load: Loader) -> ChangePlan:
        return _plan(files, targets, load, protected=protected)

    _text, diff = await change_files(ctx, "worktree merge", paths, plan)
    return diff


def is_there(ctx: ToolContext, changes: WorktreeChanges) -> bool:
    """Tell whether removing a worktree loses nothing: the main tree contains its changes, or this call has
    already brought them over and that still stands, however the lines were edited since. Blocks."""
    if changes.left_out or links_by_hand(ctx, changes):
        return False
    log = ctx.service(UndoLog)
    if any(entry.call_id == ctx.call_id for entry in log.entries()):
        return True
    return _has_all(ctx, changes)


def links_by_hand(ctx: ToolContext, changes: WorktreeChanges) -> tuple[str, ...]:
    """Return each symbolic link that was made, changed or removed in the worktree and is not so in the main
    tree, with what it became. Blocks."""
    root = ctx.service(Boundary).root
    return tuple(
        f"{visible(file.path)} ({_name_result(file)})"
        for file in changes.files
        if file.is_link and not _has_link(f"{root}/{file.path}", file)
    )


def _has_link(real: str, file: FileChanged) -> bool:
    if file.after is None:
        return not os.path.lexists(real)
    if file.modes[1] != LINK_MODE:
        return not os.path.islink(real) and read_if_regular(real, len(file.after) + 1) == file.after
    return os.path.islink(real) and os.fsencode(os.readlink(real)) == file.after


def _name_result(file: FileChanged) -> str:
    if file.after is None:
        return "no longer there"
    if file.modes[1] != LINK_MODE:
        return "a file in place of the link"
    return f"a link to {visible(os.fsdecode(file.after))}"


def _has_all(ctx: ToolContext, changes: WorktreeChanges) -> bool:
    boundary = ctx.service(Boundary)
    try:
        return all(
            _merge(file, locate(boundary, f"{boundary.root}/{file.path}"), loader_of(ctx)) is None
            for file in changes.files
            if not file.is_link
        )
    except ToolError:
        return False


def changes_diff(changes: WorktreeChanges) -> Diff:
    """Return the diff of a worktree's changes for display."""
    return Diff(tuple(_file_diff(file) for file in changes.files))


def _plan(
    files: Sequence[FileChanged], targets: Sequence[Located], load: Loader, *, protected: bool
) -> ChangePlan:
    made: list[FileChange] = []
    problems: list[str] = []
    for one, target in zip(files, targets, strict=True):
        try:
            found = _merge(one, target, load)
        except ToolError as error:
            problems.append(f"{visible(one.path)}: {error}")
            continue
        if found is not None and target.protected and not protected:
            problems.append(f"{visible(one.path)}: {target.protected}; {_PROTECTED}")
        elif found is not None:
            made.append(found)
    if problems:
        more = len(problems) - MAX_NAMED
        lines = [*problems[:MAX_NAMED], *([f"… and {format_count(more, 'more file')}"] if more > 0 else [])]
        raise ToolError("nothing was brought over; these can't be merged:\n" + "\n".join(lines))
    return ChangePlan(tuple(made), "")


def _merge(one: FileChanged, target: Located, load: Loader) -> FileChange | None:
    """Return the change of one file of the main tree, None where it has it already. Raises `ToolError`."""
    if target.real != target.path or not target.inside:
        raise ToolError(f"it leads elsewhere in the main tree ({target.shown})")
    now = load(target)
    ours = None if now is None else now.data
    after = _content(one, ours)
    mode = _mode(one, now)
    if after == ours and mode is None:
        return None
    return FileChange(target, now, after, whole=True, mode=mode)


def _content(one: FileChanged, ours: bytes | None) -> bytes | None:
    """Return the new content of the main tree's file. Raises `ToolError`."""
    if ours in (one.before, one.after):
        return one.after
    if one.before is None:
        raise ToolError("made in both, with different contents")
    if one.after is None:
        raise ToolError("deleted in the worktree, changed in the main tree")
    if ours is None:
        raise ToolError("changed in the worktree, deleted in the main tree")
    merged = merge_bytes(one.before, ours, one.after)
    if isinstance(merged, Conflict):
        raise ToolError(f"both changed lines {merged.first} to {merged.last} (of the file as it was)")
    if merged is None:
        raise ToolError("binary, and changed in both")
    return merged


def _mode(one: FileChanged, now: LoadedFile | None) -> int | None:
    """Return the permissions to give, None for those it has or a new file gets by itself. Only whether it can
    be run is brought over: the rest is the main tree's."""
    can_run = bool(one.modes[1] & _ANY_EXECUTE)
    if one.after is None or can_run == bool(one.modes[0] & _ANY_EXECUTE):
        return None
    if now is None:
        return 0o755 if can_run else None
    mode = now.mode | (now.mode & 0o444) >> 2 if can_run else now.mode & ~_ANY_EXECUTE
    return None if mode == now.mode else mode


def _file_diff(one: FileChanged) -> FileDiff:
    kind: Literal["add", "update", "delete"] = "update"
    if one.before is None:
        kind = "add"
    elif one.after is None:
        kind = "delete"
    found = difference(one.before or b"", one.after or b"")
    return FileDiff(one.path, kind, found.diff, found.added, found.removed)


def main_tree(boundary: Boundary) -> Boundary:
    """Return the boundary for `bring`: paths of a worktree start at the top."""
    return msgspec.structs.replace(boundary, cwd=boundary.root)
