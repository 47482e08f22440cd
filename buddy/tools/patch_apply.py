"""Hunks of a patch put into a file's lines: pure.

Each hunk is looked for after the one before it, in four passes: exact, trailing blanks differ, blanks at both
ends differ, typography differs. Context lines stay as they are in the file, whatever the patch says they look
like; where the removed lines are indented by another, uniform amount, the added ones move with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from buddy.agent.tool import ToolError
from buddy.tools.matching import NO_SHIFT, TYPOGRAPHY, Shift, shifted, uniform_shift
from buddy.tools.patch_format import Hunk
from buddy.tools.refusals import not_found, numbered
from buddy.workspace.content import Content, from_text, split_ends

Line = tuple[str, str]
"""Text and line end."""


def _typographic(line: str) -> str:
    return line.strip().translate(TYPOGRAPHY)


PASSES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("exact", str),
    ("trailing blanks", lambda line: line.rstrip()),
    ("indentation", lambda line: line.strip()),
    ("typography", _typographic),
)


class Patched(msgspec.Struct, frozen=True):
    """The content after a file's hunks, and the passes other than exact that were needed."""

    content: Content
    loose: tuple[str, ...]


class _Keys:
    """The file's lines as each pass compares them, made when first needed."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = [text for text, _ in lines]
        self._made: dict[str, list[str]] = {}

    def of(self, name: str, key: Callable[[str], str]) -> list[str]:
        if name not in self._made:
            self._made[name] = [key(line) for line in self._lines]
        return self._made[name]


class _Placed(msgspec.Struct, frozen=True):
    """Lines `start` to `stop` are replaced."""

    start: int
    stop: int
    new: tuple[Line, ...]


def patched(content: Content, hunks: Sequence[Hunk], shown: str) -> Patched:
    """All hunks of one file applied. Added lines end as most lines of the file do, and the last line ends
    too, unless the hunk that reaches it says otherwise. Raises `ToolError` with the nearest text."""
    lines = split_ends(content.raw)
    if lines[-1] == ("", ""):
        lines.pop()
    keys = _Keys(lines)
    places: list[_Placed] = []
    loose: list[str] = []
    cursor = 0
    for number, hunk in enumerate(hunks, 1):
        where = f"hunk {number} of {len(hunks)} for {shown}"
        start = _after_anchors(keys, hunk, cursor, where)
        placed, step = _place(keys, lines, content, hunk, start, where)
        places.append(placed)
        if step != "exact":
            loose.append(step)
        if hunk.old:
            cursor = placed.stop
    raw = _rebuilt(lines, sorted(places, key=lambda place: (place.start, place.stop)), content.line_end)
    if any(hunk.open_end and place.stop == len(lines) for hunk, place in zip(hunks, places, strict=True)):
        raw = raw.removesuffix("\n").removesuffix("\r")
    return Patched(from_text(raw, content.encoding, content.bom), tuple(dict.fromkeys(loose)))


def _after_anchors(keys: _Keys, hunk: Hunk, cursor: int, where: str) -> int:
    for anchor in hunk.anchors:
        for name, key in PASSES:
            found = _seek(keys.of(name, key), [key(anchor)], cursor)
            if found is not None:
                cursor = found + 1
                break
        else:
            text = "\n".join(keys.of("exact", str))
            raise ToolError(
                f"{where}: the line after @@ was not found.\n{not_found(text, anchor, '', where)}"
            )
    return cursor


def _place(
    keys: _Keys, lines: Sequence[Line], content: Content, hunk: Hunk, start: int, where: str
) -> tuple[_Placed, str]:
    if not hunk.old:
        return _addition(keys, content, hunk, start, where), "exact"
    if _stands_where_it_says(keys.of("exact", str), hunk, start):
        at = hunk.line - 1
        return _Placed(at, at + len(hunk.old), _new_lines(lines, at, hunk, content.line_end)), "exact"
    for wanted in _variants(hunk):
        for name, key in PASSES:
            at = _find(keys.of(name, key), [key(text) for text in wanted.old], start, wanted)
            if at is not None:
                _refuse_ambiguous(keys, wanted, (name, key), at, where)
                return _Placed(
                    at, at + len(wanted.old), _new_lines(lines, at, wanted, content.line_end)
                ), name
    text = "\n".join(keys.of("exact", str))
    raise ToolError(_explained(keys, hunk, start, not_found(text, "\n".join(hunk.old), "", where)))


def _stands_where_it_says(lines: list[str], hunk: Hunk, start: int) -> bool:
    at = hunk.line - 1
    return at >= start and tuple(lines[at : at + len(hunk.old)]) == hunk.old


def _refuse_ambiguous(
    keys: _Keys, hunk: Hunk, step: tuple[str, Callable[[str], str]], at: int, where: str
) -> None:
    """A hunk that changes something and could as well be meant further down. What an @@ line or the end of
    the file narrows down is the first place after it."""
    if hunk.anchors or hunk.at_end or all(sign == " " for sign, _ in hunk.lines):
        return
    name, key = step
    old = [key(text) for text in hunk.old]
    again = _seek(keys.of(name, key), old, at + 1)
    if again is not None:
        raise ToolError(
            f"{where}: its lines stand at line {at + 1} and again at line {again + 1}. Nothing was changed. "
            "Give more context lines, or name the function or class before them after @@."
        )


def _explained(keys: _Keys, hunk: Hunk, start: int, refusal: str) -> str:
    """Say so where the text is there, but before the place of the hunk."""
    earlier = _seek(keys.of("exact", str), list(hunk.old), 0)
    if earlier is not None and earlier < start:
        return (
            f"{refusal}\nThe hunk's text stands at line {earlier + 1}, before the hunk above it: "
            "write hunks in the order of the file."
        )
    return refusal


def _variants(hunk: Hunk) -> tuple[Hunk, ...]:
    """The hunk, and the hunk without a last empty context line: often only the gap before the next marker."""
    if hunk.lines[-1] == (" ", "") and len(hunk.old) > 1:
        return hunk, msgspec.structs.replace(hunk, lines=hunk.lines[:-1])
    return (hunk,)


def _find(lines: list[str], old: list[str], start: int, hunk: Hunk) -> int | None:
    if hunk.at_end:
        last = len(lines) - len(old)
        if last >= start and lines[last:] == old:
            return last
    return _seek(lines, old, start)


def _seek(lines: list[str], wanted: list[str], start: int) -> int | None:
    """The first place at or after `start` where these lines stand."""
    first = wanted[0]
    last = len(lines) - len(wanted)
    at = start - 1
    while at < last:
        try:
            at = lines.index(first, at + 1, last + 1)
        except ValueError:
            return None
        if lines[at : at + len(wanted)] == wanted:
            return at
    return None


def _addition(keys: _Keys, content: Content, hunk: Hunk, start: int, where: str) -> _Placed:
    """Lines to add without context: at the end of the file, unless an anchor says they belong elsewhere."""
    lines = keys.of("exact", str)
    if hunk.anchors and start < len(lines):
        raise ToolError(
            f"{where}: it only adds lines, and the @@ line does not say on which side of the lines after it "
            "they go. Give a context line (starting with a space).\n"
            f"{numbered(lines[start - 1 : start + 3], start)}"
        )
    new = tuple((text, content.line_end) for _, text in hunk.lines)
    return _Placed(len(lines), len(lines), new)


def _new_lines(lines: Sequence[Line], at: int, hunk: Hunk, line_end: str) -> tuple[Line, ...]:
    new: list[Line] = []
    shift = _shift_at(lines, at, hunk)
    for sign, text in hunk.lines:
        if sign == "+":
            new.append((shifted(text, shift), line_end))
        else:
            if sign == " ":
                new.append(lines[at])
            at += 1
    return tuple(new)


def _shift_at(lines: Sequence[Line], at: int, hunk: Hunk) -> Shift:
    """How the file's indentation differs from the hunk's: by the removed lines, which the added ones replace,
    otherwise by the context. One space is no indentation there: it is a forgotten sign."""
    signs = [sign for sign, _ in hunk.lines if sign != "+"]
    sign = "-" if "-" in signs else " "
    theirs = [text for found, text in zip(signs, hunk.old, strict=True) if found == sign]
    ours = [lines[at + n][0] for n, found in enumerate(signs) if found == sign]
    shift = uniform_shift(ours, theirs) or NO_SHIFT
    if sign == " " and shift == Shift("", " "):
        return NO_SHIFT
    added = [text for found, text in hunk.lines if found == "+" and text.strip()]
    return shift if all(text.startswith(shift.remove) for text in added) else NO_SHIFT


def _rebuilt(lines: Sequence[Line], places: Sequence[_Placed], line_end: str) -> str:
    kept: list[Line] = []
    at = 0
    for place in places:
        kept.extend(lines[at : place.start])
        kept.extend(place.new)
        at = place.stop
    kept.extend(lines[at:])
    return "".join(text + (end or line_end) for text, end in kept)
