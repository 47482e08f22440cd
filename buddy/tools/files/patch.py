"""`apply_patch`: changes to several files in one text, made together or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, Any

from msgspec import Meta

from buddy.agent.display import Diff
from buddy.agent.formatting import format_count
from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, tool
from buddy.safety.paths import Located
from buddy.safety.sanitise import one_line
from buddy.tools.files.change import ChangePlan, FileChange, Loader, change_files, existing, preview
from buddy.tools.files.copied_text import refuse_elided
from buddy.tools.files.edit import summary
from buddy.tools.files.patch_apply import apply_hunks
from buddy.tools.files.patch_format import (
    AddFile,
    DeleteFile,
    Section,
    UpdateFile,
    added_lines,
    between_markers,
    one_section_each,
    parse_patch,
    patch_paths,
    removed_lines,
    unwrap,
)
from buddy.tools.files.patch_unified import is_unified, parse_unified
from buddy.tools.files.rejections import number_lines, stale
from buddy.tools.files.write import (
    new_bytes,
    refuse_unfinished,
    require_current,
    require_known,
    require_not_taken_away,
)
from buddy.workspace.files.content import decode, line_count
from buddy.workspace.files.line_diff import compare
from buddy.workspace.files.read_tracking import FileViews, changed_lines
from buddy.workspace.files.store import LoadedFile

ALIASES = {"input": "patch", "patch_text": "patch", "patchText": "patch", "diff": "patch"}
NAMED_FILES = 3
"""The title of a call names so many files."""
SUBJECT_CHARS = 120


def _sections(patch: str) -> tuple[Section, ...]:
    text = unwrap(patch)
    inside = between_markers(text)
    if is_unified(inside):
        return one_section_each(parse_unified(inside))
    return parse_patch(text)


class _PatchPlanner:
    """Plans all sections; used by the preview and by the write alike."""

    def __init__(self, sections: tuple[Section, ...]) -> None:
        self._sections = sections

    def __call__(self, ctx: ToolContext, targets: Sequence[Located], loader: Loader) -> ChangePlan:
        named = {target.given: target for target in targets}
        _refuse_twice(self._sections, named)
        changes: list[FileChange] = []
        told: list[str] = []
        for section in self._sections:
            made, text = self._section(ctx, section, named, loader)
            changes.extend(made)
            told.append(text)
        return ChangePlan(tuple(changes), "\n".join(told))

    def _section(
        self, ctx: ToolContext, section: Section, named: dict[str, Located], loader: Loader
    ) -> tuple[list[FileChange], str]:
        target = named[section.path]
        loaded = loader(target)
        match section:
            case AddFile():
                return _add(ctx, target, loaded, section.content)
            case DeleteFile():
                _refuse_link(target, "delete_file")
                before = existing(ctx, target, loaded)
                _refuse_other_content(target, before, section)
                view = ctx.service(FileViews).get(target.real)
                if section.lines is None and view is not None:
                    require_current(ctx, target, before, view, "deleting it")
                return [FileChange(target, before, None, whole=True)], f"{target.shown}: deleted"
            case UpdateFile():
                before = existing(ctx, target, loaded)
                after, text = _update(ctx, target, before, section)
                if not section.move_to:
                    return [FileChange(target, before, after, whole=False)], text
                return _move(ctx, target, before, after, text, named[section.move_to], loader)


def _refuse_twice(sections: Sequence[Section], named: dict[str, Located]) -> None:
    """Refuse two sections about one file: each would start from the same old content. Raises `ToolError`."""
    seen: set[str] = set()
    for path in (path for section in sections for path in patch_paths((section,))):
        real = named[path].real
        if real in seen:
            raise ToolError(
                f"{named[path].shown} is named by more than one section; put all its hunks into one. "
                "Nothing was changed."
            )
        seen.add(real)


def _refuse_link(target: Located, instead: str) -> None:
    """Raise `ToolError` where the file that would go is not the one that is named, but where that leads."""
    if os.path.islink(target.path):
        raise ToolError(
            f"{target.shown} is a link, and the file it leads to would be gone. Nothing was changed. "
            f"{instead} takes the link itself; or name the file."
        )


def _refuse_other_content(target: Located, before: LoadedFile, section: DeleteFile) -> None:
    """Raise `ToolError` where a diff says what the file holds that goes, and it holds something else."""
    content = decode(before.data)
    if section.lines is None or content is None:
        return
    lines = content.text.removesuffix("\n").split("\n") if content.text else []
    pairs = enumerate(zip_longest(lines, section.lines))
    at = next((n for n, (mine, theirs) in pairs if (mine or "").rstrip() != (theirs or "").rstrip()), None)
    if at is not None:
        found = number_lines(lines[at : at + 5], at + 1) or "       (the end of the file)"
        raise ToolError(
            f"{target.shown} is not deleted: from line {at + 1} on it holds something else than the diff "
            f"removes. Nothing was changed. There stands:\n{found}"
        )


def _add(
    ctx: ToolContext, target: Located, before: LoadedFile | None, content: str
) -> tuple[list[FileChange], str]:
    if before is not None and before.data:
        require_known(ctx, target, before, "replacing it whole")
    if before is None:
        require_not_taken_away(ctx, target)
    refuse_unfinished(content, before, target)
    data, _ = new_bytes(content, before)
    done = "created" if before is None else "replaced"
    text = f"{target.shown}: {done}, {format_count(line_count(content), 'line')}"
    return [FileChange(target, before, data, whole=True)], text


def _update(ctx: ToolContext, target: Located, before: LoadedFile, section: UpdateFile) -> tuple[bytes, str]:
    content = decode(before.data)
    if content is None:
        if section.hunks:
            raise ToolError(f"{target.shown} is binary; it cannot be patched. Nothing was changed.")
        return before.data, ""
    if not section.hunks:
        return before.data, ""
    view = ctx.service(FileViews).get(target.real)
    try:
        outcome = apply_hunks(content, section.hunks, target.shown)
    except ToolError as error:
        if view is None or view.digest == before.digest:
            raise
        lines, whole = changed_lines(view, before)
        raise ToolError(f"{error}\n{stale(target.shown, lines, whole=whole)}") from error
    refuse_elided(
        "\n".join(added_lines(section.hunks)), content.text, "\n".join(removed_lines(section.hunks))
    )
    if outcome.content.raw == content.raw and not section.move_to:
        raise ToolError(f"{target.shown} would stay as it is; nothing was changed")
    text = summary(target.shown, compare(content.text, outcome.content.text))
    if outcome.loose:
        text += f"\nNote: some lines did not match exactly: {', '.join(outcome.loose)} differed."
    return content.encode(outcome.content.raw), text


def _move(
    ctx: ToolContext,
    source: Located,
    before: LoadedFile,
    after: bytes,
    text: str,
    target: Located,
    loader: Loader,
) -> tuple[list[FileChange], str]:
    _refuse_link(source, "move_file")
    there = loader(target)
    if there is not None and there.data:
        require_known(ctx, target, there, "moving another file over it")
    made = [
        FileChange(target, there, after, whole=False, mode=before.mode),
        FileChange(source, before, None, whole=False, moved_to=target.real),
    ]
    moved = f"{source.shown}: moved to {target.shown}"
    return made, f"{moved}\n{text}" if text else moved


def _access(arguments: Any) -> Access:
    paths = patch_paths(_sections(arguments.patch))
    return Access(reads=paths, writes=paths)


def _subject(arguments: Any) -> str:
    """Return the files that a patch changes, each with the lines it adds and removes; "" for a broken
    patch."""
    try:
        sections = _sections(arguments.patch)
    except ToolError:
        return ""
    named = ", ".join(map(_section_subject, sections[:NAMED_FILES]))
    more = len(sections) - NAMED_FILES
    return one_line(named, SUBJECT_CHARS) + (f" and {format_count(more, 'more file')}" if more > 0 else "")


def _section_subject(section: Section) -> str:
    match section:
        case AddFile():
            return f"{section.path} +{line_count(section.content)}"
        case DeleteFile():
            return f"{section.path} deleted"
        case UpdateFile():
            signs = [sign for hunk in section.hunks for sign, _text in hunk.lines]
            moved = f" → {section.move_to}" if section.move_to else ""
            return f"{section.path}{moved} +{signs.count('+')} −{signs.count('-')}"


def _preview(ctx: ToolContext, arguments: Any) -> Diff:
    sections = _sections(arguments.patch)
    return preview(ctx, patch_paths(sections), _PatchPlanner(sections))


@tool(
    anywhere=True,
    risk="medium",
    core=True,
    keeps_undo=True,
    change_name="patch",
    hooked_per_file=True,
    category="files",
    access=_access,
    preview=_preview,
    aliases=("applypatch", "patch"),
    argument_aliases=ALIASES,
    subject=_subject,
)
async def apply_patch(
    ctx: ToolContext, patch: Annotated[str, Meta(description="From *** Begin Patch to *** End Patch")]
) -> ToolResult:
    """Change several files with one patch; all of it is applied or nothing. The patch starts with `*** Begin
    Patch` and ends with `*** End Patch`. Sections: `*** Add File: path` (every line starts with +), `***
    Delete File: path`, `*** Update File: path`, optionally followed by `*** Move to: path`. An update has
    hunks: a line `@@`, or `@@` and a line that stands before the change (`@@ def f():`), then lines that
    start with a space (context), - (removed) or + (added). Give three lines of context, more where they are
    not unique. Hunks stand in the order of the file.
    """
    sections = _sections(patch)
    text, diff = await change_files(ctx, "apply_patch", patch_paths(sections), _PatchPlanner(sections))
    return ToolResult(text, diff)
