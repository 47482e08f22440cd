"""Shared steps of every tool that changes files: locate, lock, load, plan, store the old content, write,
report.

A plan is made by the tool's own pure function; the preview makes the same plan and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.display import Diff, FileDiff
from buddy.agent.formatting import format_count
from buddy.agent.tool import ToolContext, ToolError
from buddy.safety.paths import Boundary, Located, locate
from buddy.tools.files.rejections import missing
from buddy.workspace.elsewhere import target_files
from buddy.workspace.files.access import DiskFiles, FileAccess
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.atomic_replace import DISK, Disk
from buddy.workspace.files.content import decode
from buddy.workspace.files.editor_buffers import EditorFiles, UncertainWriteError, editor_buffers
from buddy.workspace.files.line_diff import Comparison, Unified, compare, unify
from buddy.workspace.files.locks import FileLocks, in_thread
from buddy.workspace.files.read_tracking import FileViews
from buddy.workspace.files.store import (
    ACTS_AS_OWNER,
    LoadedFile,
    Replacement,
    explain_errors,
)
from buddy.workspace.undo.entries import FileVersions
from buddy.workspace.undo.log import Intent, UndoEntry, UndoLog


class FileChange(msgspec.Struct, frozen=True):
    """One file's change. `before` None: it does not exist yet; `after` None: it goes. `whole`: the model gave
    the whole content. `moved_to`: where the content goes on living (the change that creates it is another
    one). `compared`: how its text differs, where that was worked out already."""

    located: Located
    before: LoadedFile | None
    after: bytes | None
    whole: bool
    mode: int | None = None
    moved_to: str = ""
    compared: Comparison | None = None


class ChangePlan(msgspec.Struct, frozen=True):
    """Changes to make together or not at all, and what the model is told once they are made."""

    changes: tuple[FileChange, ...]
    text: str


Loader = Callable[[Located], LoadedFile | None]
Planner = Callable[[ToolContext, Sequence[Located], Loader], ChangePlan]
"""From located files and a way to load them to a plan. Raises `ToolError`."""


def locate_checked(ctx: ToolContext, given: str) -> Located:
    """Locate a path, and check that it still leads to the place it led to when the call was judged."""
    found = locate_given(ctx, given)
    ctx.service(Approved).check_path(ctx.call_id, given, found.real)
    return found


def locate_given(ctx: ToolContext, given: str) -> Located:
    """Locate a path on the machine the call works on."""
    there = target_files(ctx)
    return locate(ctx.service(Boundary), given) if there is None else there.locate(given)


def loader_of(ctx: ToolContext) -> Loader:
    """Return what loads files of the machine the call works on."""
    return file_access(ctx, DISK).load


def file_access(ctx: ToolContext, disk: Disk) -> FileAccess:
    """Return the files a call works on: another machine's, an editor's, or those of this disk."""
    there = target_files(ctx)
    if there is not None:
        return there
    buffers = editor_buffers(ctx)
    return DiskFiles(disk) if buffers is None else EditorFiles(buffers, DiskFiles(disk))


def existing(ctx: ToolContext, found: Located, loaded: LoadedFile | None) -> LoadedFile:
    """Return a file that has to be there. Raises `ToolError` with near names, and says whether it was there
    once."""
    if loaded is None:
        seen = ctx.service(FileViews).get(found.real) is not None
        since = " It was there when you read it: it was deleted or moved since then." if seen else ""
        there = target_files(ctx)
        if there is not None:
            raise ToolError(f"{found.shown} does not exist on {there.name}.{since}")
        raise ToolError(f"{missing(found, ctx.service(Boundary))}{since}")
    return loaded


async def change_files(ctx: ToolContext, tool: str, paths: Sequence[str], plan: Planner) -> tuple[str, Diff]:
    """Make a plan under the locks of its files and carry it out. Returns what the model reads and the person
    sees."""

    def work() -> tuple[str, Diff]:
        targets = [locate_checked(ctx, path) for path in paths]
        with ctx.service(FileLocks).holding(*(target.real for target in targets)):
            made = plan(ctx, targets, loader_of(ctx))
            for target in made.changes:
                digest = "" if target.before is None else target.before.digest
                ctx.service(Approved).check_content(ctx.call_id, target.located.given, digest)
            _carry_out(ctx, tool, made.changes)
            remarks = _lost_properties(made.changes) + _editor_remarks(ctx, made.changes)
            return made.text + remarks, diff_for_display(made.changes)

    return await in_thread(work)


def _lost_properties(changes: Sequence[FileChange]) -> str:
    """Return notes for the model about properties a write loses: hard links (only the given name gets the new
    content), setuid and setgid."""
    notes: list[str] = []
    for item in changes:
        if item.before is None or item.after is None:
            continue
        shown = item.located.shown
        if item.before.links > 1:
            notes.append(
                f"{shown} was a hard link; its other names ({item.before.links - 1}) keep the old content."
            )
        if item.before.mode & ACTS_AS_OWNER:
            notes.append(f"{shown} was setuid or setgid; it is not any more, as after any write.")
    return "".join(f"\nNote: {note}" for note in notes)


def _editor_remarks(ctx: ToolContext, changes: Sequence[FileChange]) -> str:
    buffers = editor_buffers(ctx)
    if buffers is None:
        return ""
    written = [item.located for item in changes if item.after is not None]
    return "".join(buffers.remark(located.real, located.shown) for located in written)


def preview(ctx: ToolContext, paths: Sequence[str], plan: Planner) -> Diff:
    """Return the diff `change` would make now, and remember for this call the versions it is based on. Raises
    `ToolError` when the call would be refused: asking about it is pointless."""
    targets = [locate_given(ctx, path) for path in paths]
    made = plan(ctx, targets, loader_of(ctx))
    approved = ctx.service(Approved)
    for target in targets:
        approved.remember(ctx.call_id, target.given, target.real)
    for item in made.changes:
        digest = "" if item.before is None else item.before.digest
        approved.remember(ctx.call_id, item.located.given, item.located.real, digest)
    return diff_for_display(made.changes)


def _carry_out(ctx: ToolContext, tool: str, changes: Sequence[FileChange]) -> None:
    log = ctx.service(UndoLog)
    names = ", ".join(change.located.shown for change in changes)
    with explain_errors(f"keep what {names} was for undo"):
        entry = log.prepare(
            ctx.task_id,
            ctx.call_id,
            tool,
            [Intent(change.located.real, change.before, change.after) for change in changes],
        )
    done: list[FileChange] = []
    files = file_access(ctx, log.disk)
    uncertain: list[FileChange] = []
    with on_failure(_take_all_back, files, done, uncertain, log, entry):
        for item, versions in zip(changes, entry.files, strict=True):
            try:
                with explain_errors(f"write {item.located.shown}"):
                    _write(ctx.service(FileViews), item, versions, files)
            except UncertainWriteError:
                uncertain.append(item)
                raise
            done.append(item)


def _write(views: FileViews, item: FileChange, versions: FileVersions, files: FileAccess) -> None:
    real, shown = item.located.real, item.located.shown
    if item.after is None:
        if item.before is not None:
            files.remove(real, shown, item.before, temporary=versions.temporary)
        views.forget(real)
        return
    new = Replacement(real, shown, item.after, item.before, item.mode, versions.temporary)
    stamp = files.replace(new)
    views.wrote(real, item.before, item.after, versions.after, stamp, whole=item.whole)


def _take_all_back(
    files: FileAccess,
    done: Sequence[FileChange],
    uncertain: Sequence[FileChange],
    log: UndoLog,
    entry: UndoEntry,
) -> None:
    """Take back all changes of a failed call; keep the undo entry when a file could not be restored, or when
    one may have been written."""
    undone = [_take_back(item, files) for item in reversed(done)]
    if all(undone) and not uncertain:
        log.drop(entry)


def _take_back(item: FileChange, files: FileAccess) -> bool:
    """Restore a file that was written before another one failed."""
    real, shown = item.located.real, item.located.shown
    with suppress(OSError, ToolError):
        now = files.load(item.located)
        if item.before is None:
            if now is not None and now.data == item.after:
                files.remove(real, shown, now)
            return True
        files.replace(Replacement(real, shown, item.before.data, now, item.before.mode))
        return True
    return False


def diff_for_display(changes: Sequence[FileChange]) -> Diff:
    """Return the changes as the person sees them."""
    moved_to = {item.moved_to for item in changes if item.moved_to}
    sources = {item.moved_to: item for item in changes if item.moved_to}
    files: list[FileDiff] = []
    for item in changes:
        if item.moved_to:
            continue
        source = sources.get(item.located.real) if item.located.real in moved_to else None
        files.append(_move_diff(source, item) if source is not None else _plain(item))
    return Diff(tuple(files))


def _plain(item: FileChange) -> FileDiff:
    if item.compared is not None and item.compared.changes:
        found = unify(item.compared)
    else:
        found = difference(item.before.data if item.before else b"", item.after or b"")
    kind: Literal["add", "update", "delete"] = "update"
    if item.before is None:
        kind = "add"
    elif item.after is None:
        kind = "delete"
    return FileDiff(item.located.shown, kind, found.diff, found.added, found.removed)


def _move_diff(source: FileChange, target: FileChange) -> FileDiff:
    found = difference(source.before.data if source.before else b"", target.after or b"")
    return FileDiff(
        source.located.shown, "move", found.diff, found.added, found.removed, new_path=target.located.shown
    )


def difference(before: bytes, after: bytes) -> Unified:
    """Return the unified diff of two contents; of binary ones, that they differ."""
    old, new = decode(before), decode(after)
    if old is None or new is None:
        same = before == after
        return Unified(
            "" if same else f"binary: {len(before):,} → {format_count(len(after), 'byte')}\n", 0, 0
        )
    found = unify(compare(old.text, new.text))
    if not found.diff and before != after:
        return Unified("line ends or encoding differ\n", 0, 0)
    return found
