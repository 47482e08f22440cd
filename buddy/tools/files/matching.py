"""Search for the text a model quotes in a file: five steps, the first with a match decides."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from itertools import count as counting
from operator import add
from typing import Literal

import msgspec

from buddy.tools.files.copied_text import FORMS, Copied, carries_marks

BLANKS = " \t"
_USUAL_WIDTHS = (4, 2, 8, 3)


class Shift(msgspec.Struct, frozen=True):
    """A change of indentation of lines that are not blank: every `unit` they start with becomes `becomes`,
    then `remove` goes from their start and `add` comes."""

    remove: str
    add: str
    unit: str = ""
    becomes: str = ""

    def fits(self, line: str) -> bool:
        """Tell whether the line is indented far enough."""
        return self.convert(line).startswith(self.remove)

    def convert(self, line: str) -> str:
        """Return the line in the other unit."""
        if not self.unit:
            return line
        body = line
        levels = 0
        while body.startswith(self.unit):
            body = body[len(self.unit) :]
            levels += 1
        return self.becomes * levels + body


NO_SHIFT = Shift("", "")


def shift_text(text: str, shift: Shift) -> str:
    """Return the text with the indentation of every line changed. A line of blanks alone that is indented
    less than the shift takes away becomes an empty one."""
    if shift == NO_SHIFT:
        return text
    return "\n".join(_shift_line(line, shift) if line else line for line in text.split("\n"))


def _shift_line(line: str, shift: Shift) -> str:
    if not line.strip(BLANKS) and not shift.fits(line):
        return ""
    return shift.add + shift.convert(line)[len(shift.remove) :]


def indent_of(line: str) -> str:
    """Return the blanks a line starts with."""
    return line[: len(line) - len(line.lstrip(BLANKS))]


def shift_between(lines: Sequence[str], old_lines: Sequence[str], new_lines: Sequence[str]) -> Shift | None:
    """Return the one change of indentation that turns `old_lines` into `lines`, None when there is none, or
    none that `new_lines` can take part in without tabs and spaces being mixed. Blank lines fit each other."""
    pairs = [(line, old) for line, old in zip(lines, old_lines, strict=True) if old.strip(BLANKS)]
    if not pairs:
        return None
    ours, theirs = [indent_of(line) for line, _ in pairs], [indent_of(old) for _, old in pairs]
    new = [indent_of(line) for line in new_lines if line.strip(BLANKS)]
    plain = _uniform(ours, theirs)
    if plain is not None and (len(_levels([*theirs, *new])) < 2 or not _other_kind(ours, [*theirs, *new])):
        return plain
    for unit, becomes in _units(ours, theirs, new):
        change = Shift("", "", unit, becomes)
        if any(len(indent) % len(unit) > 1 for indent in new):
            continue
        found = _uniform(ours, [change.convert(indent) for indent in theirs])
        if found is not None and not (found.remove + found.add).strip(becomes[0]):
            return msgspec.structs.replace(found, unit=unit, becomes=becomes)
    return None


def _uniform(ours: list[str], theirs: list[str]) -> Shift | None:
    """Find the one change at the start of every indentation that turns theirs into ours; None when there is
    none."""
    remove, add = _common_start(theirs), _common_start(ours)
    if any(mine[len(add) :] != other[len(remove) :] for mine, other in zip(ours, theirs, strict=True)):
        return None
    if add.endswith(remove):
        return Shift("", add[: len(add) - len(remove)])
    if remove.endswith(add):
        return Shift(remove[: len(remove) - len(add)], "")
    return Shift(remove, add)


def _common_start(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    for at, sign in enumerate(low):
        if sign != high[at]:
            return low[:at]
    return low


def _other_kind(ours: list[str], quoted: list[str]) -> bool:
    """Tell whether one side is indented with tabs and the other with spaces."""
    mine, other = "".join(ours), "".join(quoted)
    return (mine[:1] == "\t" and other[:1] == " ") or (mine[:1] == " " and other[:1] == "\t")


def _levels(indents: list[str]) -> list[int]:
    """Return the different depths in columns or tabs, without the one space by which some comments are set in
    (which steps of three columns are not)."""
    if not any(len(indent) % 3 for indent in indents):
        return sorted({len(indent) for indent in indents})
    return sorted({len(indent) // 2 * 2 if "\t" not in indent else len(indent) for indent in indents})


def _units(ours: list[str], theirs: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of indentation units, as quoted and in the file, the likeliest first."""
    quoted = [*theirs, *new]
    if any("\t" in indent for indent in quoted):
        if not any("\t" in indent for indent in ours) and not any(" " in indent for indent in quoted):
            yield from (("\t", " " * width) for width in _widths_of_a_tab(ours, theirs))
    elif any("\t" in indent for indent in ours):
        if not any(" \t" in indent for indent in ours):
            gaps = _gaps(quoted) + (list(_USUAL_WIDTHS) if _gaps(theirs) else [])
            yield from ((" " * width, "\t") for width in dict.fromkeys(gaps))
    elif len(_levels(theirs)) > 2 and len(_levels(ours)) > 2:  # of two levels the step may just be wrong
        yield " " * _gaps(theirs)[0], " " * _gaps(ours)[0]


def _widths_of_a_tab(ours: list[str], theirs: list[str]) -> list[int]:
    if _gaps(ours) or not theirs[0]:
        return _gaps(ours)
    width, rest = divmod(len(ours[0]), len(theirs[0]))
    return [width] if not rest and width in {2, 4} else []  # eight may as well be two levels


def _gaps(indents: list[str]) -> list[int]:
    """Return the smallest step between depths; nothing where all are one."""
    return sorted(high - low for low, high in pairwise(_levels(indents)))[:1]


Step = Literal[
    "exact", "trailing blanks", "typography", "indentation", "line numbers", "blank lines around it"
]
MAX_TOLERANT_CHARS = 5_000_000
MAX_PLACES = 200
MAX_COMPARED_LINES = 20_000
"""So many lines are compared by their indentation where places may overlap: 0.1 s on a slow machine."""
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"),
        **dict.fromkeys(_SPACES, " "),
    }
)
"""One character for one character, so that positions stay the same."""


class Match(msgspec.Struct, frozen=True):
    """A place in the text, and how the new text is shifted there."""

    start: int
    end: int
    shift: Shift = NO_SHIFT


class MatchedPlaces(msgspec.Struct, frozen=True):
    """All places of the deciding step, never empty. `old` and `new` are what was compared and what is to be
    put there (without line numbers in step 5; without the last newline where the file lacks it). `complete`:
    there are no more places."""

    step: Step
    matches: tuple[Match, ...]
    old: str
    new: str
    complete: bool = True


class Mismatch(Exception):
    """The old text fits, but the new text cannot be put there in one clear way. The message says why."""


class Quote(msgspec.Struct, frozen=True):
    """The text a model quotes from a file (`old`, not empty) and its replacement. `everywhere`: replace every
    occurrence (occurrences do not overlap then); otherwise exactly one is meant."""

    old: str
    new: str
    everywhere: bool


def find(text: str, quote: Quote) -> MatchedPlaces | None:
    """Return the places in `text`, None when there is none in any step; where one is meant, no more than
    `MAX_PLACES` are looked for, overlapping ones included. Raises `Mismatch`."""
    places = tuple(Match(start, start + len(quote.old)) for start in _occurrences(text, quote.old, quote))
    exact = MatchedPlaces("exact", places, quote.old, quote.new) if places else None
    if exact or len(text) > MAX_TOLERANT_CHARS or not quote.old.strip():
        return exact
    return _tolerant(text, quote) or _find_composed(text, quote) or _without_blank_edges(text, quote)


def _tolerant(text: str, quote: Quote) -> MatchedPlaces | None:
    """Try steps 2 to 5."""
    lines_stand = all(line.strip(BLANKS) in text for line in quote.old.split("\n"))
    return (
        (_without_trailing_blanks(text, quote) if lines_stand else None)
        or _without_typography(text, quote)
        or (_find_indented(text, quote) if lines_stand else None)
        or _without_numbers(text, quote)
    )


def _occurrences(text: str, wanted: str, quote: Quote, *, shared: int = 0) -> Iterator[int]:
    """Yield the positions of `wanted`. `shared`: number of characters that neighbouring occurrences may have
    in common and still not overlap."""
    step = len(wanted) - shared if quote.everywhere else 1
    at, count = text.find(wanted), 0
    while at >= 0 and (quote.everywhere or count < MAX_PLACES):
        yield at
        count += 1
        at = text.find(wanted, at + step)


def _whole_lines(
    text: str, keyed: list[str], old_key: list[str], quote: Quote
) -> list[tuple[Match, int, int]]:
    """Return places where the keyed lines of the quoted text stand as whole lines, with their first line and
    how many. `keyed` has one entry for each line of `text`."""
    joined, wanted = "\n".join(("", *keyed, "")), "\n".join(("", *old_key, ""))
    found: list[tuple[Match, int, int]] = []
    starts: list[int] = []
    line = counted = 0
    for at in _occurrences(joined, wanted, quote, shared=1):
        starts = starts or line_starts(text)
        line += joined.count("\n", counted, at)
        counted = at
        span = _lines_span(text, starts, line, len(old_key), with_end=quote.old.endswith("\n"))
        found.append((span, line, len(old_key)))
    return found


def _file_lines(text: str) -> list[str]:
    """Return the lines of a file; behind the last line end there is none."""
    return text.removesuffix("\n").split("\n")


def line_starts(text: str) -> list[int]:
    """Return the position at which each line begins."""
    ends = accumulate(map(len, text.split("\n")))
    starts = [0, *map(add, ends, counting(1))]
    starts.pop()
    return starts


def _lines_span(text: str, starts: list[int], line: int, count: int, *, with_end: bool) -> Match:
    after = line + count
    end = starts[after] if after < len(starts) else len(text) + 1
    return Match(starts[line], min(end, len(text)) if with_end else end - 1)


def _fit(found: list[tuple[Match, int, int]], step: Step, quote: Quote) -> MatchedPlaces | None:
    return MatchedPlaces(step, tuple(match for match, _, _ in found), quote.old, quote.new) if found else None


def _block(old: str) -> str:
    return old.removesuffix("\n")


def _without_trailing_blanks(text: str, quote: Quote) -> MatchedPlaces | None:
    keyed = _without_ends(_file_lines(text))
    old_key = _without_ends(_block(quote.old).split("\n"))
    return _fit(_whole_lines(text, keyed, old_key, quote), "trailing blanks", quote)


def _without_ends(lines: list[str]) -> list[str]:
    return [line.rstrip(BLANKS) for line in lines]


def _without_typography(text: str, quote: Quote) -> MatchedPlaces | None:
    if text.isascii() and quote.old.isascii():
        return None
    return _find_in(text, text.translate(TYPOGRAPHY), quote.old.translate(TYPOGRAPHY), quote)


def _find_in(text: str, plain: str, wanted: str, quote: Quote) -> MatchedPlaces | None:
    """Find `wanted` in `plain`, which is `text` character by character. The end of a file without final
    newline counts as a line end: an equal block there is a second place."""
    if wanted.endswith("\n") and not plain.endswith("\n"):
        plain += "\n"
    places = _occurrences(plain, wanted, quote)
    matches = tuple(Match(at, min(at + len(wanted), len(text))) for at in places)
    return MatchedPlaces("typography", matches, quote.old, quote.new) if matches else None


def _find_indented(text: str, quote: Quote) -> MatchedPlaces | None:
    old_lines, new_lines = _block(quote.old).split("\n"), quote.new.split("\n")
    keyed = [line.strip(BLANKS) for line in _file_lines(text)]
    places: list[tuple[Match, int, int]] = []
    compared, complete = 0, True
    for match, line, count in _whole_lines(text, keyed, [old.strip(BLANKS) for old in old_lines], quote):
        shift = shift_between(_lines_at(text, match, count), old_lines, new_lines)
        if shift is not None:
            places.append((msgspec.structs.replace(match, shift=shift), line, count))
        compared += count
        if compared > MAX_COMPARED_LINES and not quote.everywhere:
            if len(places) < 2:
                raise Mismatch(
                    "but for its indentation the old text stands in too many places to compare them"
                )
            complete = False
            break
    if places:
        for shift in {match.shift for match, _, _ in places}:
            _check_shift(shift, quote)
    found = _fit(places, "indentation", quote)
    return msgspec.structs.replace(found, complete=complete) if found else None


def _lines_at(text: str, match: Match, count: int) -> list[str]:
    return text[match.start : match.end].split("\n")[:count]


def _check_shift(shift: Shift, quote: Quote) -> None:
    new_lines = [line for line in quote.new.split("\n") if line.strip(BLANKS)]
    if not new_lines:
        return
    first_old = next(line for line in quote.old.split("\n") if line.strip(BLANKS))
    if indent_of(new_lines[0]) != indent_of(first_old):
        raise Mismatch(
            "the old text fits with another indentation, but old and new start at different indentations, so "
            "it is not clear how far to indent the new text"
        )
    if not all(map(shift.fits, new_lines)):
        raise Mismatch(
            "the old text fits with another indentation, but some lines of the new text are indented less "
            "than the old text"
        )


def _without_numbers(text: str, quote: Quote) -> MatchedPlaces | None:
    block = _block(quote.old)
    keyed: list[str] = []
    for form in FORMS:
        copied = form.read(block)
        if copied is None or not copied.text.strip():
            continue
        keyed = keyed or _without_ends(_file_lines(text))
        plain = Quote(_with_final_newline(copied.text, quote.old), quote.new, quote.everywhere)
        found = _whole_lines(text, keyed, _without_ends(copied.text.split("\n")), plain)
        if "\n" not in block and copied.first:  # one number proves little: it has to be the right one
            found = [place for place in found if place[1] == copied.first - 1]
        if found:
            new = _new_without_numbers(quote.new, form.read(_block(quote.new)))
            return _fit(found, "line numbers", Quote(plain.old, new, quote.everywhere))
    return None


def _new_without_numbers(new: str, copied: Copied | None) -> str:
    if copied is not None:
        return _with_final_newline(copied.text, new)
    if carries_marks(new):
        raise Mismatch(
            "the old text carries line numbers, and the new text carries them on some of its lines"
        )
    return new


def _find_composed(text: str, quote: Quote) -> MatchedPlaces | None:
    """Find the quote under another Unicode composition: é as one character or as two."""
    if text.isascii() or quote.old.isascii():
        return None
    for form in ("NFC", "NFD"):
        old = unicodedata.normalize(form, quote.old)
        if old == quote.old or (form == "NFD" and unicodedata.is_normalized("NFC", text)):
            continue
        composed = Quote(old, unicodedata.normalize(form, quote.new), quote.everywhere)
        found = _find_in(text, text, old, composed) or _tolerant(text, composed)
        if found:
            return found
    return None


def _without_blank_edges(text: str, quote: Quote) -> MatchedPlaces | None:
    """Whole lines, without the blank lines the quote has before and behind them, which the new text then does
    not bring either."""
    old, head, tail = _without_edges(quote.old, len(quote.old), len(quote.old))
    if not (head or tail) or not old.strip():
        return None
    if quote.new.strip() and quote.new.endswith("\n") != quote.old.endswith("\n"):
        return None
    new, _, _ = _without_edges(quote.new, head, tail)
    inner = Quote(old, new, quote.everywhere)
    old_key, lines = _block(old).split("\n"), _file_lines(text)
    found = _fit(_whole_lines(text, lines, old_key, inner), "blank lines around it", inner)
    found = found or _tolerant(text, inner)
    if found is None or found.step != "typography":
        return found
    # The typography step finds parts of lines as well.
    plain = _file_lines(text.translate(TYPOGRAPHY))
    old_key = _block(old.translate(TYPOGRAPHY)).split("\n")
    return _fit(_whole_lines(text, plain, old_key, inner), "typography", inner)


def _without_edges(text: str, head: int, tail: int) -> tuple[str, int, int]:
    """Return a block without its first blank lines, at most `head`, and its last ones, at most `tail`; and
    how many went."""
    lines = _block(text).split("\n")
    first, last = 0, len(lines)
    while first < min(head, last) and not lines[first].strip(BLANKS):
        first += 1
    while last > first and len(lines) - last < tail and not lines[last - 1].strip(BLANKS):
        last -= 1
    kept = lines[first:last]
    return _with_final_newline("\n".join(kept), text) if kept else "", first, len(lines) - last


def _with_final_newline(block: str, text: str) -> str:
    return block + "\n" if text.endswith("\n") else block


def line_of(starts: list[int], offset: int) -> int:
    """Return the line, counted from 1, of a position."""
    return bisect_right(starts, offset)
