"""Messages to the model when an edit cannot be made, always with what it needs to get the next call right."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import islice, takewhile

from buddy.agent.formatting import name_first
from buddy.agent.lazy_regex import pattern
from buddy.safety.paths import Boundary, Located, is_beneath
from buddy.safety.sanitise import visible
from buddy.tools.files.matching import Match, line_of, line_starts
from buddy.workspace.files.line_diff import alike_at_start, excerpt

MAX_SHOWN_LINES = 12
MAX_SHOWN_CHARS = 2400
MAX_LISTED_PLACES = 20
MOST_NEAR = 3
_MAX_WORDS = 40
_MAX_PLACES_OF_A_WORD = 16
_MAX_FREQUENT = 3
_MAX_COMPARED = 12
_MAX_LINE = 300
_ESCAPES = (
    ((('\\"', '"'), ("\\'", "'")), ", but would be without the backslashes before quotes"),
    (
        (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"')),
        ", but would be without the backslashes: it was escaped twice",
    ),
    ((("\\\\", "\\"),), ", but would be with one backslash for every two: it was escaped twice"),
    (
        (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&amp;", "&")),
        ", but would be with <, >, & and quotes in place of &lt; &gt; &amp; and &quot;",
    ),
)
"""What a model may have written for what; never undone, only said."""
_WORD = pattern(r"\w{2,}|[^\w\s]{2,}")
_LEGEND = "(leading and trailing blanks: · is a space, → a tab)"


def visible_blanks(line: str, most: int = _MAX_LINE, place: int = 0) -> str:
    """Return a line with the blanks at its ends, and odd ones inside, made visible. A long one is cut around
    `place`."""
    if len(line) > most and place > most - 60:
        line = excerpt(line, place, most)
    body = line.strip(" \t")
    start = line[: len(line) - len(line.lstrip(" \t"))]
    end = line[len(start) + len(body) :]
    if len(body) > most + 2:
        body = body[:most] + "…"
    body = body.replace("\u00a0", "⟨U+00A0⟩").replace("\u200b", "⟨U+200B⟩").replace("\ufeff", "⟨U+FEFF⟩")
    marks = str.maketrans({" ": "·", "\t": "→"})
    return start[:_MAX_LINE].translate(marks) + body + end[:_MAX_LINE].translate(marks)


def number_lines(lines: Sequence[str], first: int, difference: tuple[int, int] = (-1, 0)) -> str:
    """Return lines with their numbers, blanks visible: whole ones as long as there are few. `first` is the
    number of the first one; `difference` the index of a line and the place in it that has to be seen."""
    most = max(_MAX_LINE, MAX_SHOWN_CHARS // max(1, len(lines)))
    return "\n".join(
        f"{first + at:>6}  {visible_blanks(line, most, difference[1] if at == difference[0] else 0)}"
        for at, line in enumerate(lines)
    )


def describe_mismatch(text: str, old: str, new: str, shown: str) -> str:
    """Explain that no step found the old text."""
    message = f"the old text was not found in {shown}"
    there = _already_there(text, new)
    if there:
        now = text.split("\n")[there - 1 : there - 1 + min(new.rstrip("\n").count("\n") + 1, MAX_SHOWN_LINES)]
        return (
            f"{message}, but the new text is already there (line {there}). Nothing was changed.\n"
            f"{number_lines(now, there)}"
        )
    real, told = _undo_escape(text, old)
    nearest = _nearest(text, real)
    lines = text.split("\n")
    if nearest is None:
        return f"{message}, nor anything like it. Nothing was changed. The file begins:\n{_head(lines)}"
    quoted = real.rstrip("\n").split("\n")
    first = max(0, min(nearest, len(lines) - 1))
    window = lines[first : first + min(len(quoted), MAX_SHOWN_LINES)]
    before, behind = _left_out(lines, quoted, first, first + len(window))
    first, window = first - len(before), [*before, *window, *behind]
    old_lines = old.split("\n")
    difference = _difference(window, old_lines)
    parts = [
        f"{message}{told}. Nothing was changed. Nearest text in the file {_LEGEND}:",
        number_lines(window, first + 1, difference),
        _first_difference(old_lines, difference, first),
    ]
    return "\n".join(part for part in parts if part)


def _head(lines: list[str]) -> str:
    """Return the first lines that say something."""
    written = [number_lines([line], at) for at, line in enumerate(lines[:40], 1) if line.strip()]
    return "\n".join(written[:5]) or "       (only blanks)"


def _left_out(lines: list[str], quoted: list[str], first: int, after: int) -> tuple[list[str], list[str]]:
    """Return the lines between the nearest text and the first or last quoted line, where that is near: the
    model left them out of its quote."""
    most = MAX_SHOWN_LINES - (after - first)
    head, tail = quoted[0].strip(), quoted[-1].strip()
    above = [line.strip() for line in reversed(lines[max(0, first - most) : first])]
    below = [line.strip() for line in lines[after : after + most]]
    if head and head in above and lines[first].strip() != head:
        back = above.index(head) + 1
        return lines[first - back : first], []
    if tail and tail in below and lines[after - 1].strip() != tail:
        return [], lines[after : after + below.index(tail) + 1]
    return [], []


def _undo_escape(text: str, old: str) -> tuple[str, str]:
    """Return the quoted text as it was meant, where it stands in the file once an escape is undone; and how
    to say so."""
    for escapes, told in _ESCAPES:
        meant = old
        for escape, sign in escapes:
            meant = meant.replace(escape, sign)
        if meant != old and meant.strip() and meant in text:
            return meant, told
    lines = old.strip("\n").split("\n")
    for meant, told in (
        (_without_fence(lines), ", but would be without the ``` lines around it"),
        (_without_signs(lines), ", but would be without the signs of a diff before its lines"),
    ):
        if meant.strip() and meant in text:
            return meant, told
    return old, ""


def _without_fence(lines: list[str]) -> str:
    fenced = len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```"
    return "\n".join(lines[1:-1]) if fenced else ""


def _without_signs(lines: list[str]) -> str:
    """Return the old text from lines of a diff; "" when they are none."""
    there = [line for line in lines if not line.startswith(("+", "@@"))]
    signed = all(line[:1] in {"-", " ", ""} for line in there) and any(line[:1] == "-" for line in there)
    return "\n".join(line[1:] for line in there) if signed else ""


def _already_there(text: str, new: str) -> int:
    """Return the line where the new text stands, 0 when it does not or is too short to mean anything."""
    if len(new.strip()) < 8:
        return 0
    at = text.find(new)
    return text.count("\n", 0, at) + 1 if at >= 0 else 0


def _difference(window: list[str], old_lines: list[str]) -> tuple[int, int]:
    """Return the index of the first line that differs and the place where it does; -1 for none."""
    for at, (line, old) in enumerate(zip(window, old_lines, strict=False)):
        if line != old:
            return at, alike_at_start(line, old)
    return -1, 0


def _first_difference(old_lines: list[str], difference: tuple[int, int], first: int) -> str:
    at, place = difference
    if at < 0:
        return ""
    column = f", character {place + 1}" if place >= _MAX_LINE - 60 else ""
    return (
        f"First difference, line {first + at + 1}{column}: you wrote\n"
        f"        {visible_blanks(old_lines[at], place=place)}"
    )


def _nearest(text: str, old: str) -> int | None:
    """Return the line, counted from 0, where the quoted text most likely begins."""
    old_lines = old.split("\n")[:200]
    starts = line_starts(text)
    votes: Counter[int] = Counter()
    frequent = 0
    for word, at in _words(old_lines):
        places = _lines_with(text, starts, word)
        if len(places) == _MAX_PLACES_OF_A_WORD:
            frequent += 1
            if frequent > _MAX_FREQUENT:
                continue
        for line in places:
            # Rare and long words say more; a whole line says most.
            votes[line - at] += (len(word) * 100) // len(places)
    if not votes:
        return None
    best = max(votes.values())
    likely = sorted(start for start, count in votes.items() if count * 2 >= best)[:_MAX_COMPARED]
    return max(0, max(likely, key=lambda at: (_alike(text, starts, old_lines, at), votes[at], -at)))


def _alike(text: str, starts: list[int], old_lines: list[str], first: int) -> int:
    """Count the characters the lines from `first` on share with the quoted ones, at their starts and ends."""
    shared = 0
    for begin, old in zip(
        starts[max(0, first) :], old_lines[max(0, -first) :][:MAX_SHOWN_LINES], strict=False
    ):
        line = text[begin : begin + _MAX_LINE].split("\n", 1)[0].strip()
        other = old.strip()[:_MAX_LINE]
        head = _common(line, other)
        shared += head + _common(line[head:][::-1], other[head:][::-1])
    return shared


def _common(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _words(old_lines: list[str]) -> list[tuple[str, int]]:
    """Return whole lines and words of the quoted text with their line, longest first."""
    found: dict[str, int] = {}
    for at, line in enumerate(old_lines):
        if len(line.strip()) > 3:
            found.setdefault(line.strip()[:_MAX_LINE], at)
        for word in _WORD().findall(line[:2000])[:40]:
            found.setdefault(word, at)
    longest = sorted(found.items(), key=lambda item: -len(item[0]))
    return longest[:_MAX_WORDS]


def _lines_with(text: str, starts: list[int], word: str) -> list[int]:
    lines: list[int] = []
    at = text.find(word)
    while at >= 0 and len(lines) < _MAX_PLACES_OF_A_WORD:
        line = bisect_right(starts, at) - 1
        lines.append(line)
        if line + 1 >= len(starts):
            break
        at = text.find(word, starts[line + 1])
    return lines


def ambiguous(text: str, matches: Sequence[Match], shown: str, most: int) -> str:
    """Explain that the old text stands in several places where one was meant."""
    starts = line_starts(text)
    numbers = [line_of(starts, match.start) for match in matches]
    listed = name_first(list(map(str, numbers)), MAX_LISTED_PLACES)
    count = f"{len(numbers)} places" if len(numbers) < most else f"{len(numbers)} places or more"
    lines = text.split("\n")
    samples = "\n".join(number_lines([lines[number - 1]], number) for number in dict.fromkeys(numbers[:4]))
    return (
        f"the old text stands in {count} in {shown}, at lines {listed}. Nothing was changed. "
        f"Quote more of the text around the place you mean, or set all=true.\n{samples}"
    )


def stale(shown: str, changes: tuple[str, ...], *, whole: bool) -> str:
    """Describe the changes to a file since the task read it."""
    more = "" if whole else "\n… (more; read it again)"
    return f"{shown} changed since you read it:\n" + "\n".join(changes) + more


MAX_ENTRIES = 5000
MAX_FOLDERS = 300
_SKIPPED = frozenset(
    {".git", "node_modules", ".venv", "venv", "__pycache__", ".buddyx", "target", "dist", "build"}
)


def missing(found: Located, boundary: Boundary) -> str:
    """Return the sentence for a file that does not exist, with near names."""
    near = near_names(found, boundary)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{found.shown} does not exist.{hint}"


def near_names(found: Located, boundary: Boundary) -> tuple[str, ...]:
    """Return existing paths the given one may have meant: the same name elsewhere in the workspace, like
    names in the same folder. Only names inside the workspace are told."""
    folder, name = os.path.split(found.real)
    near = _respell(found, boundary)
    if is_beneath(folder, boundary.root):
        like_it = (os.path.join(folder, like) for like in _like(folder, name))
        near.extend(path for path in like_it if path not in near)
    near.extend(path for path in _same_name(boundary.root, name) if path not in near)
    return tuple(visible(os.path.relpath(path, boundary.cwd)) for path in near[:MOST_NEAR])


def _respell(found: Located, boundary: Boundary) -> list[str]:
    """Return the path without quotes and blanks around it, with slashes for backslashes, if that is there."""
    text = found.given.strip(" \t\r\n'\"`").replace("\\", "/").rstrip("/")
    path = os.path.normpath(os.path.join(boundary.cwd, text))
    known = (
        bool(text)
        and path not in {found.real, found.path}
        and is_beneath(path, boundary.root)
        and os.path.lexists(path)
    )
    return [path] if known else []


def _like(folder: str, name: str) -> list[str]:
    import difflib  # here: 1 ms that a start need not pay

    names = _entries(folder)
    lowered = {entry.lower(): entry for entry in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)
    return [lowered[entry] for entry in close]


def _entries(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, MAX_ENTRIES)]
    except OSError:
        return []


def _same_name(root: str, name: str) -> list[str]:
    """Return files of this name, a bounded walk, shallow folders first."""
    found: list[str] = []
    waiting = [root]
    for _ in range(MAX_FOLDERS):
        if not waiting or len(found) >= 3:
            break
        folder = waiting.pop(0)
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, MAX_ENTRIES):
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _SKIPPED:
                            waiting.append(entry.path)
                    elif entry.name.lower() == name.lower():
                        found.append(entry.path)
        except OSError:
            continue
    return found
