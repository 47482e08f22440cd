"""Differences of files as rows: line numbers, the colours of the language, changed lines tinted over the
whole width, the words that differ marked. Imported late, with rich.

Every line of a diff is drawn, also one that is no line of a unified diff: nothing of a change that is
approved may be missing. What is wrapped goes on below its text, so that no content can stand where a number
or a sign does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Literal

import msgspec
from rich.segment import Segment
from rich.text import Text

from buddy.agent.display import FileDiff
from buddy.agent.formatting import format_count
from buddy.agent.lazy_regex import pattern
from buddy.repl.render.code import highlight
from buddy.repl.render.console import Canvas, Row
from buddy.repl.render.style import Line
from buddy.repl.view.blocks import Fence
from buddy.repl.view.live import language_of
from buddy.safety.sanitise import clean, visible

CHANGES = {"add": "new", "update": "edit", "delete": "delete", "move": "move"}
MOST_COMPARED_CHARS = 400
"""Longer lines are not compared word by word, nor more lines of a file than `MOST_COMPARED_LINES`."""
MOST_COMPARED_LINES = 200
LEAST_ALIKE = 0.5
"""Lines that have less in common are different lines: marking most of their words would say nothing."""

_HUNK = pattern(r"@@ -(?P<old>\d{1,9})(?:,\d+)? \+(?P<new>\d{1,9})(?:,(?P<lines>\d{1,9}))? @@.*")
_WORDS = pattern(r"\w+|\s+|.")

Kind = Literal["context", "added", "removed", "gap", "other"]
_SIGNS: dict[str, Kind] = {"+": "added", "-": "removed", " ": "context", "": "context"}
Marks = list[tuple[int, int]]
"""The parts of a line that differ from the line it replaces or is replaced by."""


class DiffLine(msgspec.Struct):
    """One line of a diff. `number` is that of the new file, for a removed line that of the old one; 0 where
    there is none."""

    kind: Kind
    text: str
    number: int = 0


def file_rows(canvas: Canvas, file: FileDiff, width: int) -> list[Row]:
    """Return the changes of one file below its name."""
    glyphs = canvas.look.glyphs
    arrow = f" {glyphs.arrow} {visible(file.new_path)}" if file.new_path else ""
    head: Line = [
        ("muted", f"{CHANGES[file.change]} "),
        ("bold", visible(file.path) + arrow),
        ("added", f"  +{file.added}"),
        ("removed", f" {glyphs.minus}{file.removed}"),
    ]
    body = clean(file.diff).strip("\n") if file.diff else ""
    lines = list(diff_lines(body.split("\n"))) if body else []
    return (
        canvas.wrap(head, width)
        + _Drawing(canvas, lines, language_of(file.new_path or file.path), width).rows()
    )


def diff_lines(lines: Iterable[str]) -> Iterator[DiffLine]:
    """Yield the lines of a unified diff without file headers. Lines before the first hunk have no number."""
    old = new = end = 0
    in_hunk = False
    for line in lines:
        hunk = _HUNK().fullmatch(line)
        if hunk is not None:
            old, new = int(hunk["old"]), int(hunk["new"])
            if in_hunk and new > end:
                yield DiffLine("gap", format_count(new - end, "line"))
            end = new + int(hunk["lines"] or 1)
            in_hunk = True
        elif line.startswith("+"):
            yield DiffLine("added", line[1:], new)
            new += in_hunk
        elif line.startswith("-"):
            yield DiffLine("removed", line[1:], old)
            old += in_hunk
        elif line.startswith(" ") or (in_hunk and not line):  # some tools strip the blank of an empty line
            yield DiffLine("context", line[1:], new)
            old, new = old + in_hunk, new + in_hunk
        else:
            yield DiffLine("other", line.removeprefix("\\ "))


def fence_rows(canvas: Canvas, fence: Fence, width: int) -> list[Row]:
    """Return the rows of a diff that stands in an answer. It has no line numbers: those of a model's hunks
    are often wrong."""
    before = fence.context.split("\n")
    lines: list[DiffLine] = []
    path = next((line for line in reversed(before) if line.startswith("+++ ")), "")
    code = [*before[-1:], *fence.code.split("\n"), ""]
    for previous, line, following in zip(code, code[1:], code[2:], strict=False):
        is_new_name = line.startswith("+++ ") and previous.startswith("--- ")
        is_old_name = line.startswith("--- ") and following.startswith("+++ ")
        path = line if is_new_name else path
        kind: Kind = "other" if is_new_name or is_old_name else _SIGNS.get(line[:1], "other")
        lines.append(DiffLine(kind, line if kind == "other" else line[1:]))
    return _Drawing(canvas, lines, language_of(path.partition("\t")[0]), width).rows()


class _Drawing:
    """The lines of one file as they are drawn."""

    def __init__(self, canvas: Canvas, lines: list[DiffLine], language: str, width: int) -> None:
        self._canvas = canvas
        self._lines = lines
        self._width = width
        self._digits = len(str(max((line.number for line in lines), default=0)))
        self._is_numbered = any(line.number for line in lines)
        self._has_grounds = canvas.look.has_grounds
        self._coloured = _highlight(lines, language)
        self._marks = dict(differing_words(lines))

    def rows(self) -> list[Row]:
        """Return all rows."""
        return [row for at, line in enumerate(self._lines) for row in self._line(at, line)]

    def _line(self, at: int, line: DiffLine) -> list[Row]:
        canvas, glyphs = self._canvas, self._canvas.look.glyphs
        margin = self._digits + 1 if self._is_numbered else 0
        match line.kind:
            case "gap":
                return canvas.wrap(
                    [("muted", f"{' ' * max(margin - 2, 0)}{glyphs.gap} {line.text}")], self._width
                )
            case "other":
                indent: Line = [("", " " * margin)]
                return canvas.behind(indent, indent, canvas.wrap([("", line.text)], self._width - margin))
            case "context":
                sign, ground = " ", ""
            case "added":
                sign, ground = "+", "added.line"
            case "removed":
                sign, ground = glyphs.minus, "removed.line"
        number = f"{line.number:>{self._digits}} " if self._is_numbered else ""
        text = self._text(at, line, ground)
        is_tinted = bool(ground) and self._has_grounds
        first: Line = [("changed.muted" if is_tinted else "muted", number), (line.kind, sign)]
        rest: Line = [("", " " * (margin + 1))]
        rows = canvas.behind(first, rest, canvas.wrap_text(text, self._width - margin - 1))
        return [self._tint(row, ground) for row in rows] if is_tinted else rows

    def _text(self, at: int, line: DiffLine, ground: str) -> Text:
        """Return the text of a line: in the colours of its language where the line stands on a ground or has
        not changed, otherwise in the one that says what became of it."""
        style = self._canvas.style
        if ground and not self._has_grounds:
            text = Text(line.text, style(ground), end="")
        else:
            text = self._canvas.text(
                [(self._code_style(name, ground), part) for name, part in self._coloured[at]]
            )
        for start, end in self._marks.get(at, ()):
            text.stylize(style(f"{line.kind}.word"), start, end)
        return text

    def _code_style(self, name: str, ground: str) -> str:
        """Return the style of a token: the same in all lines of a diff with grounds, but for comments, whose
        grey is made for the background of the terminal."""
        if not self._has_grounds or (name == "syntax.comment" and not ground):
            return name
        return name.replace("syntax.", "changed.")

    def _tint(self, row: Row, ground: str) -> Row:
        """Return a row on a ground that reaches to the edge of the terminal."""
        style = self._canvas.style(ground)
        return [*Segment.apply_style(row, style), Segment("", style)]


def _highlight(lines: list[DiffLine], language: str) -> list[Line]:
    """Return every line in the colours of its language, in the version of the file it belongs to, hunk by
    hunk."""
    coloured: list[Line] = [[("", line.text)] for line in lines]
    if not language:
        return coloured
    hunk: list[int] = []
    for at, line in enumerate([*lines, DiffLine("gap", "")]):
        if line.kind != "gap":
            hunk.append(at)
            continue
        for version in ("removed", "added"):
            chosen = [one for one in hunk if lines[one].kind in (version, "context")]
            if not chosen:
                continue
            code = "\n".join(lines[one].text for one in chosen)
            for one, spans in zip(chosen, highlight(code, language), strict=True):
                coloured[one] = spans
        hunk = []
    return coloured


def differing_words(lines: list[DiffLine]) -> Iterator[tuple[int, Marks]]:
    """Yield the words that differ, by the index of their line: each removed line is compared with the added
    one that stands in the same place below them."""
    at = compared = 0
    while at < len(lines):
        removed = _run(lines, at, "removed")
        added = _run(lines, removed, "added")
        for old, new in zip(range(at, removed), range(removed, added), strict=False):
            compared += 1
            if compared > MOST_COMPARED_LINES:
                return
            gone, come = _compare_words(lines[old].text, lines[new].text)
            yield old, gone
            yield new, come
        at = max(added, at + 1)


def _run(lines: list[DiffLine], at: int, kind: Kind) -> int:
    """Return the end of the lines of one kind that begin at an index."""
    while at < len(lines) and lines[at].kind == kind:
        at += 1
    return at


def _compare_words(old: str, new: str) -> tuple[Marks, Marks]:
    if max(len(old), len(new)) > MOST_COMPARED_CHARS:
        return [], []
    before, after = _WORDS().findall(old), _WORDS().findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.quick_ratio() < LEAST_ALIKE or matcher.ratio() < LEAST_ALIKE:
        return [], []
    gone: Marks = []
    come: Marks = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            gone.append((len("".join(before[:a])), len("".join(before[:b]))))
            come.append((len("".join(after[:c])), len("".join(after[:d]))))
    return [mark for mark in gone if mark[0] < mark[1]], [mark for mark in come if mark[0] < mark[1]]
