"""Blocks and displays as rows, rows as text for the terminal. Imported late, with rich, which lays them
out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from buddy.agent.display import Checklist, Command, Diff, Display, FileList, Picture, Plain
from buddy.agent.formatting import format_count
from buddy.agent.receipt import receipt_rows
from buddy.repl.render import numbers as words
from buddy.repl.render.console import Canvas, Row
from buddy.repl.render.diff import file_rows
from buddy.repl.render.markdown_lines import MarkdownPainter
from buddy.repl.render.style import (
    DIFF_FOLD_LINES,
    NO_PICTURES,
    PROMPT_LINES,
    TASK_COLOURS,
    Glyphs,
    Line,
    Look,
    PictureWay,
)
from buddy.repl.render.table import number_columns, table_rows
from buddy.repl.render.text import fit_line
from buddy.repl.view.blocks import (
    ApprovalAnswered,
    ApprovalAsked,
    Block,
    CommandEcho,
    Expanded,
    Foldable,
    Lookups,
    Markdown,
    NoteBlock,
    PlainText,
    QuestionAsked,
    ReceiptBlock,
    TableBlock,
    TaskHeading,
    Thought,
    ToolCall,
    TurnSummary,
    UserPrompt,
    Welcome,
    finding_of,
    first_part,
    hidden_lines,
    kind_of,
    request_name,
    subject_of,
)
from buddy.safety.sanitise import clean, one_line, visible


def display_rows(canvas: Canvas, display: Display, width: int) -> list[Row]:
    """Return all rows of a display, wrapped to `width`."""
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
            where = "" if display.path in display.summary else f" ({display.path})"
            rows = text_rows(canvas, f"{display.summary}{where}", width)
            if display.files and (way := canvas.pictures()).mode != "off":
                from buddy.repl.render.picture import picture_rows  # needed for pictures only

                for file in display.files:
                    rows += picture_rows(file, width, way, canvas.look.depth)
            return rows


def display_summary(display: Display, glyphs: Glyphs) -> str:
    """Return a few words about the display for its header, "" where the lines say it all."""
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


PICTURE_FOLD_LINES = 100
"""Four pictures: a part of one shows nothing."""


class Fold(msgspec.Struct, frozen=True):
    """The number of lines that stay visible at the beginning and at the end of a folded block."""

    first: int
    last: int = 0


def fold_of(display: Display, look: Look, *, failed: bool) -> Fold:
    """Return the part of a tool's output that is shown. A command that failed says why at its end; one that
    went well says what it does at its beginning and the result at its end."""
    match display:
        case Diff() | Checklist():
            return Fold(DIFF_FOLD_LINES)
        case Command():
            first = 0 if failed or display.exit_code else look.fold_lines // 3
            return Fold(first, look.fold_lines - first)
        case Picture():
            return Fold(PICTURE_FOLD_LINES)
        case Plain() | FileList():
            return Fold(look.fold_lines)


def fold_rows(canvas: Canvas, rows: list[Row], fold: Fold, width: int) -> list[Row]:
    """Return the visible rows, and where the others were a row with their number. A fold hides at least two
    rows: hiding one would save nothing."""
    missing = len(rows) - fold.first - fold.last
    if missing < 2:
        return rows
    look = canvas.look
    marker: Line = [("muted", f"{look.glyphs.ellipsis} {format_count(missing, 'more line')} ({look.unfold})")]
    marked = canvas.wrap(fit_line(marker, width, look.glyphs.ellipsis), width)
    return [*rows[: fold.first], *marked, *rows[len(rows) - fold.last :]]


def text_lines(text: str, style: str = "") -> list[Line]:
    """Return untrusted text as clean lines."""
    body = clean(_overwrite(text) if "\r" in text else text).strip("\n")
    return [[(style, line)] for line in body.split("\n")] if body else []


def text_rows(canvas: Canvas, text: str, width: int, style: str = "") -> list[Row]:
    """Return untrusted text as rows, cleaned and wrapped, never cut."""
    return canvas.wrap_all(text_lines(text, style), width)


def indented_text_rows(canvas: Canvas, text: str, width: int) -> list[Row]:
    """Return the same for text of the program's own that is laid out with blanks: what is wrapped goes on
    below the first word of its line, as far as that leaves room."""
    rows: list[Row] = []
    for line in clean(text).strip("\n").split("\n"):
        words = line.lstrip(" ")
        margin: Line = [("", " " * min(len(line) - len(words), width // 2))]
        rows += canvas.behind(margin, margin, canvas.wrap([("", words)], width - len(margin[0][1])))
    return rows if text.strip("\n") else []


def _overwrite(text: str) -> str:
    """Return the text after carriage returns have overwritten their lines (progress bars)."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def expose(display: Display) -> Display:
    """Return a display for a decision: what would not be seen is written out."""
    match display:
        case Plain():
            return Plain(visible(display.summary, lines=True), visible(display.body, lines=True))
        case Diff():
            return Diff(tuple(msgspec.structs.replace(f, diff=_expose_lines(f.diff)) for f in display.files))
        case Command():
            return msgspec.structs.replace(display, command=visible(display.command, lines=True))
        case Checklist():
            items = tuple(msgspec.structs.replace(item, text=visible(item.text)) for item in display.items)
            return Checklist(items)
        case FileList() | Picture():
            return display


def _expose_lines(diff: str) -> str:
    """Return a diff for a decision: line by line, so that every line keeps its number. Blank ones are seen by
    it."""
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


_LEVELS = {"info": "info", "warning": "warning", "error": "error", "hint": "muted"}
_ANSWERS = {
    "once": ("ok", "approved once"),
    "session": ("ok", "approved for this session"),
    "rule": ("ok", "approved by rule"),
    "denied": ("error", "denied"),
    "withdrawn": ("muted", "withdrawn"),
}


def _address(task_id: int) -> str:
    return f"@{task_id} " if task_id else ""


class Painter:
    """Draws blocks for one look. Pure but for the parser it holds."""

    def __init__(self, look: Look, pictures: Callable[[], PictureWay] = lambda: NO_PICTURES) -> None:
        self.look = look
        self._canvas = Canvas(look, pictures)
        self._wrap, self._behind = self._canvas.wrap, self._canvas.behind
        self._text = partial(text_rows, self._canvas)
        self._markdown = MarkdownPainter(self._canvas)

    def ansi(self, block: Block, columns: int) -> str:
        """Return a block as text, lines ended by newlines; one column of the terminal stays free. "" when
        there is nothing to see."""
        return self._canvas.ansi(self.rows(block, max(columns - 1, 10)))

    def rows(self, block: Block, width: int) -> list[Row]:
        """Return a block as rows of at most `width` cells."""
        match block:
            case Markdown():
                return self._markdown.rows(block, width)
            case UserPrompt():
                return self._user(block, width, fold=True)
            case CommandEcho():
                line = f"{self.look.glyphs.prompt} {visible(one_line(block.line, 400))}"
                return self._wrap([("muted", line)], width)
            case Thought():
                return self._paint_thought(block, width, fold=True) if self.look.thoughts else []
            case ToolCall():
                return self._call(block, width, fold=True)
            case Lookups():
                return self._lookups(block, width)
            case ApprovalAsked():
                return self._paint_request(block, width, fold=True)
            case ApprovalAnswered():
                return self._paint_answer(block, width)
            case QuestionAsked():
                return self._question(block, width)
            case NoteBlock():
                return self._text(self.look.with_glyphs(block.text), width, _LEVELS[block.level])
            case ReceiptBlock():
                return self._receipt(block, width)
            case TurnSummary():
                return self._summary(block, width)
            case TaskHeading():
                return self._heading(block, width)
            case TableBlock():
                return self._table(block, width)
            case PlainText():
                return indented_text_rows(self._canvas, self.look.with_glyphs(block.text), width)
            case Welcome():
                return self._welcome(block, width)
            case Expanded():
                return self._expand(block.block, width)

    def is_folded(self, block: Foldable, columns: int) -> bool:
        """Tell whether part of the block is hidden at this width."""
        width = max(columns - 1, 10)
        return len(self.rows(block, width)) < len(self._expand(block, width))

    def _expand(self, block: Foldable, width: int) -> list[Row]:
        match block:
            case UserPrompt():
                return self._user(block, width, fold=False)
            case Thought():
                return self._paint_thought(block, width, fold=False)
            case ToolCall():
                return self._call(block, width, fold=False)
            case Lookups():
                return [line for call in block.calls for line in self._call(call, width, fold=False)]
            case ApprovalAsked():
                return self._paint_request(block, width, fold=False)

    def _user(self, block: UserPrompt, width: int, *, fold: bool) -> list[Row]:
        named = f"@{block.task_id} " if block.task_id else ""
        note = {"steer": "steering", "follow_up": "queued", "note": "note", "instructions": "instructions"}
        origin = f"{note[block.origin]}: " if block.origin in note else ""
        lines = text_lines(block.text, "user")
        if lines:
            lines[0] = [("muted", named + origin), *lines[0]]
        rows = self._canvas.wrap_all(lines, width - 2)
        if fold:
            rows = fold_rows(self._canvas, rows, Fold(PROMPT_LINES), width - 2)
        if block.pictures:
            rows += self._wrap([("muted", f"[{format_count(block.pictures, 'picture')}]")], width - 2)
        for what in block.along:
            rows += self._wrap([("muted", f"with it: {one_line(what, 120)}")], width - 2)
        bar: Line = [("prompt", self.look.glyphs.bar + " ")]
        return self._behind(bar, bar, rows)

    def _paint_thought(self, block: Thought, width: int, *, fold: bool) -> list[Row]:
        head: Line = [("muted", f"{self.look.glyphs.dot} thought for {words.seconds(block.seconds)}")]
        if fold:
            return self._wrap(
                [*head, ("muted", f" ({self.look.unfold})" if block.text.strip() else "")], width
            )
        bar: Line = [("gutter", self.look.glyphs.quote + " ")]
        return [*self._wrap(head, width), *self._behind(bar, bar, self._text(block.text, width - 2, "muted"))]

    def _call(self, block: ToolCall, width: int, *, fold: bool) -> list[Row]:
        if fold and kind_of(block) is not None:
            return self._lookup(block, width)
        lines = self._wrap(self._call_head(block), width)
        if fold and block.already_shown:
            return lines
        body = self._call_body(block, width - 2)
        if fold and not block.is_own:
            limits = fold_of(block.display, self.look, failed=block.status != "ok")
            body = fold_rows(self._canvas, body, limits, width - 2)
        bar: Line = [("gutter", self.look.glyphs.gutter + " ")]
        return lines + self._behind(bar, bar, body)

    def _lookup(self, block: ToolCall, width: int) -> list[Row]:
        """Paint a single lookup: `read main.py · 9 lines`."""
        kind = kind_of(block)
        verb = kind.verb if kind is not None else block.call.name
        found = one_line(finding_of(block), 200)
        dot = self.look.glyphs.dot
        line: Line = [("muted", f"{_address(block.task_id)}{verb} "), ("", subject_of(block))]
        return self._wrap([*line, ("muted", f" {dot} {found}" if found else "")], width)

    def _lookups(self, block: Lookups, width: int) -> list[Row]:
        """Paint several lookups in a row: `read 6 files`, and as many of their names as the line holds."""
        first = block.calls[0]
        kind = kind_of(first)
        if kind is None:
            return [line for call in block.calls for line in self._call(call, width, fold=True)]
        head = f"{_address(first.task_id)}{kind.verb} "
        names = ", ".join(dict.fromkeys(name for name in map(subject_of, block.calls) if name))
        line: Line = [("muted", head), ("", format_count(len(block.calls), kind.noun))]
        if names:
            line.append(("muted", f" {self.look.glyphs.dot} {names}"))
        return self._wrap(fit_line(line, width, self.look.glyphs.ellipsis), width)

    def _call_head(self, block: ToolCall) -> Line:
        glyphs = self.look.glyphs
        style, sign = ("ok", glyphs.done) if block.status == "ok" else ("error", glyphs.failed)
        head: Line = [(style, sign + " ")]
        if block.task_id:
            head.append(("muted", _address(block.task_id)))
        head.append(("tool", one_line(block.title or block.call.name, 400)))
        facts = [one_line(display_summary(block.display, glyphs), 200)]
        if block.status != "ok" and not (block.status == "error" and facts[0]):
            facts.append(block.status)
        facts.append(
            "cached" if block.cached else words.seconds(block.seconds) if block.seconds >= 0.95 else ""
        )
        head.append(("muted", "".join(f" {glyphs.dot} {fact}" for fact in facts if fact)))
        return head

    def _call_body(self, block: ToolCall, width: int) -> list[Row]:
        body = display_rows(self._canvas, block.display, width)
        if body or block.status == "ok" or isinstance(block.display, Command):
            return body
        return self._text(block.text, width, "error" if block.status == "error" else "muted")

    def _paint_request(self, block: ApprovalAsked, width: int, *, fold: bool) -> list[Row]:
        head: Line = [
            ("marked", f"{request_name(block.number, block.task_id)} "),
            (f"risk.{block.risk}", block.risk),
            ("", " " + visible(block.title)),
        ]
        lines = self._wrap(head, width)
        bar: Line = [("gutter", self.look.glyphs.gutter + " ")]
        body = self._text(visible(block.reason, lines=True), width - 2, "muted")
        hidden = hidden_lines(block.preview) if fold else 0
        body += self._preview(expose(first_part(block.preview) if hidden else block.preview), width - 2)
        if hidden:
            count, shows = format_count(hidden, "line"), f"({self.look.unfold} shows them)"
            missing = f"{self.look.glyphs.ellipsis} {count} not shown {shows}"
            body += self._wrap([("warning", missing)], width - 2)
        return lines + self._behind(bar, bar, body)

    def _preview(self, preview: Display, width: int) -> list[Row]:
        if isinstance(preview, Command):
            command = self._text(preview.command, width, "code")
            return command + self._text(preview.output, width, "warning")
        if isinstance(preview, Plain) and preview.summary and preview.body:
            return self._text(preview.summary, width, "code") + self._text(preview.body, width)
        return display_rows(self._canvas, preview, width)

    def _paint_answer(self, block: ApprovalAnswered, width: int) -> list[Row]:
        style, words_ = _ANSWERS[block.answer]
        by = f" ({one_line(block.by)})" if block.by and block.by != "you" else ""
        return self._wrap(
            [
                (style, f"{self.look.glyphs.marked} {words_}{by}: "),
                ("muted", one_line(block.title, 200)),
            ],
            width,
        )

    def _question(self, block: QuestionAsked, width: int) -> list[Row]:
        """Draw the model's words behind the gutter: none of them can pass for a row of buddy's own."""
        lines = self._wrap([("info", f"Task {block.task_id} has a question")], width)
        bar: Line = [("gutter", self.look.glyphs.gutter + " ")]
        lines += self._behind(bar, bar, self._text(visible(block.text, lines=True), width - 2))
        return lines + self._wrap([("muted", self.look.with_glyphs(block.how))], width)

    def _receipt(self, block: ReceiptBlock, width: int) -> list[Row]:
        checks = block.receipt.checks
        has_failed, has_passed = any(check.is_bad for check in checks), all(check.is_good for check in checks)
        styles = {
            "checked": "error" if has_failed else "ok" if has_passed else "warning",
            "unchecked": "warning",
            "refused": "error",
            "failed": "warning",
            "unseen": "warning",
        }
        rows: list[Row] = []
        for label, text in receipt_rows(block.receipt):
            style = styles.get(label, "")
            first: Line = [("muted", f"{label:<11}")]
            said = self._wrap([(style, self.look.with_glyphs(clean(text)))], max(width - 11, 10))
            rows += self._behind(first, [("", " " * 11)], said)
        return rows

    def _summary(self, block: TurnSummary, width: int) -> list[Row]:
        dot = f" {self.look.glyphs.dot} "
        outcome = {
            "completed": ("muted", "done"),
            "cancelled": ("warning", "cancelled"),
            "failed": ("error", f"failed (/retry {block.task_id})" if block.name else "failed (/retry)"),
            "limit": ("warning", "paused at a limit (/continue)"),
        }
        style, word = outcome[block.outcome]
        who = f"task {block.task_id} {one_line(block.name, 60)}".rstrip() + ": " if block.name else ""
        line: Line = [(style, who + word), ("muted", dot + words.seconds(block.seconds))]
        if block.calls:
            line.append(("muted", dot + format_count(block.calls, "call")))
            line += [("error", f", {block.refused} refused")] if block.refused else []
            line += [("warning", f", {block.failed} failed")] if block.failed else []
        if block.output_tokens:
            line.append(("muted", dot + words.token_count(block.output_tokens)))
        lines = self._wrap(line, width)
        reason = "" if block.reason == word else block.reason
        return lines + self._text(reason, width, style)

    def _welcome(self, block: Welcome, width: int) -> list[Row]:
        dot = f" {self.look.glyphs.dot} "
        lines: list[Line] = [
            [("bold", "buddy"), ("muted", f" {block.version}{dot}"), ("", visible(block.folder))],
            [("", visible(block.model)), ("muted", f"{dot}{block.mode}")],
            [("muted", "type a task")],
        ]
        if block.branch:
            lines[0].append(("muted", dot + visible(block.branch)))
        for key, meaning in (("/", "commands"), ("?", "keys")):
            lines[2] += [("muted", dot), ("key", key), ("muted", f" {meaning}")]
        lines += [[("muted", visible(fact))] for fact in block.facts]
        return self._canvas.wrap_all(lines, width)

    def _heading(self, block: TaskHeading, width: int) -> list[Row]:
        rule = self.look.glyphs.rule
        text = f"{rule * 2} task {block.task_id} {one_line(block.text, 60)} "
        style = f"task.{block.task_id % TASK_COLOURS}"
        return self._wrap([(style, text.rstrip() + " "), ("rule", rule * 8)], width)

    def _table(self, block: TableBlock, width: int) -> list[Row]:
        header: list[Line] = [[("bold", clean(cell))] for cell in block.header]
        rows: list[list[Line]] = [
            [[("", self.look.with_glyphs(clean(cell)).replace("\n", " "))] for cell in row]
            for row in block.rows
        ]
        for row, mark in zip(rows, block.marks, strict=False):
            row[0] = [(mark, text) for _style, text in row[0]]
        drawn = [header, *rows] if block.header else rows
        sides = number_columns(block.rows)
        return table_rows(self._canvas, drawn, width, header=bool(header), aligns=sides)
