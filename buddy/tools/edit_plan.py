"""Pure computation of an edit's result, so that the approval shows exactly what will be written."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from buddy.agent.tool import ToolError
from buddy.tools.elision import refuse_elided
from buddy.tools.indentation import shifted
from buddy.tools.matching import MAX_PLACES, Match, MatchedPlaces, Mismatch, Quote, Step, find
from buddy.tools.refusals import ambiguous, not_found
from buddy.tools.splice import Blend, keep_typography, kept_apart, spliced, take_new
from buddy.workspace.content import Content, from_text, with_line_ends


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replace `old`, which must stand exactly once in the file unless `all` is true, by `new`."""

    old: str
    new: str
    all: bool = False


class EditedText(msgspec.Struct, frozen=True):
    """The content after all edits, and how each was found."""

    content: Content
    steps: tuple[Step, ...]


def edited(content: Content, edits: Sequence[Edit], shown: str) -> EditedText:
    """All edits in order, each on the outcome of the one before. Raises `ToolError` with the repair."""
    steps: list[Step] = []
    now = content
    for number, edit in enumerate(edits, 1):
        try:
            now, step = _one(now, edit, shown)
        except ToolError as error:
            if len(edits) == 1:
                raise
            raise ToolError(_numbered(error, content, edits, number, shown)) from error
        steps.append(step)
    if now.raw == content.raw and edits:
        raise ToolError(f"the edits cancel each other out: {shown} would stay as it is")
    return EditedText(now, tuple(steps))


def _numbered(error: ToolError, content: Content, edits: Sequence[Edit], number: int, shown: str) -> str:
    """Why one of several edits failed. Nothing is written, so the text to show is the file's, not what the
    edits before it would have made of it."""
    where = f"edit {number} of {len(edits)}"
    if number == 1:
        return f"{where}: {error}"
    try:
        _one(content, edits[number - 1], shown)
    except ToolError as alone:
        return f"{where} (the edits before it do fit): {alone}"
    return f"{where} fits the file, but not after the edits before it, which are applied first: {error}"


def _one(content: Content, edit: Edit, shown: str) -> tuple[Content, Step]:
    quote = _quoted(content, edit)
    if quote.old == quote.new:
        raise ToolError("old and new are the same; nothing would change")
    if not quote.old or not (content.raw or quote.old.strip()):
        if content.raw:
            raise ToolError(
                f"old is empty, and {shown} is not: quote the text to replace, or write the whole file "
                "with write_file"
            )
        return _again(content, with_line_ends(edit.new, "\n")), "exact"
    found = _found(content.text, quote, shown)
    refuse_elided(quote.new, content.text, quote.old)
    raw = _put_in(content, found)
    if raw == content.raw:
        raise ToolError(f"{shown} would stay as it is: the new text already stands there")
    return _again(content, raw), found.step


def _quoted(content: Content, edit: Edit) -> Quote:
    """The edit in terms of the content's text, which has newlines only and no byte order mark."""
    old, new = with_line_ends(edit.old, "\n"), with_line_ends(edit.new, "\n")
    if content.bom and old.startswith("\ufeff"):
        old, new = old[1:], new.removeprefix("\ufeff")
    return Quote(old, new, edit.all)


def _found(text: str, quote: Quote, shown: str) -> MatchedPlaces:
    try:
        found = find(text, quote)
    except Mismatch as reason:
        refusal = not_found(text, quote.old, "", shown)
        raise ToolError(f"{reason}. Quote the text exactly as it stands.\n{refusal}") from reason
    if found is None:
        raise ToolError(not_found(text, quote.old, quote.new, shown))
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
            text = kept_apart(content.raw[max(0, start - 1) : start], text, content.raw[end : end + 1])
        pieces.append(text)
        at = end
    return "".join((*pieces, content.raw[at:]))


def _again(content: Content, raw: str) -> Content:
    return from_text(raw, content.encoding, content.bom)


def _replacement(content: Content, found: MatchedPlaces, match: Match) -> str:
    """The new text as it is written at one place, keeping what the old and the new text share as it is
    there."""
    start, end = content.raw_offset(match.start), content.raw_offset(match.end)
    new = shifted(found.new, match.shift)
    old = shifted(found.old, match.shift) if found.step == "indentation" else found.old
    if old.endswith("\n") and not content.text[match.start : match.end].endswith("\n"):
        # The last line of a file without final newline: none is added.
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    return spliced(content.raw[start:end], old, new, _line_end_at(content, match), _BLENDS[found.step])


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
