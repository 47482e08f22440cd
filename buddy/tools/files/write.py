"""`write_file`: a file's whole content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from buddy.agent.display import Diff
from buddy.agent.formatting import format_count
from buddy.agent.tool import ToolContext, ToolError, ToolResult, tool, writes_path
from buddy.safety.paths import Located
from buddy.tools.files.change import ChangePlan, FileChange, Loader, change_files, preview
from buddy.tools.files.copied_text import refuse_elided, refuse_wrapped
from buddy.tools.files.edit import summary
from buddy.tools.files.read import never_whole
from buddy.tools.files.rejections import stale
from buddy.workspace.files.content import EMPTY, Content, decode, line_count, with_line_ends
from buddy.workspace.files.line_diff import Merged, compare, merge
from buddy.workspace.files.read_tracking import FileViews, View, changed_lines
from buddy.workspace.files.store import LoadedFile
from buddy.workspace.undo.entries import NOTHING
from buddy.workspace.undo.log import UndoLog

ALIASES = {
    "file_path": "path",
    "filename": "path",
    "filePath": "path",
    "contents": "content",
    "text": "content",
    "file_text": "content",
}


UNDONE = "Note: the user had taken back your last edit of {} with /undo, before this call."


def require_known(ctx: ToolContext, target: Located, before: LoadedFile, doing: str) -> None:
    """Refuse to replace or drop what the model has not seen. Raises `ToolError`."""
    view = ctx.service(FileViews).get(target.real)
    unseen = never_whole(before.data, target.path) if view is None or not view.whole else ""
    if unseen:
        raise ToolError(
            f"{target.shown} exists, and read_file cannot show the whole of it: {unseen}. Change parts of it "
            "with edit_file, or move it out of the way first (delete_file keeps it in the trash). Nothing "
            "was changed."
        )
    if view is None:
        raise ToolError(
            f"{target.shown} exists and you have not read it: read it with read_file before {doing}, or "
            "change parts of it with edit_file. Nothing was changed."
        )
    require_current(ctx, target, before, view, doing)
    if not view.whole:
        raise ToolError(
            f"you have seen only a part of {target.shown}: read the rest with read_file before {doing}, or "
            "change parts of it with edit_file. Nothing was changed."
        )


def require_current(ctx: ToolContext, target: Located, before: LoadedFile, view: View, doing: str) -> None:
    """Refuse to replace or drop what changed since the model saw it. A content that the person's own /undo
    put back is known: the model made its edit from it. Raises `ToolError`."""
    if not ctx.service(UndoLog).led_to(target.real, view.digest, before.digest):
        lines, whole = changed_lines(view, before)
        raise ToolError(
            f"{stale(target.shown, lines, whole=whole)}\nNothing was changed. Read it again before {doing}."
        )


def require_not_taken_away(ctx: ToolContext, target: Located) -> None:
    """Refuse, once, to bring back what somebody took away since the model saw it; what the person's own /undo
    took away is a new file again. Raises `ToolError`."""
    views = ctx.service(FileViews)
    view = views.get(target.real)
    if view is not None and view.text and not ctx.service(UndoLog).led_to(target.real, view.digest, NOTHING):
        views.forget(target.real)
        raise ToolError(
            f"{target.shown} was there when you read it: it was deleted or moved since then. Nothing was "
            "changed. If it is to be there again, make the same call once more."
        )


def new_bytes(content: str, before: LoadedFile | None) -> tuple[bytes, Content]:
    """Return the whole new content as bytes of the same kind as the old ones: encoding, byte order mark, line
    ends."""
    old = EMPTY if before is None else decode(before.data)
    if old is None:
        return EMPTY.encode(content), EMPTY
    raw = content.removeprefix("\ufeff") if old.bom else content
    if old.uniform and old.line_end != "\n":
        raw = with_line_ends(raw, old.line_end)
    return old.encode(raw), old


def refuse_unfinished(content: str, before: LoadedFile | None, target: Located) -> None:
    """Raise `ToolError` where a file's whole content has lines that stand for others, or something around it
    that is no part of it."""
    old = EMPTY if before is None else decode(before.data) or EMPTY
    refuse_wrapped(content, old.text, target.path)
    if old.text:
        refuse_elided(content, old.text, old.text)


def _merge_plan(target: Located, before: LoadedFile, view: View | None, content: str) -> ChangePlan | None:
    """Return the plan where somebody else changed other lines of a file the model has seen whole: both
    changes. None where the file is as it was seen, or where nothing can be merged."""
    if view is None or not view.whole or view.text is None or view.digest == before.digest:
        return None
    wanted, old = new_bytes(content, before)
    now, mine = decode(before.data), decode(wanted)
    if now is None or mine is None or not old.uniform:
        return None
    found = merge(view.text, mine.text, now.text)
    if not isinstance(found, Merged) or found.text == now.text:
        return None
    data, _ = new_bytes(found.text, before)
    lines, _ = changed_lines(view, before)
    text = (
        f"{summary(target.shown, compare(now.text, found.text))}\n"
        f"Note: {target.shown} had changed since you read it, in other lines than yours. Both changes are in "
        "it now. The other one was:\n" + "\n".join(lines)
    )
    return ChangePlan((FileChange(target, before, data, whole=False),), text)


class _WritePlanner:
    """Plans the write; used by the preview and by the write alike."""

    def __init__(self, content: str) -> None:
        self._content = content

    def __call__(self, ctx: ToolContext, targets: Sequence[Located], loader: Loader) -> ChangePlan:
        target = targets[0]
        before = loader(target)
        if before is None:
            require_not_taken_away(ctx, target)
        refuse_unfinished(self._content, before, target)
        if before is not None and before.data:
            view = ctx.service(FileViews).get(target.real)
            merged = _merge_plan(target, before, view, self._content)
            if merged is not None:
                return merged
            require_known(ctx, target, before, "replacing it whole")
        data, old = new_bytes(self._content, before)
        if before is not None and before.data == data:
            raise ToolError(f"{target.shown} already has exactly this content; nothing was changed")
        now = decode(data)
        lines = 0 if now is None else line_count(now.text)
        if before is None:
            text = (
                f"{target.shown}: created, {format_count(lines, 'line')}, {format_count(len(data), 'byte')}"
            )
        else:
            text = summary(target.shown, compare(old.text, "" if now is None else now.text))
            view = ctx.service(FileViews).get(target.real)
            if before.data and view is not None and view.digest != before.digest:
                text += f"\n{UNDONE.format(target.shown)}"
        return ChangePlan((FileChange(target, before, data, whole=True),), text)


def _preview(ctx: ToolContext, arguments: Any) -> Diff:
    return preview(ctx, [arguments.path], _WritePlanner(arguments.content))


@tool(
    anywhere=True,
    risk="medium",
    core=True,
    keeps_undo=True,
    change_name="edit",
    category="files",
    access=writes_path,
    preview=_preview,
    aliases=("create_file", "write", "write_to_file", "create"),
    argument_aliases=ALIASES,
)
async def write_file(ctx: ToolContext, path: str, content: str) -> ToolResult:
    """Create a file, missing folders too, or replace the whole of one that you have read completely. To
    change parts of one, edit it instead."""
    text, diff = await change_files(ctx, "write_file", [path], _WritePlanner(content))
    return ToolResult(text, diff)
