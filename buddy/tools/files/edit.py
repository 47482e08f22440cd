"""`edit_file`: replace quoted text in one file, and answer with the changed regions.

The result of an edit is computed without touching a file, so that the approval shows exactly what will be
written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from buddy.agent.display import Diff
from buddy.agent.formatting import format_count
from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, tool
from buddy.safety.paths import Located
from buddy.tools.files.change import ChangePlan, FileChange, Loader, change_files, existing, preview
from buddy.tools.files.copied_text import refuse_elided
from buddy.tools.files.matching import (
    MAX_PLACES,
    Match,
    MatchedPlaces,
    Mismatch,
    Quote,
    Step,
    find,
    shift_text,
)
from buddy.tools.files.rejections import ambiguous, describe_mismatch, stale
from buddy.workspace.files.content import EMPTY, Content, decode, from_text, split_ends, with_line_ends
from buddy.workspace.files.line_diff import Comparison, LineChange, LineWindow, compare
from buddy.workspace.files.read_tracking import FileViews, View, changed_lines
from buddy.workspace.files.store import LoadedFile

MAX_ALIGNED_LINES = 1500
"""Longer replacements are not aligned line by line: the new text is taken as it is."""

Blend = Callable[[str, str, str], str]
"""(line in the file, line in `old`, line in `new`) → the line to write, for a line that was changed."""


def take_new(_original: str, _old: str, new: str) -> str:
    """Take the new line for a changed line."""
    return new


def keep_typography(original: str, old: str, new: str) -> str:
    """Keep the file's characters in a changed line where `old` and `new` agree at its start and end, as far
    as `original` and `old` correspond one to one."""
    if len(original) != len(old):
        return new
    shortest = min(len(old), len(new))
    head = 0
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return original[:head] + new[head : len(new) - tail] + original[len(original) - tail :]


def splice(original: str, old: str, new: str, line_end: str, blend: Blend = take_new) -> str:
    """`new` as it goes into the file in place of `original`, which `old` was matched with line by line.

    Lines that `old` and `new` share are copied from `original`, line ends included; other lines end as their
    neighbours in `original` do, or with `line_end` where there are none."""
    import difflib  # here: 1 ms that a start need not pay

    kept = split_ends(original)
    old_lines, new_lines = old.split("\n"), new.split("\n")
    if len(kept) != len(old_lines) or len(old_lines) + len(new_lines) > MAX_ALIGNED_LINES:
        return with_line_ends(new, line_end)
    pieces: list[tuple[str, str]] = []
    alike = difflib.SequenceMatcher(None, _comparable(old_lines), _comparable(new_lines), autojunk=False)
    for tag, i1, i2, j1, j2 in alike.get_opcodes():
        if tag == "equal":
            pieces.extend(kept[i1:i2])
            continue
        paired = i2 - i1 == j2 - j1
        for at, line in enumerate(new_lines[j1:j2]):
            text = blend(kept[i1 + at][0], old_lines[i1 + at], line) if paired else line
            pieces.append((text, _end_at(kept, min(i1 + at, i2 - 1 if i2 > i1 else i1), line_end)))
    return _join(pieces, line_end)


def _comparable(lines: list[str]) -> list[str]:
    """Mark the empty text after the last line end as no blank line, so that it is not matched with one."""
    return lines if lines[-1] else [*lines[:-1], "\n"]


def _end_at(kept: list[tuple[str, str]], index: int, line_end: str) -> str:
    """Return the line end for a line at this place: that of the original line there, or of the nearest one
    before it."""
    for at in range(min(index, len(kept) - 1), -1, -1):
        if kept[at][1]:
            return kept[at][1]
    return line_end


def _join(pieces: list[tuple[str, str]], line_end: str) -> str:
    """Join pieces of text and line ends. All but the last piece have a line end; the last one does not: what
    follows it in the file does that."""
    joined: list[str] = []
    before = ""
    for text, found in pieces[:-1]:
        end = found or line_end
        if not text and before == "\r" and end == "\n":
            end = "\r\n"  # a lone newline would be one line end with what is before it
        joined.append(text + end)
        before = end
    return "".join((*joined, pieces[-1][0]))


def keep_apart(before: str, new: str, after: str) -> str:
    """New text whose line ends do not melt into one with those around it, where "\\r" and "\\n" are mixed."""
    if before.endswith("\r") and new.startswith("\n"):
        new = "\r" + new
    if new.endswith("\r") and after.startswith("\n"):
        new += "\n"
    return new


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replace `old`, which must stand exactly once in the file unless `all` is true, by `new`."""

    old: str
    new: str
    all: bool = False


class EditedText(msgspec.Struct, frozen=True):
    """The content after all edits, and how each was found."""

    content: Content
    steps: tuple[Step, ...]


def apply_edits(content: Content, edits: Sequence[Edit], shown: str) -> EditedText:
    """Apply all edits in order, each on the outcome of the one before. Raises `ToolError` with the repair."""
    steps: list[Step] = []
    now = content
    for number, edit in enumerate(edits, 1):
        try:
            now, step = _one(now, edit, shown)
        except ToolError as error:
            if len(edits) == 1:
                raise
            raise ToolError(_explain_edit(error, content, edits, number, shown)) from error
        steps.append(step)
    if now.raw == content.raw and edits:
        raise ToolError(f"the edits cancel each other out: {shown} would stay as it is")
    return EditedText(now, tuple(steps))


def _explain_edit(error: ToolError, content: Content, edits: Sequence[Edit], number: int, shown: str) -> str:
    """Explain why one of several edits failed. Nothing is written, so the text to show is the file's, not
    what the edits before it would have made of it."""
    where = f"edit {number} of {len(edits)}"
    if number == 1:
        return f"{where}: {error}"
    try:
        _one(content, edits[number - 1], shown)
    except ToolError as alone:
        return f"{where} (the edits before it do fit): {alone}"
    return f"{where} fits the file, but not after the edits before it, which are applied first: {error}"


def _one(content: Content, edit: Edit, shown: str) -> tuple[Content, Step]:
    quote = _quote(content, edit)
    if quote.old == quote.new:
        raise ToolError("old and new are the same; nothing would change")
    if not quote.old or not (content.raw or quote.old.strip()):
        if content.raw:
            raise ToolError(
                f"old is empty, and {shown} is not: quote the text to replace, or write the whole file "
                "with write_file"
            )
        return _again(content, with_line_ends(edit.new, "\n")), "exact"
    found = _find_places(content.text, quote, shown)
    refuse_elided(quote.new, content.text, quote.old)
    raw = _put_in(content, found)
    if raw == content.raw:
        raise ToolError(f"{shown} would stay as it is: the new text already stands there")
    return _again(content, raw), found.step


def _quote(content: Content, edit: Edit) -> Quote:
    """Return the edit in terms of the content's text, which has newlines only and no byte order mark."""
    old, new = with_line_ends(edit.old, "\n"), with_line_ends(edit.new, "\n")
    if content.bom and old.startswith("\ufeff"):
        old, new = old[1:], new.removeprefix("\ufeff")
    return Quote(old, new, edit.all)


def _find_places(text: str, quote: Quote, shown: str) -> MatchedPlaces:
    try:
        found = find(text, quote)
    except Mismatch as reason:
        refusal = describe_mismatch(text, quote.old, "", shown)
        raise ToolError(f"{reason}. Quote the text exactly as it stands.\n{refusal}") from reason
    if found is None:
        raise ToolError(describe_mismatch(text, quote.old, quote.new, shown))
    if len(found.matches) > 1 and not quote.everywhere:
        raise ToolError(ambiguous(text, found.matches, shown, MAX_PLACES if found.complete else 0))
    return found


def _put_in(content: Content, found: MatchedPlaces) -> str:
    simple = found.step == "exact" and (content.uniform or "\n" not in found.new)
    new = with_line_ends(found.new, content.line_end)
    pieces: list[str] = []
    at = 0
    for match in found.matches:
        start, end = content.raw_offset(match.start), content.raw_offset(match.end)
        pieces.append(content.raw[at:start])
        text = new if simple else _replacement(content, found, match)
        if not content.uniform:
            text = keep_apart(content.raw[max(0, start - 1) : start], text, content.raw[end : end + 1])
        pieces.append(text)
        at = end
    return "".join((*pieces, content.raw[at:]))


def _again(content: Content, raw: str) -> Content:
    return from_text(raw, content.encoding, content.bom)


def _replacement(content: Content, found: MatchedPlaces, match: Match) -> str:
    """Return the new text as it is written at one place, keeping what the old and the new text share as it is
    there."""
    start, end = content.raw_offset(match.start), content.raw_offset(match.end)
    new = shift_text(found.new, match.shift)
    old = shift_text(found.old, match.shift) if found.step == "indentation" else found.old
    if old.endswith("\n") and not content.text[match.start : match.end].endswith("\n"):
        # The last line of a file without final newline: none is added.
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    return splice(content.raw[start:end], old, new, _line_end_at(content, match), _BLENDS[found.step])


_BLENDS: dict[Step, Blend] = {
    "exact": take_new,
    "trailing blanks": take_new,
    "typography": keep_typography,
    "indentation": take_new,
    "line numbers": take_new,
    "blank lines around it": take_new,
}


def _line_end_at(content: Content, match: Match) -> str:
    """Return the line end for new text here: that of the last matched line, else of the line before the
    match, else the file's most frequent one."""
    if content.uniform:
        return content.line_end
    after = content.text.find("\n", match.end)
    before = content.text.rfind("\n", 0, match.start)
    for at in (after, before):
        if at >= 0:
            start = content.raw_offset(at)
            return "\r\n" if content.raw.startswith("\r\n", start) else content.raw[start]
    return content.line_end


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
    anywhere=True,
    risk="medium",
    core=True,
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
    old: str | None = None,
    new: str | None = None,
    all: bool = False,
    edits: list[Edit] = [],  # noqa: B006 - copied into the schema, never changed
) -> ToolResult:
    """Replace text in a file. `old` is an exact quote, indentation included, without line numbers, that
    stands there once: add lines around it until it does, or set `all` to replace every place. Several changes
    of the file go into `edits` instead: in order, all or none. An empty `old` creates a file.
    """
    text, diff = await change_files(ctx, "edit_file", [path], _EditPlanner(_edits(old, new, all, edits)))
    return ToolResult(text, diff)
