"""Hunks of a patch put into a file's lines: pure.

Each hunk is looked for after what the one before it changes, in four passes: exact, trailing blanks differ,
blanks at both ends differ, typography differs. Context lines stay as they are in the file, whatever the patch
says they look like; where the removed lines are indented by another, uniform amount, the added ones move with
them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec

from buddy.agent.tool import ToolError
from buddy.tools.files.matching import (
    MAX_COMPARED_LINES,
    NO_SHIFT,
    TYPOGRAPHY,
    Shift,
    indent_of,
    shift_between,
    shift_text,
)
from buddy.tools.files.patch_format import Hunk
from buddy.tools.files.rejections import describe_mismatch, number_lines
from buddy.workspace.files.content import Content, from_text, split_ends

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


_WITHOUT_INDENTATION = ("indentation", "typography")
_MAX_SHOWN = 4


class Patched(msgspec.Struct, frozen=True):
    """The content after a file's hunks, and the passes other than exact that were needed."""

    content: Content
    loose: tuple[str, ...]


class _Keyed:
    """The file's lines as one pass compares them. Looked through as one text: with lists, many near repeats
    take quadratic time."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._text = "\n".join(("", *lines, ""))
        self._starts = [1, *accumulate((len(line) + 1 for line in lines), initial=1)][1:]

    def seek(self, wanted: Sequence[str], start: int) -> int | None:
        """Return the first place at or after `start` where these lines stand."""
        if start >= len(self.lines):
            return None
        at = self._text.find("\n".join(("", *wanted, "")), self._starts[start] - 1)
        return bisect_left(self._starts, at + 1) if at >= 0 else None


class _Keys:
    """The file's lines as each pass compares them, made when first needed."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = [text for text, _ in lines]
        self._made: dict[str, _Keyed] = {}

    def of(self, name: str, key: Callable[[str], str]) -> _Keyed:
        if name not in self._made:
            self._made[name] = _Keyed([key(line) for line in self._lines])
        return self._made[name]

    @property
    def exact(self) -> list[str]:
        """Return the lines unchanged."""
        return self._lines


class _Placed(msgspec.Struct, frozen=True):
    """Lines `start` to `stop` are replaced. The first `head` and the last `tail` of them stay as they are."""

    start: int
    stop: int
    new: tuple[Line, ...]
    head: int = 0
    tail: int = 0

    def trim(self) -> _Placed:
        """Return the place without the context at its ends, which may belong to the next hunk, too."""
        new = self.new[self.head : len(self.new) - self.tail]
        return _Placed(self.start + self.head, self.stop - self.tail, new)


def apply_hunks(content: Content, hunks: Sequence[Hunk], shown: str) -> Patched:
    """Apply all hunks of one file. Added lines end as most lines of the file do; the last line ends as the
    last one did, unless a hunk or its format says otherwise. Raises `ToolError` with the nearest text."""
    lines = split_ends(content.raw)
    if lines[-1] == ("", ""):
        lines.pop()
    keys = _Keys(lines)
    places: list[_Placed] = []
    changes: list[_Placed] = []
    loose: list[str] = []
    cursor = changed = 0
    for number, hunk in enumerate(hunks, 1):
        where = f"hunk {number} of {len(hunks)} for {shown}"
        # The first context lines of a hunk may be the last ones of the hunk above it.
        start = _after_anchors(keys, hunk, cursor, where) if hunk.anchors else changed
        placed, step = _place(keys, lines, content, hunk, start, where)
        if hunk.anchors and hunk.old:
            _refuse_anchored_twice(keys, hunk, (cursor, placed), step, where)
        places.append(placed)
        changes.append(placed.trim())
        if step != "exact":
            loose.append(step)
        if hunk.old:
            cursor, changed = placed.stop, changes[-1].stop
    raw = _rebuilt(lines, sorted(changes, key=lambda place: (place.start, place.stop)), content.line_end)
    last = [hunk for hunk, place in zip(hunks, places, strict=True) if place.stop == len(lines)]
    keeps_end = not any(hunk.names_end for hunk in hunks)
    if _is_open(last, was_open=keeps_end and bool(lines) and not lines[-1][1]):
        raw = raw.removesuffix("\n").removesuffix("\r")
    return Patched(from_text(raw, content.encoding, content.bom), tuple(dict.fromkeys(loose)))


def _is_open(last: Sequence[Hunk], *, was_open: bool) -> bool:
    """Tell whether the file's new last line has no line end. `last`: the hunks that reach the end of the
    file."""
    if any(hunk.open_end for hunk in last):
        return True
    if not was_open:
        return False
    # Where the last lines are only removed, the one before them is the last now, with the end it has.
    return all(hunk.lines[-1][0] != "-" or _replaces_last(hunk) for hunk in last)


def _replaces_last(hunk: Hunk) -> bool:
    kept = [sign for sign, _ in hunk.lines if sign != "-"]
    return bool(kept) and kept[-1] == "+"


def _build_place(lines: Sequence[Line], at: int, hunk: Hunk, line_end: str) -> _Placed:
    signs = "".join(sign for sign, _ in hunk.lines)
    head = len(signs) - len(signs.lstrip(" "))
    tail = len(signs[head:]) - len(signs[head:].rstrip(" "))
    return _Placed(at, at + len(hunk.old), _new_lines(lines, at, hunk, line_end), head, tail)


def _after_anchors(keys: _Keys, hunk: Hunk, cursor: int, where: str) -> int:
    for anchor in hunk.anchors:
        found = _find_anchor(keys, anchor, cursor)
        if found is None:
            text = "\n".join(keys.exact)
            raise ToolError(
                f"{where}: the line after @@ was not found.\n{describe_mismatch(text, anchor, '', where)}"
            )
        cursor = found + 1
    return cursor


def _as_anchor(keys: _Keys, anchor: str, start: int) -> tuple[int, _Keyed, str] | None:
    """Return the first line that is the anchor, the lines as they were compared, and the anchor as it was."""
    for name, key in PASSES:
        found = keys.of(name, key).seek([key(anchor)], start)
        if found is not None:
            return found, keys.of(name, key), key(anchor)
    return None


def _refuse_anchored_twice(
    keys: _Keys, hunk: Hunk, place: tuple[int, _Placed], step: str, where: str
) -> None:
    """Refuse where the first @@ line stands again behind the place, and so does the hunk behind that."""
    cursor, placed = place
    found = _as_anchor(keys, hunk.anchors[0], cursor)
    if found is None or hunk.at_end or all(sign == " " for sign, _ in hunk.lines):
        return
    _, keyed, anchor = found
    again = keyed.seek([anchor], placed.start + 1)
    following: int | None = again
    for further in hunk.anchors[1:]:
        following = None if following is None else _find_anchor(keys, further, following + 1)
    if again is None or following is None:
        return
    old = [dict(PASSES)[step](text) for text in hunk.old[: placed.stop - placed.start]]
    other = keys.of(step, dict(PASSES)[step]).seek(old, following + 1)
    if other is not None:
        raise ToolError(
            f"{where}: its lines stand at line {placed.start + 1} and again at line {other + 1}, and the @@ "
            f"line above both. Nothing was changed. Name what encloses it in an @@ line before that one, or "
            "give more context lines.\n"
            + "\n…\n".join(_excerpt(keys, line, len(old)) for line in (placed.start, other))
        )


def _find_anchor(keys: _Keys, anchor: str, start: int) -> int | None:
    """Return the first line that is the anchor; otherwise the only one that starts with it."""
    found = _as_anchor(keys, anchor, start)
    if found is not None:
        return found[0]
    begin = anchor.strip()
    lines = keys.of("indentation", str.strip).lines
    begun = [at for at in range(start, len(lines)) if begin and _goes_on(lines[at], begin)]
    return begun[0] if len(begun) == 1 else None


def _goes_on(line: str, begin: str) -> bool:
    """Tell whether a line starts with these whole words."""
    return line.startswith(begin) and not (_is_word(begin[-1]) and _is_word(line[len(begin)]))


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


def _place(
    keys: _Keys, lines: Sequence[Line], content: Content, hunk: Hunk, start: int, where: str
) -> tuple[_Placed, str]:
    if not hunk.old:
        return _addition(keys, content, hunk, start, where), "exact"
    if _stands_where_it_says(keys.exact, hunk, start):
        at = (hunk.line or 0) - 1
        return _build_place(lines, at, hunk, content.line_end), "exact"
    for wanted in _variants(hunk):
        for name, key in PASSES:
            at = _find(keys.of(name, key), [key(text) for text in wanted.old], start, wanted)
            if at is not None and name in _WITHOUT_INDENTATION:
                at = _find_nested(keys.of(name, key), [key(text) for text in wanted.old], at, wanted, lines)
            if at is not None:
                _refuse_ambiguous(keys, wanted, (name, key), at, where)
                return _build_place(lines, at, wanted, content.line_end), name
    text = "\n".join(keys.exact)
    raise ToolError(_explain(keys, hunk, start, describe_mismatch(text, "\n".join(hunk.old), "", where)))


def _find_nested(keyed: _Keyed, old: list[str], first: int, hunk: Hunk, lines: Sequence[Line]) -> int | None:
    """Return the first of the places from `first` on where the lines are nested as the hunk shows them, and
    where it is clear how far the added ones are set in."""
    at: int | None = first
    tries = max(1, MAX_COMPARED_LINES // len(old))
    while at is not None and tries > 0:
        if _shift_at(lines, at, hunk) is not None:
            return at
        at = keyed.seek(old, at + 1)
        tries -= 1
    return None


def _stands_where_it_says(lines: list[str], hunk: Hunk, start: int) -> bool:
    at = (hunk.line or 0) - 1
    return at >= start and tuple(lines[at : at + len(hunk.old)]) == hunk.old


def _refuse_ambiguous(
    keys: _Keys, hunk: Hunk, step: tuple[str, Callable[[str], str]], at: int, where: str
) -> None:
    """Refuse a hunk that changes something and could as well be meant further down. What an @@ line or the
    end of the file narrows down is the first place after it."""
    if hunk.anchors or hunk.at_end or all(sign == " " for sign, _ in hunk.lines):
        return
    name, key = step
    old = [key(text) for text in hunk.old]
    again = keys.of(name, key).seek(old, at + 1)
    if again is not None:
        raise ToolError(
            f"{where}: its lines stand at line {at + 1} and again at line {again + 1}. Nothing was changed. "
            "Give more context lines, or name the function or class before them after @@.\n"
            + "\n…\n".join(_excerpt(keys, line, len(old)) for line in (at, again))
        )


def _excerpt(keys: _Keys, at: int, count: int) -> str:
    first = max(0, at - 1)
    return number_lines(keys.exact[first : at + min(count, _MAX_SHOWN) + 1], first + 1)


def _explain(keys: _Keys, hunk: Hunk, start: int, refusal: str) -> str:
    """Extend the refusal where the text exists, but before the place of the hunk."""
    earlier = keys.of("exact", str).seek(hunk.old, 0)
    if earlier is not None and earlier < start:
        return (
            f"{refusal}\nThe hunk's text stands at line {earlier + 1}, before the hunk above it: "
            "write hunks in the order of the file."
        )
    return refusal


def _variants(hunk: Hunk) -> tuple[Hunk, ...]:
    """Return the hunk, and the hunk without a last empty context line: often only the gap before the next
    marker."""
    if hunk.lines[-1] == (" ", "") and len(hunk.old) > 1:
        return hunk, msgspec.structs.replace(hunk, lines=hunk.lines[:-1])
    return (hunk,)


def _find(keyed: _Keyed, old: list[str], start: int, hunk: Hunk) -> int | None:
    if hunk.at_end:
        last = len(keyed.lines) - len(old)
        if last >= start and keyed.lines[last:] == old:
            return last
    return keyed.seek(old, start)


def _addition(keys: _Keys, content: Content, hunk: Hunk, start: int, where: str) -> _Placed:
    """Return lines to add without context: at the end of the file, unless an anchor or a number says they
    belong elsewhere: there nothing shows that the place is the right one."""
    lines = keys.exact
    if hunk.line is not None and lines and hunk.line != len(lines):
        raise ToolError(
            f"{where}: it only adds lines, and line numbers alone are not trusted. Nothing was changed. "
            "Give a context line (starting with a space) before or after them.\n"
            f"{number_lines(lines[max(0, hunk.line - 2) : hunk.line + 2], max(1, hunk.line - 1))}"
        )
    if hunk.anchors and start < len(lines):
        raise ToolError(
            f"{where}: it only adds lines, and the @@ line does not say on which side of the lines after it "
            "they go. Give a context line (starting with a space).\n"
            f"{number_lines(lines[start - 1 : start + 3], start)}"
        )
    new = tuple((text, content.line_end) for _, text in hunk.lines)
    return _Placed(len(lines), len(lines), new)


def _new_lines(lines: Sequence[Line], at: int, hunk: Hunk, line_end: str) -> tuple[Line, ...]:
    new: list[Line] = []
    shift = _shift_at(lines, at, hunk) or NO_SHIFT
    for sign, text in hunk.lines:
        if sign == "+":
            new.append((shift_text(text, shift), line_end))
        else:
            if sign == " ":
                new.append(lines[at])
            at += 1
    return tuple(new)


def _shift_at(lines: Sequence[Line], at: int, hunk: Hunk) -> Shift | None:
    """Return the difference between the file's indentation and the hunk's, None when the lines are nested
    differently. A context line that is one space short has lost its sign; a hunk without any indentation gets
    it from the removed lines."""
    ours = [lines[at + n][0] for n in range(len(hunk.old))]
    signs = [sign for sign, _ in hunk.lines if sign != "+"]
    theirs = [
        mine if sign == " " and mine.rstrip() == f" {text}".rstrip() else text
        for mine, sign, text in zip(ours, signs, hunk.old, strict=True)
    ]
    added = [text for sign, text in hunk.lines if sign == "+" and text.strip()]
    shift = shift_between(ours, theirs, added)
    if shift is not None:
        return shift if all(map(shift.fits, added)) else NO_SHIFT
    if any(map(indent_of, theirs)):
        return None
    removed = [n for n, sign in enumerate(signs) if sign == "-"]
    shift = shift_between([ours[n] for n in removed], [theirs[n] for n in removed], added)
    if shift is None or shift == NO_SHIFT or not added:
        return NO_SHIFT
    return None if indent_of(added[0]) else shift


def _rebuilt(lines: Sequence[Line], places: Sequence[_Placed], line_end: str) -> str:
    kept: list[Line] = []
    at = 0
    for place in places:
        kept.extend(lines[at : place.start])
        kept.extend(place.new)
        at = place.stop
    kept.extend(lines[at:])
    return "".join(text + (end or line_end) for text, end in kept)
