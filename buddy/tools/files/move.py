"""`copy_file`, `move_file`, `delete_file`: whole files and folders, without looking into them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any, TypeVar

from buddy.agent.cancel import on_failure
from buddy.agent.display import Diff, Display, FileDiff, Plain
from buddy.agent.formatting import format_count
from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, tool, writes_path
from buddy.safety.paths import Boundary, Located, locate, walk_tree
from buddy.tools.files.change import (
    ChangePlan,
    FileChange,
    Loader,
    change_files,
    existing,
    locate_checked,
    preview,
)
from buddy.tools.files.rejections import missing
from buddy.workspace.files.access import DiskFiles
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.editor_buffers import MAX_LOOKS, EditorFiles, editor_buffers
from buddy.workspace.files.locks import FileLocks, in_thread
from buddy.workspace.files.read_tracking import FileViews
from buddy.workspace.files.store import explain_errors, refuse_irregular, status_of
from buddy.workspace.undo.log import UndoLog
from buddy.workspace.undo.moves import RenamedPath, rename
from buddy.workspace.undo.trash import Trash

ALIASES = {
    **dict.fromkeys(("from", "src", "from_path", "source_path"), "source"),
    **dict.fromkeys(("to", "dst", "dest", "destination", "to_path", "target_path"), "target"),
}
MAX_COUNTED = 10_000
T = TypeVar("T")


def _inside(source: str, target: str) -> str:
    """Return the path meant where the target is a folder: in it, under the same name."""
    return os.path.join(target, os.path.basename(source.rstrip("/")))


def _into(ctx: ToolContext, source: Located, target: Located) -> Located:
    status = status_of(target.real)
    if status is not None and stat.S_ISDIR(status.st_mode):
        return locate_checked(ctx, _inside(source.given, target.given))
    return target


def _free(target: Located) -> None:
    if status_of(target.real) is not None:
        raise ToolError(
            f"{target.shown} exists already; nothing was changed. Choose another name or delete it first."
        )


def _plan_copy(ctx: ToolContext, targets: Any, loader: Loader) -> ChangePlan:
    source, target = targets[0], _into(ctx, targets[0], targets[1])
    before = existing(ctx, source, loader(source))
    _free(target)
    made = FileChange(target, None, before.data, whole=False, mode=before.mode & 0o777)
    return ChangePlan(
        (made,), f"{source.shown}: copied to {target.shown}, {format_count(len(before.data), 'byte')}"
    )


def _copy_access(arguments: Any) -> Access:
    # Whether the target is a folder is not known here: both paths are judged.
    inside = _inside(arguments.source, arguments.target)
    return Access(reads=(arguments.source,), writes=(arguments.target, inside))


def _copy_preview(ctx: ToolContext, arguments: Any) -> Diff:
    return preview(ctx, [arguments.source, arguments.target], _plan_copy)


@tool(
    risk="medium",
    keeps_undo=True,
    category="files",
    access=_copy_access,
    preview=_copy_preview,
    aliases=("cp",),
    argument_aliases=ALIASES,
)
async def copy_file(ctx: ToolContext, source: str, target: str) -> ToolResult:
    """Copy one file to a new path, which must not exist yet; mode and bytes stay the same. A folder as target
    means: into it, under the same name."""
    text, diff = await change_files(ctx, "copy_file", [source, target], _plan_copy)
    return ToolResult(text, diff)


def _move_access(arguments: Any) -> Access:
    inside = _inside(arguments.source, arguments.target)
    return Access(reads=(arguments.source,), writes=(arguments.source, arguments.target, inside))


def _stat(ctx: ToolContext, target: Located) -> os.stat_result:
    """Return the status of the entry to move or delete: a regular file, a folder, or a link (the link
    itself)."""
    status = status_of(_itself(ctx.service(Boundary), target))
    if status is None:
        raise ToolError(missing(target, ctx.service(Boundary)))
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISLNK(status.st_mode):
        refuse_irregular(status.st_mode, target.shown)
    _refuse_whole_workspace(ctx.service(Boundary), target)
    return status


def _itself(boundary: Boundary, target: Located) -> str:
    """Return the real path of the name itself: the folder's links are followed, a link in the last place is
    not."""
    if not os.path.islink(target.path):
        return target.real
    folder, name = os.path.split(target.path)
    around = locate(boundary, folder)
    if target.inside and not around.inside:
        raise ToolError(f"{target.shown} is reached through a link out of the workspace; nothing was touched")
    return os.path.join(around.real, name)


def _refuse_unsaved(ctx: ToolContext, target: Located, origin: str) -> str:
    """Raise `ToolError` where the editor has unsaved changes of what would go: they would be lost, or come
    back under the old name. Returns a note for the result where a folder is too large to be sure, "" else."""
    buffers = editor_buffers(ctx)
    if buffers is None:
        return ""
    files = EditorFiles(buffers, DiskFiles())
    is_whole = True
    if os.path.isdir(origin) and not os.path.islink(origin):
        is_whole = not buffers.covers(origin) or files.look_below(origin, target.shown)
    elif origin == target.real:
        files.load(target)
    if buffers.is_unsaved_below(origin):
        raise ToolError(
            f"{target.shown} has unsaved changes in the editor: the person has to save or discard them "
            "first. Nothing was changed."
        )
    return (
        ""
        if is_whole
        else (
            f"\nNote: the editor was asked for the first {MAX_LOOKS} files of {target.shown} only; whether "
            "it has unsaved changes of others is not known."
        )
    )


def _refuse_whole_workspace(boundary: Boundary, target: Located) -> None:
    """Raise `ToolError` for the workspace itself and everything above it."""
    for root in (boundary.root, boundary.cwd, boundary.home):
        if root == target.real or root.startswith(target.real.rstrip("/") + "/"):
            raise ToolError(
                f"{target.shown} holds the workspace or the home folder; it is not moved or deleted"
            )


def _move_preview(ctx: ToolContext, arguments: Any) -> Display:
    source, target = (locate(ctx.service(Boundary), path) for path in (arguments.source, arguments.target))
    _stat(ctx, source)
    end = _into(ctx, source, target)
    _free(end)
    for found in (source, target, end):
        ctx.service(Approved).remember(ctx.call_id, found.given, found.real)
    return Diff((FileDiff(source.shown, "move", "", 0, 0, new_path=end.shown),))


@tool(
    risk="high",
    effect="it moves a file",
    change_name="move",
    keeps_undo=True,
    category="files",
    access=_move_access,
    preview=_move_preview,
    aliases=("mv", "rename_file"),
    argument_aliases=ALIASES,
)
async def move_file(ctx: ToolContext, source: str, target: str) -> ToolResult:
    """Move or rename a file or folder. The new path must not exist yet; a folder as target means: into it,
    under the same name. Missing folders are created."""

    def work() -> ToolResult:
        start = locate_checked(ctx, source)
        status = _stat(ctx, start)
        end = _into(ctx, start, locate_checked(ctx, target))
        origin = _itself(ctx.service(Boundary), start)
        note = _refuse_unsaved(ctx, start, origin)
        if end.real == origin or end.real.startswith(origin + "/"):
            raise ToolError(f"{start.shown} cannot be moved into itself")
        with ctx.service(FileLocks).holding(origin, end.real), explain_errors(f"move {start.shown}"):
            _free(end)
            _log_and_move(ctx, "move_file", RenamedPath(origin, end.real), lambda: rename(origin, end.real))
        ctx.service(FileViews).rename(origin, end.real)
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "file"
        shown = Diff((FileDiff(start.shown, "move", "", 0, 0, new_path=end.shown),))
        return ToolResult(f"{start.shown}: {kind} moved to {end.shown}{note}", shown)

    return await in_thread(work)


def _log_and_move(ctx: ToolContext, tool: str, renamed: RenamedPath, act: Callable[[], T]) -> T:
    """Log the way back to the disk, then move."""
    log = ctx.service(UndoLog)
    entry = log.prepare_renames(ctx.task_id, ctx.call_id, tool, [renamed])
    with on_failure(log.drop, entry):
        return act()


def _delete_preview(ctx: ToolContext, arguments: Any) -> Display:
    target = locate(ctx.service(Boundary), arguments.path)
    status = _stat(ctx, target)
    ctx.service(Approved).remember(ctx.call_id, arguments.path, target.real)
    named = _describe(target, _itself(ctx.service(Boundary), target), status)
    return Plain(f"delete {named} (goes to the trash)")


def _describe(target: Located, origin: str, status: os.stat_result) -> str:
    if not stat.S_ISDIR(status.st_mode):
        return f"{target.shown} ({format_count(status.st_size, 'byte')})"
    count = 0
    for _, _, files in walk_tree(origin):
        count += len(files)
        if count > MAX_COUNTED:
            return f"folder {target.shown} (more than {MAX_COUNTED:,} files)"
    return f"folder {target.shown} ({format_count(count, 'file')})"


def _changes_since(ctx: ToolContext, origin: str, status: os.stat_result) -> str:
    view = ctx.service(FileViews).get(origin)
    if view is None or (view.stamp.size, view.stamp.modified_ns) == (status.st_size, status.st_mtime_ns):
        return ""
    return "\nNote: it was written after you read it; what you have not seen of it is in the trash too."


@tool(
    risk="high",
    effect="it deletes a file",
    change_name="deletion",
    keeps_undo=True,
    category="files",
    access=writes_path,
    preview=_delete_preview,
    aliases=("rm", "remove_file"),
    argument_aliases={"file_path": "path", "filename": "path"},
)
async def delete_file(ctx: ToolContext, path: str) -> ToolResult:
    """Delete a file or a folder with everything in it. It goes to the project's trash, from which the person
    can restore it."""

    def work() -> ToolResult:
        import shutil  # here: 2 ms, with the compressors it knows, that a start need not pay

        target = locate_checked(ctx, path)
        status = _stat(ctx, target)
        origin = _itself(ctx.service(Boundary), target)
        note = _refuse_unsaved(ctx, target, origin)
        named = _describe(target, origin, status)
        since = _changes_since(ctx, origin, status)
        with ctx.service(FileLocks).holding(origin), explain_errors(f"delete {target.shown}"):
            try:
                trash = ctx.service(Trash)
                place = trash.place()
                trashed = _log_and_move(
                    ctx,
                    "delete_file",
                    RenamedPath(origin, place, trashed=True),
                    lambda: trash.take(origin, ctx.task_id, place),
                )
            except shutil.Error as error:
                raise ToolError(
                    f"cannot move {target.shown} to the trash: {error}; it was not deleted"
                ) from error
        ctx.service(FileViews).forget_below(origin)
        text = f"{named}: deleted (in the trash as {trashed.id}){since}{note}"
        return ToolResult(text, Plain(text))

    return await in_thread(work)
