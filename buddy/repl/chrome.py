"""The lines around the input: what is live, what waits, the rule; hint, key help, footer. Pure."""

from __future__ import annotations

from buddy.repl.approvals import is_letter, reasoned_no
from buddy.repl.arriving import Colour, uncoloured
from buddy.repl.intents import Prompt, ToTask, is_new_task, parse_line
from buddy.repl.keys import KEY_HELP
from buddy.repl.live import Prose, inbox_lines, live_lines, live_room, plain_prose, queue_lines
from buddy.repl.style import Line, Look
from buddy.repl.view_state import ViewState
from buddy.repl.width import cells, fit_line, wrap

OWN_ROWS = 3
"""The rule, one row of input, the footer: they are kept however small the terminal is."""

HINT_PART = 4
"""A hint takes a quarter of the rows at most."""


def top_lines(
    state: ViewState,
    now: float,
    columns: int,
    rows: int,
    look: Look,
    *,
    colour: Colour = uncoloured,
    prose: Prose = plain_prose,
) -> list[Line]:
    """Draw what stands above the input. Where there is no room, live lines go first, then the queue; a
    request gets shorter, and takes the place of the rule."""
    room = max(rows - OWN_ROWS, 0)
    has_rule = room > 0 or not state.inbox  # a request goes before the rule
    room = max(room, 1 if state.inbox else 0)
    inbox = inbox_lines(state, now, columns, look, room)
    queue = queue_lines(state, columns, look)[: room - len(inbox)]
    left = min(room - len(inbox) - len(queue), live_room(rows))
    live = live_lines(state, now, columns, left, look, colour=colour, prose=prose)
    rule: list[Line] = [[("rule", look.glyphs.rule * max(columns - 1, 1))]] if has_rule else []
    return [*live, *inbox, *queue, *rule]


def hint_lines(text: str, hint: str, columns: int, rows: int, look: Look, *, steers: str = "") -> list[Line]:
    """Return the lines between the input and the footer for the current text. `steers`: the effect Enter
    would have on a waiting request."""
    width = max(columns - 1, 10)
    if text.strip() == "?":
        return key_help(width, max(rows - OWN_ROWS - 1, 1))
    if hint:
        line: Line = [("warning", hint)]
        room = rows // HINT_PART
        return wrap(line, width)[:room] if room > 1 else [fit_line(line, width, look.glyphs.ellipsis)]
    if is_new_task(text):
        return [[("phase", f"{look.glyphs.arrow} new task")]]
    if steers:
        return wrap([("muted", look.said(steers))], width)[: max(rows // HINT_PART, 1)]
    return []


def steer_hint(state: ViewState, text: str) -> str:
    """Say that a typed line would withdraw the request of the task it goes to; "" when it would not."""
    if not state.inbox or state.desk.enter_queues or not text.strip():
        return ""
    if is_letter(text.strip()) or reasoned_no(text):
        return ""
    match parse_line(text, typed=True):
        case Prompt():
            task_id = state.focus
        case ToTask(task_id, aside=False):
            pass
        case _:
            return ""
    asks = any(row.kind == "question" and row.task_id == task_id for row in state.desk.queue)
    if asks or not any(row.task_id == task_id for row in state.inbox):
        return ""
    queues = " · Tab queues" if task_id == state.focus else ""
    return f"Enter steers task {task_id} and withdraws its request{queues}"


def key_help(width: int, room: int) -> list[Line]:
    """The key table in as many columns as fit."""
    keys = max(cells(name) for name, _what in KEY_HELP) + 2
    size = keys + max(cells(what) for _name, what in KEY_HELP) + 2
    columns = max(1, min(2, width // size))
    per_column = -(-len(KEY_HELP) // columns)
    lines: list[Line] = []
    for row in range(min(per_column, room)):
        line: Line = []
        for name, what in KEY_HELP[row::per_column]:
            line += [("key", name.ljust(keys)), ("muted", what.ljust(size - keys))]
        lines.append(fit_line(line, width))
    return lines
