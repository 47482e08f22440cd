"""The live region: the state of every running task, the call being written, and the last lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from buddy.agent.display import Command, Diff, Display
from buddy.agent.formatting import format_count
from buddy.repl.render import numbers as words
from buddy.repl.render.style import (
    APPROVAL_LINES,
    LIVE_ROWS_PART,
    PREVIEW_LINES,
    QUEUE_ROWS,
    QUIET_AFTER_S,
    TASK_LINES,
    TITLE_CELLS,
    Line,
    Look,
)
from buddy.repl.render.text import cells, fit_line, indent, line_cells, wrap
from buddy.repl.view.blocks import Markdown
from buddy.repl.view.state import (
    Calling,
    InboxRow,
    Loading,
    Retrying,
    TaskView,
    ThinkingPhase,
    ViewState,
    WaitingPhase,
    Working,
    Writing,
)
from buddy.safety.sanitise import clean, one_line, visible
from buddy.tools.streaming_arguments import ArgumentsSoFar

Colour = Callable[[str, str], Line]
"""Highlights a line of code in a language."""

PATH_CHARS = 60
_LANGUAGES = {"h": "c", "hpp": "cpp", "kt": "kotlin", "yml": "yaml", "mjs": "js", "cjs": "js", "pyi": "py"}
_SIGNS = {"old": ("removed", "- "), "new": ("added", "+ ")}
_DIFF_STYLES = {"+": "added", "-": "removed", "@": "hunk", "*": "bold"}


def plain_code(code: str, _language: str) -> Line:
    """Return the line without colours."""
    return [("", code)]


def arriving_words(phase: Calling) -> str:
    """Describe the file that is being written, and how much of it has arrived."""
    so_far = phase.so_far
    lines = format_count(so_far.lines(), "line")
    path = one_line(so_far.path, PATH_CHARS)
    match phase.name, so_far.part:
        case "write_file", "content":
            return f"writing {path or 'a file'}, {lines}"
        case "edit_file", "old":
            return f"editing {path or 'a file'}, {lines} out"
        case "edit_file", "new":
            return f"editing {path or 'a file'}, {lines} in"
        case "apply_patch", "patch":
            return f"patching {path or 'files'}, {lines}"
        case "run_shell", "command":
            return f"writing a command, {lines}"
        case name, _:
            tool = one_line(name, 40) or "a tool"
            return f"writing a call to {tool}, {words.tokens(so_far.chars)} characters"


def arriving_lines(so_far: ArgumentsSoFar, rows: int, width: int, look: Look, colour: Colour) -> list[Line]:
    """Return the last lines of the text being written, at most `rows`."""
    style, sign = _SIGNS.get(so_far.part or "", ("", ""))
    room = max(width - len(sign), 1)
    end = so_far.end().removesuffix("\n")
    if not end.strip():
        return []
    texts = clean("\n".join(end.rsplit("\n", rows)[-rows:]), blank_lines=0).split("\n")[-rows:]
    texts[-1] = _fit_end(texts[-1], room, look.glyphs.ellipsis)
    if so_far.part == "patch":
        lines: list[Line] = [[(_DIFF_STYLES.get(text[:1], ""), text)] for text in texts]
    elif so_far.part in ("content", "command"):
        lines = [
            colour(text, _language(so_far)) for text in texts
        ]  # line by line, so that finished lines come from the cache
    else:
        lines = [[(style or "muted", sign + text)] for text in texts]
    return [fit_line(line, width, look.glyphs.ellipsis) for line in lines[:rows]]


def _language(so_far: ArgumentsSoFar) -> str:
    if so_far.part == "command":
        return "sh"
    return language_of(so_far.path)


def language_of(path: str) -> str:
    """Return the language of a file by its extension, "" when unknown."""
    ending = os.path.splitext(path)[1].lower().removeprefix(".")
    return _LANGUAGES.get(ending, ending) if ending.isascii() else ""


def _fit_end(text: str, width: int, ellipsis: str) -> str:
    """Return the end of a growing line that is too long."""
    return text if cells(text) <= width else ellipsis + text[-max(width // 2, 1) :]


LONG_LINE = 160
LONG_LINE_END = 40
"""A request shows the end of a line that is longer than `LONG_LINE`, this many characters of it."""
CHARS_PER_TOKEN = 4
MIN_WIDTH = 10
UNLIMITED = 1_000
RENDERED_CHARS = 4000
"""A longer open block is shown as plain text: parsing it 30 times a second would take too long."""
PLAIN_CHARS = 4096
"""At least this much of the end of such a block is shown, and at most twice as much is wrapped."""
DROPS_NOTE = " (Backspace drops it)"

Prose = Callable[[Markdown, int], list[Line]]
"""Renders unfinished Markdown as lines of a width."""


def plain_prose(block: Markdown, width: int) -> list[Line]:
    """Return Markdown as it was written."""
    text = block.text if block.fence is None else block.fence.code
    return [part for line in text.strip("\n").split("\n") for part in wrap([("", line)], width)]


def phase_text(state: ViewState, task: TaskView, now: float) -> str:
    """Describe in a few words what the task is doing; every figure comes from byte counts and clocks."""
    requests = [row for row in state.inbox if row.task_id == task.task_id]
    if requests:
        return f"waiting for you {words.whole_units(now - requests[0].since)}"
    if task.tools and any(
        row.kind == "question" and row.task_id == task.task_id for row in state.facts.queue
    ):
        since = next(iter(task.tools.values())).since
        return f"waiting for your answer {words.whole_units(now - since)}"
    if task.tools:
        return _running(task, now)
    quiet = now - task.heard_at
    silence = f", no bytes for {words.whole_units(quiet)}" if quiet >= QUIET_AFTER_S else ""
    match task.phase:
        case Loading(since=since, name=name):
            return f"loading {name} {words.whole_units(now - since)}"
        case WaitingPhase(since=since):
            return f"waiting for the model {words.whole_units(now - since)}"
        case ThinkingPhase(since=since, chars=chars):
            rate = chars / CHARS_PER_TOKEN / max(now - since, 0.5)
            return (
                f"thinking {words.whole_units(now - since)}{silence}"
                if silence
                else f"thinking {rate:.0f} tok/s"
            )
        case Writing():
            return "writing" + silence
        case Calling():
            return arriving_words(task.phase) + silence
        case Working(since=since):
            return f"working {words.whole_units(now - since)}"
        case Retrying(due=due, why=why, count=count):
            if now >= due:  # it is queued for its turn, and no event reports when it is sent
                return f"waiting for the model {words.whole_units(now - due)}"
            left = words.whole_units(due - now + 0.99)
            if not count:  # no attempt was sent yet
                return f"waiting {left} for the end of the {why}; /retry now asks at once"
            return f"retrying in {left} · {count} ({why})"
        case None:
            return "idle"


def _running(task: TaskView, now: float) -> str:
    first = next(iter(task.tools.values()))
    if len(task.tools) > 1:
        return f"running {len(task.tools)} tools {words.whole_units(now - first.since)}"
    title = one_line(first.title or first.call.name, TITLE_CELLS)
    last = f" ({one_line(first.last_line, TITLE_CELLS)})" if first.last_line else ""
    return f"running {title} {words.whole_units(now - first.since)}{last}"


def live_lines(
    state: ViewState,
    now: float,
    columns: int,
    room: int,
    look: Look,
    *,
    colour: Colour = plain_code,
    prose: Prose = plain_prose,
) -> list[Line]:
    """Return the unprinted part of the foreground answer, then a header for each running task with its last
    lines, all within `room` rows."""
    width = max(columns - 1, 10)
    running = state.running()
    own = _own_lines(state, now, width, look)[: room if not running else 1]
    tasks = _task_lines(state, running, now, width, room - len(own), look, colour)
    answer = _answer_lines(state, width, room - len(own) - len(tasks), prose)
    return [*answer, *tasks, *own]


def live_room(rows: int) -> int:
    """Return the rows the live region may take in a terminal of this height."""
    return max(rows // LIVE_ROWS_PART, 1)


def _answer_lines(state: ViewState, width: int, room: int, prose: Prose) -> list[Line]:
    """Return the open block of the foreground answer as it will be printed. Text longer than the room is
    turned like a page: lines keep their places until half of the room is needed."""
    task = state.tasks.get(state.focus)
    if task is None or not isinstance(task.phase, Writing) or room < 2:
        return []
    block = task.stream.open_block(RENDERED_CHARS)
    if block is not None:
        gap: list[Line] = [] if block.continues else [[]]
        lines = gap + prose(block, width)
    else:
        begin = (task.stream.open_chars // PLAIN_CHARS - 1) * PLAIN_CHARS
        lines = plain_prose(Markdown(task.stream.tail_end(task.stream.open_chars - max(begin, 0))), width)
        if not any(map(line_cells, lines)):
            return []
    if len(lines) <= room:
        return lines
    page = max(room // 2, 1)
    visible_lines = lines[-(-(len(lines) - room) // page) * page :]
    return visible_lines + [[]] * (room - len(visible_lines))


def _task_lines(
    state: ViewState,
    running: Sequence[TaskView],
    now: float,
    width: int,
    room: int,
    look: Look,
    colour: Colour,
) -> list[Line]:
    lines: list[Line] = []
    for index, task in enumerate(running):
        left = room - len(lines)
        if left == 1 and len(running) - index > 1:
            lines.append([("muted", f"and {format_count(len(running) - index, 'more running task')}")])
            break
        if left < 1:
            break
        lines.append(fit_line(_header(state, task, now, look), width, look.glyphs.ellipsis))
        reserved = len(running) - index - 1
        in_front = task.task_id == state.focus and isinstance(task.phase, Writing)
        rows = PREVIEW_LINES if len(running) == 1 else TASK_LINES
        tail = [] if in_front else _tail(task, width, look, colour, rows)
        lines += tail[len(tail) - max(0, min(len(tail), left - 1 - reserved)) :]
    return lines[: max(room, 0)]


def _own_lines(state: ViewState, now: float, width: int, look: Look) -> list[Line]:
    """Return the lines about the user's own commands, the latest first: that is the one Esc ends."""
    lines: list[Line] = []
    for row in reversed(state.facts.own):
        last = f" ({one_line(row.last_line, TITLE_CELLS)})" if row.last_line.strip() else ""
        about = f" {words.whole_units(now - row.since)}{last}"
        head: Line = [
            ("phase", look.glyphs.running + " "),
            ("bold", one_line(row.title, 60)),
            ("muted", about),
        ]
        lines.append(fit_line(head, width, look.glyphs.ellipsis))
    return lines


def _header(state: ViewState, task: TaskView, now: float, look: Look) -> Line:
    name = one_line(state.name(task.task_id), 40)
    many = len(state.tasks) > 1
    label = f"{task.task_id} {name}".rstrip() + f" {look.glyphs.dot} " if many else ""
    return [("phase", look.glyphs.running + " "), ("bold", label), ("muted", phase_text(state, task, now))]


def _tail(task: TaskView, width: int, look: Look, colour: Colour, preview_rows: int) -> list[Line]:
    """Return the last lines of the text being written."""
    if isinstance(task.phase, Calling):
        lines = arriving_lines(task.phase.so_far, preview_rows, width - 2, look, colour)
        return indent(lines, [("", "  ")], [("", "  ")])
    style, text = _open_text(task, width * (TASK_LINES + 1) * 2)
    wrapped: list[Line] = []
    for line in text.strip("\n").split("\n")[-TASK_LINES:] if text.strip() else ():
        wrapped += wrap([(style, line)], width - 2)
    return indent(wrapped[-TASK_LINES:], [("", "  ")], [("", "  ")])


def _open_text(task: TaskView, chars: int) -> tuple[str, str]:
    match task.phase:
        case ThinkingPhase(text=text):
            return "muted", clean(text)
        case Calling() | Loading() | WaitingPhase() | Writing() | Working() | Retrying() | None:
            return "", task.stream.tail_end(chars)


def inbox_lines(state: ViewState, now: float, columns: int, look: Look, room: int = UNLIMITED) -> list[Line]:
    """Return the waiting requests: the marked one as far as it fits, with its answers. In a low window it is
    shorter; the scrollback has all of it."""
    width = max(columns - 1, MIN_WIDTH)
    if not state.inbox or room < 1:
        return []
    forms = _forms_of_marked(state, now, width, look)
    lines: list[Line] = next(form for form in forms if len(form) <= room)
    for row in state.inbox[1 : QUEUE_ROWS + 1]:
        head = _head(row, now, look, width, is_marked=False)
        lines = [*lines, fit_line(head, width, look.glyphs.ellipsis)]
    missing = len(state.inbox) - QUEUE_ROWS - 1
    if missing > 0:
        lines.append([("warning", f"  and {format_count(missing, 'more request')} (/ok, /no)")])
    return lines[:room]


def _forms_of_marked(state: ViewState, now: float, width: int, look: Look) -> Iterator[list[Line]]:
    """Yield the forms of the marked row, the longest first; the last is a single line."""
    row, ellipsis = state.inbox[0], look.glyphs.ellipsis
    head = _head(row, now, look, width, is_marked=True)
    title = wrap(head, width)
    if len(title) > APPROVAL_LINES:
        missing = format_count(len(title) - APPROVAL_LINES + 1, "more line")
        title = [*title[: APPROVAL_LINES - 1], [("warning", f"  {missing} above in the scrollback")]]
    choices = _choices(state, row, brief=False)
    yield [*title, *_answer_rows(choices, width, look, _question_about(row.preview))]
    brief = _answer_rows(_choices(state, row, brief=True), width, look)
    yield [*title, *brief]
    first = fit_line(head, width, ellipsis)
    above: Line = fit_line([("muted", "  scroll up to see all of it")], width, ellipsis)
    yield [first, above, *brief]
    yield [first, fit_line([*brief[0], ("muted", f" {look.glyphs.dot} more above")], width, ellipsis)]
    keys = "/".join(key for key, _meaning in _choices(state, row, brief=True))
    sign: Line = [("marked", look.glyphs.marked + " "), ("key", f"{keys}? ")]
    yield [fit_line([*sign, ("", visible(row.title))], width, ellipsis)]


def _head(row: InboxRow, now: float, look: Look, width: int, *, is_marked: bool) -> Line:
    """Return a request's number, its task, and its title."""
    title = visible(row.title)
    size = len(row.preview.command) if isinstance(row.preview, Command) else len(row.title)
    length = f" [{size:,} characters]" if size > width else ""
    return [
        ("marked" if is_marked else "muted", f"{look.glyphs.marked if is_marked else ' '} {row.name} "),
        (f"risk.{row.risk}", row.risk),
        ("bold" if is_marked else "", f" {title}"),
        *_last_line(row.preview, look),
        ("muted", f"{length} {look.glyphs.dot} {words.whole_units(now - row.since)}"),
    ]


def _last_line(preview: Display, look: Look) -> Line:
    """Return the end of a command of several lines or of one long line; its title is the beginning."""
    if not isinstance(preview, Command):
        return []
    lines = [line for line in preview.command.split("\n") if line.strip()]
    if len(lines) < 2:
        end = preview.command.rstrip()[-LONG_LINE_END:]
        return [("bold", visible(end))] if len(preview.command) > LONG_LINE else []
    if len(lines) == 2:
        return [("warning", f" {look.glyphs.ellipsis} "), ("bold", visible(lines[-1]))]
    between = f" {format_count(len(lines) - 2, 'line')} "
    return [
        ("warning", f" {look.glyphs.ellipsis}{between}{look.glyphs.ellipsis} "),
        ("bold", visible(lines[-1])),
    ]


def _question_about(preview: Display) -> str:
    """Return the question that a yes answers."""
    match preview:
        case Diff(files=files):
            return "apply this edit?" if len(files) == 1 else "apply these edits?"
        case Command():
            return "run this?"
        case _:
            return "allow this?"


def _answer_rows(
    choices: Sequence[tuple[str, str]], width: int, look: Look, question: str = ""
) -> list[Line]:
    """Return the question and the keys that answer it; a key and its meaning stay on one line."""
    margin: Line = [("", "  ")]
    width -= 2
    lines: list[Line] = [[("", question)] if question else []]
    for at, (key, meaning) in enumerate(choices):
        choice: Line = [("key", key), ("muted", f" {meaning}")]
        if lines[-1] and line_cells([*lines[-1], *choice]) + 3 > width:
            lines.append([])
        if lines[-1]:
            lines[-1].append(("muted", f" {look.glyphs.dot} " if at else "  "))
        lines[-1] += choice
    return [part for line in lines for part in indent(wrap(line, width), margin, margin)]


def _choices(state: ViewState, row: InboxRow, *, brief: bool) -> list[tuple[str, str]]:
    """Return the keys that answer the marked request, with their meaning. While a question is open too, a
    letter needs the request's number."""
    asks = any(waiting.kind == "question" for waiting in state.facts.queue)
    number = f" {row.number}" if asks else ""
    no = (f"n{number}", "no" if brief else f"no (n{number} WORDS says why)")
    if row.folded:
        return [("Ctrl+O", f"shows {format_count(row.folded, 'more line')}, then y"), no]
    choices = [(f"y{number}", "yes")]
    if row.session:
        covered = "" if row.rule == row.session else f": {visible(row.session)}"
        choices.append((f"a{number}", "session" if brief else f"this session{covered}"))
    if row.rule:
        choices.append((f"p{number}", "always" if brief else f"always: {visible(row.rule)}"))
    front = state.tasks.get(state.focus)
    if row.task_id != state.focus and not brief and not (front is not None and front.is_running):
        return [*choices, no, ("Esc Esc", "no")]
    return [*choices, no]


def queue_lines(state: ViewState, columns: int, look: Look) -> list[Line]:
    """Return the questions that wait for an answer, and the texts that wait to be sent."""
    width = max(columns - 1, 10)
    rows = state.facts.queue
    notes = [row for row in rows if row.kind == "note"]
    lines: list[Line] = []
    for row in rows[:QUEUE_ROWS]:
        if row.kind == "question":
            asks: Line = [
                ("marked", "? "),
                ("", f"task {row.task_id} "),
                ("bold", one_line(row.text, 300)),
            ]
            lines.append(_fit_with_end(asks, row.answer_hint, width, look))
            continue
        addressee = f" @{row.task_id}" if row.task_id != state.focus else ""
        kind = {
            "steer": f"next{addressee}",
            "queue": f"queued{addressee}",
            "note": "goes with your next prompt",
        }
        line: Line = [
            ("muted", f"{look.glyphs.arrow} {kind[row.kind]}: "),
            ("", one_line(row.text, 300)),
        ]
        lines.append(_fit_with_end(line, DROPS_NOTE if notes and row is notes[-1] else "", width, look))
    if len(rows) > QUEUE_ROWS:
        lines.append([("muted", f"  and {len(rows) - QUEUE_ROWS} more")])
    return lines


def _fit_with_end(line: Line, end: str, width: int, look: Look) -> Line:
    """Fit a line whose end must stay readable however long the rest is."""
    beginning = fit_line(line, max(width - cells(end), 10), look.glyphs.ellipsis)
    return fit_line([*beginning, ("muted", end)], width, look.glyphs.ellipsis)
