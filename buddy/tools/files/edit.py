"""`edit_file`: replace quoted text in one file, and answer with the changed regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from buddy.agent.display import Diff
from buddy.agent.formatting import format_count
from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, tool
from buddy.safety.paths import Located
from buddy.tools.files.change import ChangePlan, FileChange, Loader, change_files, existing, preview
from buddy.tools.files.edit_plan import Edit, EditedText, apply_edits
from buddy.tools.files.rejections import stale
from buddy.workspace.files.content import EMPTY, Content, decode
from buddy.workspace.files.line_diff import Comparison, LineChange, LineWindow, compare
from buddy.workspace.files.read_tracking import FileViews, View, changed_lines
from buddy.workspace.files.store import LoadedFile

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


ALIASES = {
    "file_path": "path",
    "filename": "path",
    "filePath": "path",
    "old_string": "old",
    "oldString": "old",
    "old_str": "old",
    "oldText": "old",
    "old_text": "old",
    "new_string": "new",
    "newString": "new",
    "new_str": "new",
    "newText": "new",
    "new_text": "new",
    "replace_all": "all",
    "replaceAll": "all",
}


def _edits(old: str | None, new: str | None, everywhere: bool, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    if edits and (old is not None or new is not None):
        raise ToolError("give either old and new, or edits, not both")
    if edits:
        return tuple(edits)
    if old is None or new is None:
        raise ToolError(
            "expected old and new (the text to replace and its replacement), or edits; nothing was changed"
        )
    return (Edit(old, new, everywhere),)


class _EditPlanner:
    """Plans one call's edits; used by the preview and by the write alike."""

    def __init__(self, edits: tuple[Edit, ...]) -> None:
        self._edits = edits

    def __call__(self, ctx: ToolContext, targets: Sequence[Located], loader: Loader) -> ChangePlan:
        target = targets[0]
        loaded = loader(target)
        if loaded is None and not self._edits[0].old:
            return self._plan(target, None, EMPTY, None)
        before = existing(ctx, target, loaded)
        content = decode(before.data)
        if content is None:
            raise ToolError(
                f"{target.shown} is binary ({format_count(len(before.data), 'byte')}); "
                "it cannot be edited as text"
            )
        return self._plan(target, before, content, ctx.service(FileViews).get(target.real))

    def _plan(
        self, target: Located, before: LoadedFile | None, content: Content, view: View | None
    ) -> ChangePlan:
        changed = view is not None and before is not None and view.digest != before.digest
        try:
            outcome = apply_edits(content, self._edits, target.shown)
        except ToolError as error:
            if view is not None and before is not None and changed:
                lines, whole = changed_lines(view, before)
                raise ToolError(f"{error}\n{stale(target.shown, lines, whole=whole)}") from error
            raise
        data = content.encode(outcome.content.raw)
        found = compare(content.text, outcome.content.text)
        text = summary(target.shown, found) + _remarks(target, outcome, changed=changed)
        return ChangePlan((FileChange(target, before, data, whole=before is None, compared=found),), text)


def _remarks(target: Located, outcome: EditedText, *, changed: bool) -> str:
    remarks: list[str] = []
    loose = sorted({step for step in outcome.steps if step != "exact"})
    if loose:
        remarks.append(f"The old text did not match exactly: {', '.join(loose)} differed.")
    if changed:
        remarks.append(f"{target.shown} had changed since you read it; the old text was still there once.")
    return "".join(f"\nNote: {remark}" for remark in remarks)


def _access(arguments: Any) -> Access:
    return Access(reads=(arguments.path,), writes=(arguments.path,))


def _preview(ctx: ToolContext, arguments: Any) -> Diff:
    edits = _edits(arguments.old, arguments.new, arguments.all, arguments.edits)
    return preview(ctx, [arguments.path], _EditPlanner(edits))


@tool(
    risk="medium",
    keeps_undo=True,
    change_name="edit",
    category="files",
    access=_access,
    preview=_preview,
    aliases=(
        "edit",
        "str_replace",
        "str_replace_editor",
        "str_replace_based_edit_tool",
        "replace",
        "multi_edit",
    ),
    argument_aliases=ALIASES,
)
async def edit_file(
    ctx: ToolContext,
    path: str,
    old: Annotated[str, Meta(description="Text to replace, exactly as in the file")] | None = None,
    new: Annotated[str, Meta(description="Text to put there")] | None = None,
    all: Annotated[bool, Meta(description="Replace every place, not exactly one")] = False,
    edits: Annotated[
        list[Edit], Meta(description="Several edits of this file, in order, instead of old and new")
    ] = [],  # noqa: B006 - copied into the schema, never changed
) -> ToolResult:
    """Replace text in a file. `old` must be quoted exactly as it stands there, indentation included and
    without line numbers, and must stand there exactly once; add lines around it until it does, or set `all`
    to replace every place. Several changes to one file go into `edits`: they are applied in order, all or
    none. An empty `old` creates a file.
    """
    text, diff = await change_files(ctx, "edit_file", [path], _EditPlanner(_edits(old, new, all, edits)))
    return ToolResult(text, diff)
