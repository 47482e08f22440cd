"""What a person sees of a tool's work, as lines. A new tool never touches this: it chooses a display."""

from __future__ import annotations

import msgspec

from buddy.agent.counting import counted
from buddy.agent.display import Checklist, Command, Diff, Display, FileDiff, FileList, Picture, Plain
from buddy.repl.style import DIFF_FOLD_LINES, Line, Look
from buddy.repl.width import fit_line, indented, wrap
from buddy.safety.sanitise import clean, visible

_DIFF_STYLES = {"+": "added", "-": "removed", "@": "hunk"}
_CHANGES = {"add": "new", "update": "edit", "delete": "delete", "move": "move"}


def display_lines(display: Display, width: int, look: Look) -> list[Line]:
    """All lines of a display, wrapped to `width`."""
    match display:
        case Plain():
            return text_lines(display.body or display.summary, width)
        case Diff():
            return [line for file in display.files for line in _file_diff(file, width, look)]
        case Command():
            return text_lines(display.output, width)
        case FileList():
            return _files(display, width)
        case Checklist():
            return _checklist(display, width, look)
        case Picture():
            return text_lines(f"{display.summary} ({display.path})", width)


def display_summary(display: Display) -> str:
    """A few words about the display for its header, "" where the lines say it all."""
    match display:
        case Plain():
            return display.summary if display.body else ""
        case Diff():
            added = sum(file.added for file in display.files)
            removed = sum(file.removed for file in display.files)
            return f"+{added} -{removed}"
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


def fold_lines(lines: list[Line], fold: Fold, width: int, look: Look) -> list[Line]:
    """The visible lines, and where the others were a line with their number. A fold hides at least two
    lines: hiding one would save nothing."""
    missing = len(lines) - fold.first - fold.last
    if missing < 2:
        return lines
    marker: Line = [("muted", f"{look.glyphs.ellipsis} {counted(missing, 'more line')} ({look.unfold})")]
    marked = fit_line(marker, width, look.glyphs.ellipsis)
    return [*lines[: fold.first], marked, *lines[len(lines) - fold.last :]]


def text_lines(text: str, width: int, style: str = "") -> list[Line]:
    """Untrusted text, cleaned and wrapped, never cut."""
    body = clean(_overwritten(text) if "\r" in text else text).strip("\n")
    if not body:
        return []
    return [part for line in body.split("\n") for part in wrap([(style, line)], width)]


def indented_text_lines(text: str, width: int) -> list[Line]:
    """The same for text of the program's own that is laid out with blanks: what is wrapped goes on below the
    first word of its line, as far as that leaves room."""
    lines: list[Line] = []
    for line in clean(text).strip("\n").split("\n"):
        words = line.lstrip(" ")
        margin: Line = [("", " " * min(len(line) - len(words), width // 2))]
        lines += indented(wrap([("", words)], width - len(margin[0][1])), margin, margin)
    return lines if text.strip("\n") else []


def _overwritten(text: str) -> str:
    """What is left of lines that a carriage return began again (progress bars)."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def exposed(display: Display) -> Display:
    """A display for a decision: what would not be seen is written out."""
    match display:
        case Plain():
            return Plain(visible(display.summary, lines=True), visible(display.body, lines=True))
        case Diff():
            return Diff(
                tuple(msgspec.structs.replace(f, diff=visible(f.diff, lines=True)) for f in display.files)
            )
        case Command():
            return msgspec.structs.replace(display, command=visible(display.command, lines=True))
        case Checklist():
            items = tuple(msgspec.structs.replace(item, text=visible(item.text)) for item in display.items)
            return Checklist(items)
        case FileList() | Picture():
            return display


def _file_diff(file: FileDiff, width: int, look: Look) -> list[Line]:
    arrow = f" {look.glyphs.arrow} {visible(file.new_path)}" if file.new_path else ""
    head: Line = [
        ("muted", f"{_CHANGES[file.change]} "),
        ("bold", visible(file.path) + arrow),
        ("added", f" +{file.added}"),
        ("removed", f" -{file.removed}"),
    ]
    lines = wrap(head, width)
    for line in clean(file.diff).strip("\n").split("\n") if file.diff else ():
        lines += wrap([(_DIFF_STYLES.get(line[:1], ""), line)], width)
    return lines


def _files(display: FileList, width: int) -> list[Line]:
    lines = [part for path in display.paths for part in wrap([("", visible(path))], width)]
    missing = display.total - len(display.paths)
    return [*lines, fit_line([("muted", f"and {missing} more")], width)] if missing > 0 else lines


def _checklist(display: Checklist, width: int, look: Look) -> list[Line]:
    glyphs = look.glyphs
    signs = {
        "pending": (glyphs.box_open, ""),
        "active": (glyphs.box_active, "bold"),
        "done": (glyphs.box_done, "muted"),
        "dropped": (glyphs.box_dropped, "muted strike"),
    }
    lines: list[Line] = []
    for item in display.items:
        sign, style = signs[item.state]
        for index, part in enumerate(wrap([(style, clean(item.text).replace("\n", " "))], width - 2)):
            lines.append([("bullet", sign + " ") if index == 0 else ("", "  "), *part])
    return lines
