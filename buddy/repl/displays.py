"""Rendering of a tool's display as rows. A new tool never changes this module: it chooses a display."""

from __future__ import annotations

import msgspec

from buddy.agent.counting import counted
from buddy.agent.display import Checklist, Command, Diff, Display, FileList, Picture, Plain
from buddy.repl.canvas import Canvas, Row
from buddy.repl.diffs import file_rows
from buddy.repl.style import DIFF_FOLD_LINES, Glyphs, Line, Look
from buddy.repl.width import fit_line
from buddy.safety.sanitise import clean, visible


def display_rows(canvas: Canvas, display: Display, width: int) -> list[Row]:
    """All rows of a display, wrapped to `width`."""
    match display:
        case Plain():
            return text_rows(canvas, display.body or display.summary, width)
        case Diff():
            return [row for file in display.files for row in file_rows(canvas, file, width)]
        case Command():
            return text_rows(canvas, display.output, width)
        case FileList():
            return _files(canvas, display, width)
        case Checklist():
            return _checklist(canvas, display, width)
        case Picture():
            return text_rows(canvas, f"{display.summary} ({display.path})", width)


def display_summary(display: Display, glyphs: Glyphs) -> str:
    """A few words about the display for its header, "" where the lines say it all."""
    match display:
        case Plain():
            return display.summary if display.body else ""
        case Diff():
            added = sum(file.added for file in display.files)
            removed = sum(file.removed for file in display.files)
            return f"+{added} {glyphs.minus}{removed}"
        case Command():
            if display.exit_code is None:
                return display.ended
            return f"exit {display.exit_code}" if display.exit_code else ""
        case FileList():
            return display.summary
        case Checklist():
            return f"{sum(item.state == 'done' for item in display.items)}/{len(display.items)}"
        case Picture():
            return ""


class Fold(msgspec.Struct, frozen=True):
    """The number of lines that stay visible at the beginning and at the end of a folded block."""

    first: int
    last: int = 0


def fold_of(display: Display, look: Look, *, failed: bool) -> Fold:
    """The part of a tool's output that is shown. A command that failed says why at its end; one that went
    well says what it does at its beginning and the result at its end."""
    match display:
        case Diff() | Checklist():
            return Fold(DIFF_FOLD_LINES)
        case Command():
            first = 0 if failed or display.exit_code else look.fold_lines // 3
            return Fold(first, look.fold_lines - first)
        case Plain() | FileList() | Picture():
            return Fold(look.fold_lines)


def fold_rows(canvas: Canvas, rows: list[Row], fold: Fold, width: int) -> list[Row]:
    """The visible rows, and where the others were a row with their number. A fold hides at least two rows:
    hiding one would save nothing."""
    missing = len(rows) - fold.first - fold.last
    if missing < 2:
        return rows
    look = canvas.look
    marker: Line = [("muted", f"{look.glyphs.ellipsis} {counted(missing, 'more line')} ({look.unfold})")]
    marked = canvas.wrap(fit_line(marker, width, look.glyphs.ellipsis), width)
    return [*rows[: fold.first], *marked, *rows[len(rows) - fold.last :]]


def text_lines(text: str, style: str = "") -> list[Line]:
    """Untrusted text as lines, cleaned."""
    body = clean(_overwritten(text) if "\r" in text else text).strip("\n")
    return [[(style, line)] for line in body.split("\n")] if body else []


def text_rows(canvas: Canvas, text: str, width: int, style: str = "") -> list[Row]:
    """Untrusted text, cleaned and wrapped, never cut."""
    return canvas.wrap_all(text_lines(text, style), width)


def indented_text_rows(canvas: Canvas, text: str, width: int) -> list[Row]:
    """The same for text of the program's own that is laid out with blanks: what is wrapped goes on below the
    first word of its line, as far as that leaves room."""
    rows: list[Row] = []
    for line in clean(text).strip("\n").split("\n"):
        words = line.lstrip(" ")
        margin: Line = [("", " " * min(len(line) - len(words), width // 2))]
        rows += canvas.behind(margin, margin, canvas.wrap([("", words)], width - len(margin[0][1])))
    return rows if text.strip("\n") else []


def _overwritten(text: str) -> str:
    """Return the text after carriage returns have overwritten their lines (progress bars)."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def exposed(display: Display) -> Display:
    """A display for a decision: what would not be seen is written out."""
    match display:
        case Plain():
            return Plain(visible(display.summary, lines=True), visible(display.body, lines=True))
        case Diff():
            return Diff(tuple(msgspec.structs.replace(f, diff=_exposed_lines(f.diff)) for f in display.files))
        case Command():
            return msgspec.structs.replace(display, command=visible(display.command, lines=True))
        case Checklist():
            items = tuple(msgspec.structs.replace(item, text=visible(item.text)) for item in display.items)
            return Checklist(items)
        case FileList() | Picture():
            return display


def _exposed_lines(diff: str) -> str:
    """A diff for a decision: line by line, so that every line keeps its number. Blank ones are seen by it."""
    return "\n".join(map(visible, diff.split("\n")))


def _files(canvas: Canvas, display: FileList, width: int) -> list[Row]:
    rows = canvas.wrap_all(([("", visible(path))] for path in display.paths), width)
    missing = display.total - len(display.paths)
    more: Line = [("muted", f"and {missing} more")]
    return [*rows, *canvas.wrap(more, width)] if missing > 0 else rows


def _checklist(canvas: Canvas, display: Checklist, width: int) -> list[Row]:
    glyphs = canvas.look.glyphs
    signs = {
        "pending": (glyphs.box_open, ""),
        "active": (glyphs.box_active, "bold"),
        "done": (glyphs.box_done, "muted"),
        "dropped": (glyphs.box_dropped, "muted strike"),
    }
    rows: list[Row] = []
    for item in display.items:
        sign, style = signs[item.state]
        words = canvas.wrap([(style, clean(item.text).replace("\n", " "))], width - 2)
        rows += canvas.behind([("bullet", sign), ("", " ")], [("", "  ")], words)
    return rows
