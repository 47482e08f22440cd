"""Blocks as lines, lines as text for the terminal. Imported late, with what it draws with.

Everything a tool wrote stands behind a gutter on every line, so that no output can pass for the
program's own.
"""

from __future__ import annotations

from buddy.agent.counting import counted
from buddy.agent.display import Command, Display, Plain
from buddy.agent.receipt import receipt_rows
from buddy.repl import words
from buddy.repl.blocks import (
    ApprovalAnswered,
    ApprovalAsked,
    Block,
    CommandEcho,
    Expanded,
    Foldable,
    Lookups,
    Markdown,
    Note,
    PlainText,
    QuestionAsked,
    ReceiptBlock,
    Table,
    TaskHeading,
    Thought,
    ToolCall,
    TurnSummary,
    UserPrompt,
    Welcome,
)
from buddy.repl.displays import (
    display_lines,
    display_summary,
    exposed,
    fold_lines,
    fold_of,
    indented_text_lines,
    text_lines,
)
from buddy.repl.lookups import finding_of, kind_of, subject_of
from buddy.repl.markup import MarkdownPainter
from buddy.repl.request_fold import first_part, folded_lines
from buddy.repl.style import PROMPT_LINES, TASK_COLOURS, Line, Look
from buddy.repl.table import number_columns, table_lines
from buddy.repl.width import fit_line, indented, to_ansi, wrap
from buddy.safety.sanitise import clean, one_line, visible

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

    def __init__(self, look: Look) -> None:
        self.look = look
        self._markdown = MarkdownPainter(look)

    def ansi(self, block: Block, columns: int) -> str:
        """A block as text, lines ended by newlines; one column of the terminal stays free. "" when there
        is nothing to see."""
        return to_ansi(self.lines(block, max(columns - 1, 10)), self.look)

    def lines(self, block: Block, width: int) -> list[Line]:
        """A block as lines of at most `width` cells."""
        match block:
            case Markdown():
                return self._markdown.lines(block, width)
            case UserPrompt():
                return self._user(block, width)
            case CommandEcho():
                line = f"{self.look.glyphs.prompt} {visible(one_line(block.line, 400))}"
                return wrap([("muted", line)], width)
            case Thought():
                return self._thought(block, width, fold=True) if self.look.thoughts else []
            case ToolCall():
                return self._call(block, width, fold=True)
            case Lookups():
                return self._lookups(block, width)
            case ApprovalAsked():
                return self._asked(block, width, fold=True)
            case ApprovalAnswered():
                return self._answered(block, width)
            case QuestionAsked():
                return self._question(block, width)
            case Note():
                return text_lines(self.look.said(block.text), width, _LEVELS[block.level])
            case ReceiptBlock():
                return self._receipt(block, width)
            case TurnSummary():
                return self._summary(block, width)
            case TaskHeading():
                return self._heading(block, width)
            case Table():
                return self._table(block, width)
            case PlainText():
                return indented_text_lines(self.look.said(block.text), width)
            case Welcome():
                return self._welcome(block, width)
            case Expanded():
                return self._expanded(block.block, width)

    def is_folded(self, block: Foldable, columns: int) -> bool:
        """Whether some of the block is hidden at this width."""
        width = max(columns - 1, 10)
        return len(self.lines(block, width)) < len(self._expanded(block, width))

    def _expanded(self, block: Foldable, width: int) -> list[Line]:
        match block:
            case Thought():
                return self._thought(block, width, fold=False)
            case ToolCall():
                return self._call(block, width, fold=False)
            case Lookups():
                return [line for call in block.calls for line in self._call(call, width, fold=False)]
            case ApprovalAsked():
                return self._asked(block, width, fold=False)

    def _user(self, block: UserPrompt, width: int) -> list[Line]:
        lines = text_lines(block.text, width - 2, "user")
        if len(lines) > PROMPT_LINES + 1:
            missing = counted(len(lines) - PROMPT_LINES, "more line")
            lines = [*lines[:PROMPT_LINES], [("muted", f"{self.look.glyphs.ellipsis} {missing}")]]
        if block.pictures:
            lines.append([("muted", f"[{counted(block.pictures, 'picture')}]")])
        for what in block.along:
            lines += wrap([("muted", f"with it: {one_line(what, 120)}")], width - 2)
        note = {"steer": "steering", "follow_up": "queued", "note": "note", "instructions": "instructions"}
        if block.origin in note:
            lines = [[("muted", f"{note[block.origin]}: "), *lines[0]], *lines[1:]] if lines else []
            lines = [part for line in lines for part in wrap(line, width - 2)]
        named = f"@{block.task_id}" if block.task_id else ""
        if named and lines:
            lines = [[("muted", named + " "), *lines[0]], *lines[1:]]
            lines = [part for line in lines for part in wrap(line, width - 2)]
        bar: Line = [("prompt", self.look.glyphs.bar + " ")]
        return indented(lines, bar, bar)

    def _thought(self, block: Thought, width: int, *, fold: bool) -> list[Line]:
        head: Line = [("muted", f"{self.look.glyphs.dot} thought for {words.seconds(block.seconds)}")]
        if fold:
            return [head + ([("muted", f" ({self.look.unfold})")] if block.text.strip() else [])]
        bar: Line = [("gutter", self.look.glyphs.quote + " ")]
        return [head, *indented(text_lines(block.text, width - 2, "muted"), bar, bar)]

    def _call(self, block: ToolCall, width: int, *, fold: bool) -> list[Line]:
        if fold and kind_of(block) is not None:
            return self._lookup(block, width)
        lines = wrap(self._call_head(block), width)
        if fold and block.already_shown:
            return lines
        body = self._call_body(block, width - 2)
        if fold and not block.is_own:
            limits = fold_of(block.display, self.look, failed=block.status != "ok")
            body = fold_lines(body, limits, width - 2, self.look)
        bar: Line = [("gutter", self.look.glyphs.gutter + " ")]
        return lines + indented(body, bar, bar)

    def _lookup(self, block: ToolCall, width: int) -> list[Line]:
        """A single lookup: `read main.py · 9 lines`."""
        kind = kind_of(block)
        verb = kind.verb if kind is not None else block.call.name
        found = one_line(finding_of(block), 200)
        dot = self.look.glyphs.dot
        line: Line = [("muted", f"{_address(block.task_id)}{verb} "), ("", subject_of(block))]
        return wrap([*line, ("muted", f" {dot} {found}" if found else "")], width)

    def _lookups(self, block: Lookups, width: int) -> list[Line]:
        """Several in a row: `read 6 files`, and as many of their names as the line holds."""
        first = block.calls[0]
        kind = kind_of(first)
        if kind is None:
            return [line for call in block.calls for line in self._call(call, width, fold=True)]
        head = f"{_address(first.task_id)}{kind.verb} "
        names = ", ".join(dict.fromkeys(name for name in map(subject_of, block.calls) if name))
        line: Line = [("muted", head), ("", counted(len(block.calls), kind.noun))]
        if names:
            line.append(("muted", f" {self.look.glyphs.dot} {names}"))
        return [fit_line(line, width, self.look.glyphs.ellipsis)]

    def _call_head(self, block: ToolCall) -> Line:
        glyphs = self.look.glyphs
        style, sign = ("ok", glyphs.done) if block.status == "ok" else ("error", glyphs.failed)
        head: Line = [(style, sign + " ")]
        if block.task_id:
            head.append(("muted", _address(block.task_id)))
        head.append(("tool", one_line(block.title or block.call.name, 400)))
        facts = [one_line(display_summary(block.display), 200)]
        if block.status != "ok" and not (block.status == "error" and facts[0]):
            facts.append(block.status)
        facts.append(
            "cached" if block.cached else words.seconds(block.seconds) if block.seconds >= 0.95 else ""
        )
        head.append(("muted", "".join(f" {glyphs.dot} {fact}" for fact in facts if fact)))
        return head

    def _call_body(self, block: ToolCall, width: int) -> list[Line]:
        body = display_lines(block.display, width, self.look)
        if body or block.status == "ok" or isinstance(block.display, Command):
            return body
        return text_lines(block.text, width, "error" if block.status == "error" else "muted")

    def _asked(self, block: ApprovalAsked, width: int, *, fold: bool) -> list[Line]:
        head: Line = [
            ("marked", f"{self.look.glyphs.marked} approval for task {block.task_id} "),
            (f"risk.{block.risk}", block.risk),
            ("", " " + visible(block.title)),
        ]
        lines = wrap(head, width)
        bar: Line = [("gutter", self.look.glyphs.gutter + " ")]
        body = text_lines(visible(block.reason, lines=True), width - 2, "muted")
        hidden = folded_lines(block.preview) if fold else 0
        body += self._preview(exposed(first_part(block.preview) if hidden else block.preview), width - 2)
        if hidden:
            count, shows = counted(hidden, "line"), f"({self.look.unfold} shows them)"
            missing = f"{self.look.glyphs.ellipsis} {count} not shown {shows}"
            body += wrap([("warning", missing)], width - 2)
        return lines + indented(body, bar, bar)

    def _preview(self, preview: Display, width: int) -> list[Line]:
        if isinstance(preview, Command):
            command = text_lines(preview.command, width, "code")
            return command + text_lines(preview.output, width, "warning")
        if isinstance(preview, Plain) and preview.summary and preview.body:
            return text_lines(preview.summary, width, "code") + text_lines(preview.body, width)
        return display_lines(preview, width, self.look)

    def _answered(self, block: ApprovalAnswered, width: int) -> list[Line]:
        style, words_ = _ANSWERS[block.answer]
        by = f" ({one_line(block.by)})" if block.by and block.by != "you" else ""
        return wrap(
            [
                (style, f"{self.look.glyphs.marked} {words_}{by}: "),
                ("muted", one_line(block.title, 200)),
            ],
            width,
        )

    def _question(self, block: QuestionAsked, width: int) -> list[Line]:
        """Draw the model's words behind the gutter: none of them can pass for a row of buddy's own."""
        lines = wrap([("info", f"Task {block.task_id} has a question")], width)
        bar: Line = [("gutter", self.look.glyphs.gutter + " ")]
        lines += indented(text_lines(visible(block.text, lines=True), width - 2), bar, bar)
        return lines + wrap([("muted", self.look.said(block.how))], width)

    def _receipt(self, block: ReceiptBlock, width: int) -> list[Line]:
        has_failed = any(check.is_bad for check in block.receipt.checks)
        styles = {
            "checked": "error" if has_failed else "ok",
            "unchecked": "warning",
            "refused": "error",
            "failed": "warning",
            "unseen": "warning",
        }
        lines: list[Line] = []
        for label, text in receipt_rows(block.receipt):
            style = styles.get(label, "")
            first: Line = [("muted", f"{label:<11}")]
            said = wrap([(style, self.look.said(clean(text)))], max(width - 11, 10))
            lines += indented(said, first, [("", " " * 11)])
        return lines

    def _summary(self, block: TurnSummary, width: int) -> list[Line]:
        dot = f" {self.look.glyphs.dot} "
        outcome = {
            "completed": ("muted", "done"),
            "cancelled": ("warning", "cancelled"),
            "failed": ("error", f"failed (/retry {block.task_id})" if block.name else "failed (/retry)"),
            "limit": ("warning", "paused at a limit (/continue)"),
        }
        style, word = outcome[block.outcome]
        who = f"task {block.task_id} {one_line(block.name, 60)}".rstrip() + ": " if block.name else ""
        facts = [words.seconds(block.seconds)]
        if block.calls:
            facts.append(counted(block.calls, "call"))
            facts[-1] += f", {block.refused} refused" if block.refused else ""
            facts[-1] += f", {block.failed} failed" if block.failed else ""
        if block.output_tokens:
            facts.append(words.token_count(block.output_tokens))
        if block.outcome == "completed" and (block.refused or block.failed):
            style = "error" if block.refused else "warning"
            return wrap([(style, who + word + dot + dot.join(facts))], width)
        lines = wrap([(style, who + word), ("muted", dot + dot.join(facts))], width)
        reason = "" if block.reason == word else block.reason
        return lines + text_lines(reason, width, style)

    def _welcome(self, block: Welcome, width: int) -> list[Line]:
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
        lines += [[("muted", visible(fact))] for fact in block.found]
        return [part for line in lines for part in wrap(line, width)]

    def _heading(self, block: TaskHeading, width: int) -> list[Line]:
        rule = self.look.glyphs.rule
        text = f"{rule * 2} task {block.task_id} {one_line(block.text, 60)} "
        style = f"task.{block.task_id % TASK_COLOURS}"
        return wrap([(style, text.rstrip() + " "), ("rule", rule * 8)], width)

    def _table(self, block: Table, width: int) -> list[Line]:
        header: list[Line] = [[("bold", clean(cell))] for cell in block.header]
        rows: list[list[Line]] = [
            [[("", self.look.said(clean(cell)).replace("\n", " "))] for cell in row] for row in block.rows
        ]
        return table_lines(
            [header, *rows] if block.header else rows,
            width,
            self.look.glyphs,
            header=bool(header),
            aligns=number_columns(block.rows),
        )
