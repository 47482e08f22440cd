"""The lines around the input: waiting requests, hints, key help and the footer. Pure except for `Bars`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from buddy.agent.events import TokenUsage
from buddy.agent.formatting import format_count
from buddy.repl.input.approval_line import is_letter, is_reasoned_no
from buddy.repl.input.keys import KEY_HELP
from buddy.repl.intents import Prompt, ToTask, is_new_task, parse_line
from buddy.repl.render import numbers as words
from buddy.repl.render.style import Line, Look
from buddy.repl.render.text import cells, fit, fit_line, line_cells, wrap
from buddy.repl.screen.output import FrameOutput
from buddy.repl.screen.terminal_status import Announcer
from buddy.repl.view.blocks import ApprovalAsked, Block, Expanded
from buddy.repl.view.live import (
    Colour,
    Prose,
    inbox_lines,
    live_lines,
    live_room,
    plain_code,
    plain_prose,
    queue_lines,
)
from buddy.repl.view.state import SessionFacts, ViewState
from buddy.repl.view.view import focus
from buddy.safety.sanitise import one_line
from buddy.workspace.sandbox.status import SandboxStatus

OWN_ROWS = 3
"""The rule, one row of input and the footer, which stay however low the terminal is."""

HINT_PART = 4
"""A hint takes at most a quarter of the rows."""


def top_lines(
    state: ViewState,
    now: float,
    columns: int,
    rows: int,
    look: Look,
    *,
    colour: Colour = plain_code,
    prose: Prose = plain_prose,
) -> list[Line]:
    """Return the lines above the input. Without enough room, live lines go first, then the queue; a request
    is shortened and takes the place of the rule."""
    room = max(rows - OWN_ROWS, 0)
    has_rule = room > 0 or not state.inbox  # a request is more important than the rule
    room = max(room, 1 if state.inbox else 0)
    inbox = inbox_lines(state, now, columns, look, room)
    queue = queue_lines(state, columns, look)[: room - len(inbox)]
    left = min(room - len(inbox) - len(queue), live_room(rows))
    live = live_lines(state, now, columns, left, look, colour=colour, prose=prose)
    rule: list[Line] = [[("rule", look.glyphs.rule * max(columns - 1, 1))]] if has_rule else []
    return [*live, *inbox, *queue, *rule]


def hint_lines(text: str, hint: str, columns: int, rows: int, look: Look, *, steers: str = "") -> list[Line]:
    """Return the lines between the input and the footer. `steers` describes the effect Enter would have on a
    waiting request."""
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
        return wrap([("muted", look.with_glyphs(steers))], width)[: max(rows // HINT_PART, 1)]
    return []


def steer_hint(state: ViewState, text: str) -> str:
    """Warn that a typed line would withdraw the request of its task; "" when it would not."""
    if not state.inbox or state.facts.enter_queues or not text.strip():
        return ""
    if is_letter(text.strip()) or is_reasoned_no(text):
        return ""
    match parse_line(text, typed=True):
        case Prompt():
            task_id = state.focus
        case ToTask(task_id, aside=False):
            pass
        case _:
            return ""
    asks = any(row.kind == "question" and row.task_id == task_id for row in state.facts.queue)
    if asks or not any(row.task_id == task_id for row in state.inbox):
        return ""
    queues = " · Tab queues" if task_id == state.focus else ""
    return f"Enter steers task {task_id} and withdraws its request{queues}"


def key_help(width: int, room: int) -> list[Line]:
    """Return the key table in as many columns as fit."""
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


CONTEXT_WARNING = 0.8
TYPING, SIGN_CELLS = "INSERT", 7
"""vi's mode that needs no emphasis, and the cells of the longest sign."""
MODEL_CELLS, SHORT_MODEL_CELLS, SHORTEST_MODEL_CELLS = 40, 20, 10
REASON_CELLS = 20
BRANCH_CELLS = 24
TARGET_CELLS = 24
KEYS = "? keys"
_BARE_MODEL, _SHORT_MODEL, _SHORT_WORDS, _SHORTEST = range(1, 5)
"""Steps of shortening before any part is dropped: the model's name first, then the words."""


class _Part(msgspec.Struct, frozen=True):
    """One fact of the footer.

    Where there is no room the part of the highest `rank` is dropped first, rank 0 never. `short` holds the
    shorter texts, each with the step from which it is used; `filling` takes the room that is left at the last
    step.
    """

    rank: int
    style: str
    text: str
    short: tuple[tuple[int, str], ...] = ()
    filling: str = ""

    def at(self, step: int) -> str:
        """Return the text at a step of shortening."""
        return next((text for since, text in reversed(self.short) if since <= step), self.text)


def footer_line(state: ViewState, columns: int, look: Look, *, beside: bool = False) -> Line:
    """Return the footer. In a narrow terminal, names and words are shortened before the least important part
    is dropped; `beside` leaves room for vi's sign."""
    width = max(columns - 1 - (SIGN_CELLS + 3 if beside else 0), 10)
    parts = _parts(state, look)
    while True:
        for step in range(_SHORTEST + 1):
            left = width - _width(parts, step)
            if left >= 0:
                return _with_keys(_join(parts, step, look, left), width, look)
        if len(parts) < 2:
            return fit_line(_join(parts, _SHORTEST, look, 0), width, look.glyphs.ellipsis)
        parts.remove(max(parts, key=lambda part: part.rank))


def _with_keys(line: Line, width: int, look: Look) -> Line:
    """Add the hint for the key list where room is left: nothing is shortened for it."""
    more: Line = [("muted", f" {look.glyphs.dot} " if line else ""), ("muted", KEYS)]
    return [*line, *more] if line_cells([*line, *more]) <= width else line


def with_sign(footer: Line, sign: str, look: Look) -> Line:
    """Return the footer after the sign of vi's mode, if there is one."""
    if not sign:
        return footer
    return [("muted" if sign == TYPING else "key", sign), ("muted", f" {look.glyphs.dot} "), *footer]


def _parts(state: ViewState, look: Look) -> list[_Part]:
    """Return all parts in display order. The ranks drop first what is shown elsewhere too (keys, sandbox,
    trust, running tasks), then numbers, then model and mode."""
    facts = state.facts
    asking = {row.task_id for row in state.inbox}
    asking |= {row.task_id for row in facts.queue if row.kind == "question"}
    running = sum(task.task_id not in asking for task in state.running())  # each task counts once
    parts = [
        _waiting(len(state.inbox), sum(row.kind == "question" for row in facts.queue)),
        _Part(1, "bold" if facts.mode != "yolo" else "error", one_line(facts.mode, 20)),
        # As important as the mode: everything the task does, it does there.
        _Part(0, "phase", f"on {one_line(facts.target, TARGET_CELLS)}" if facts.target else ""),
        _model(facts.model, look.glyphs.ellipsis),
        _Part(9, "", "" if facts.target else one_line(facts.branch, BRANCH_CELLS)),
        *(_numbers(facts.usage, look) if facts.usage is not None else ()),
        _Part(
            7,
            "phase",
            f"{format_count(running, 'task')} running" if running else "",
            ((_SHORT_WORDS, f"{running} running"),),
        ),
        # The sandbox is this machine's: over there nothing confines a command.
        *(() if facts.target else (_sandbox(facts.sandbox),)),
        *_warnings(facts),
    ]
    return [part for part in parts if part.text]


def _sandbox(sandbox: SandboxStatus) -> _Part:
    """Return the sandbox part, without a warning style: the first approval has warned in words."""
    if sandbox.is_missing:
        return _Part(3, "", sandbox.short, ((_SHORT_WORDS, "no sbx"),))
    return _Part(10, "", sandbox.short)


def _waiting(approvals: int, questions: int) -> _Part:
    """Return the footer part for waiting approvals and questions."""
    both = (format_count(approvals, "approval"), format_count(questions, "question"))
    text = " and ".join(words for words, count in zip(both, (approvals, questions), strict=True) if count)
    kind = "waiting" if approvals and questions else "to approve" if approvals else "to answer"
    count = approvals + questions
    short = ((_SHORT_WORDS, f"{count} {kind}"), (_SHORTEST, f"{count} waiting"))
    return _Part(0, "marked", f"{text} waiting" if text else "", short)


def _model(name: str, ellipsis: str) -> _Part:
    """Return the model's name; shortened, first without the provider, then its beginning: the end is a date
    or a variant."""
    whole = one_line(name, MODEL_CELLS)
    bare = one_line(name.rpartition("/")[2] or name, MODEL_CELLS)
    short, shortest = (fit(bare, size, ellipsis) for size in (SHORT_MODEL_CELLS, SHORTEST_MODEL_CELLS))
    return _Part(2, "", whole, ((_BARE_MODEL, bare), (_SHORT_MODEL, short), (_SHORTEST, shortest)), bare)


def _numbers(usage: TokenUsage, look: Look) -> list[_Part]:
    parts: list[_Part] = []
    if usage.context_tokens and usage.context_limit:
        share = usage.context_tokens / usage.context_limit
        style = "warning" if share >= CONTEXT_WARNING else ""
        parts.append(_Part(4, style, f"{share:.0%} context", ((_SHORT_WORDS, f"{share:.0%} ctx"),)))
    tokens = usage.total.input_tokens + usage.total.output_tokens
    if tokens and look.numbers:
        short_count = words.tokens(tokens)
        full_count = words.token_count(tokens)
        parts.append(_Part(6, "", full_count, ((_SHORT_WORDS, f"{short_count} tok"),)))
        parts.append(_Part(5, "", words.cost(usage.cost_usd, known=usage.cost_known)))
    return parts


def _warnings(facts: SessionFacts) -> list[_Part]:
    """Return the footer's warnings: NOT SAVED, automatic approvals, and a folder that is not trusted."""
    parts = [_Part(0, "warning", one_line(text, 60), _without_reason(text)) for text in facts.extra]
    if facts.untrusted:
        parts.append(_Part(8, "warning", "not trusted: /trust", ((_SHORT_WORDS, "not trusted"),)))
    return parts


def _without_reason(text: str) -> tuple[tuple[int, str], ...]:
    """Return `NOT SAVED: a long reason` without the reason, which was printed when it happened."""
    return ((_SHORT_WORDS, one_line(text.partition(":")[0])),) if len(text) > REASON_CELLS else ()


def _width(parts: list[_Part], step: int) -> int:
    return sum(cells(part.at(step)) for part in parts) + 3 * (len(parts) - 1)


def _join(parts: list[_Part], step: int, look: Look, left: int) -> Line:
    line: Line = []
    for part in parts:
        if line:
            line.append(("muted", f" {look.glyphs.dot} "))
        text = part.at(step)
        if part.filling and step == _SHORTEST:
            text = fit(part.filling, cells(text) + left, look.glyphs.ellipsis)
        line.append((part.style or "muted", text))
    return line


HINT_S = 4.0
LOW_ROWS = 6
"""In a window this low a hint replaces the footer."""
LEAST_ROWS = 3
"""A request, the input and the footer: in a lower window no request is visible."""


class Bars:
    """The lines above and below the input, and the terminal's title and notifications."""

    def __init__(
        self,
        state: ViewState,
        output: FrameOutput,
        *,
        look: Look,
        clock: Callable[[], float],
        facts: Callable[[], SessionFacts],
        announcer: Announcer,
        sign: Callable[[], str] = lambda: "",
        colour: Colour = plain_code,
        prose: Prose = plain_prose,
    ) -> None:
        self._state = state
        self._output = output
        self._look = look
        self._clock = clock
        self._facts = facts
        self._announcer = announcer
        self._sign = sign
        self._colour, self._prose = colour, prose
        self._top: list[Line] = []
        self._footer: Line = []
        self._hint, self._hint_until = "", 0.0

    def refresh(self, show: Callable[[Sequence[Block]], None]) -> tuple[int, bool]:
        """Update the lines before a frame; return the number of rows above the input and whether they change
        by themselves. `show` prints the blocks of a task that comes to the foreground."""
        blocks = focus(self._state, self._facts())
        if blocks:
            show(blocks)
        size = self._output.get_size()
        now = self._clock()
        hints = hint_lines("", self._current_hint(), size.columns, size.rows, self._look)
        self._top = top_lines(
            self._state,
            now,
            size.columns,
            size.rows - (len(hints) if size.rows > LOW_ROWS else 0),
            self._look,
            colour=self._colour,
            prose=self._prose,
        )
        self._footer = footer_line(self._state, size.columns, self._look, beside=bool(self._sign()))
        self._announcer.announce()
        live = self._state.running() or self._state.facts.own
        ticks = bool(live or self._state.inbox or now < self._hint_until)
        return len(self._top), ticks

    def note_seen(self, unprinted: Iterable[Block]) -> None:
        """Mark requests as seen after a frame reached the terminal, except those whose full text still waits
        to be printed."""
        if not self._state.inbox or self._output.get_size().rows < LEAST_ROWS:
            return
        now = self._clock()
        waiting = (block.block if isinstance(block, Expanded) else block for block in unprinted)
        unseen = {block.request_id for block in waiting if isinstance(block, ApprovalAsked)}
        for index, row in enumerate(self._state.inbox):
            if row.request_id in unseen:
                continue
            row.drawn_at = now if row.drawn_at is None else row.drawn_at
            if index == 0 and row.marked_at is None:
                row.marked_at = now

    def restyle(self, look: Look) -> None:
        """Use another look from the next frame on."""
        self._look = look

    def hint(self, text: str) -> None:
        """Show a line above the footer for a few seconds."""
        self._hint, self._hint_until = text, self._clock() + HINT_S

    def _current_hint(self) -> str:
        return self._hint if self._clock() < self._hint_until else ""

    def top(self) -> list[Line]:
        """Return the lines above the input."""
        return self._top

    def below(self, text: str) -> list[Line]:
        """Return the lines below the input with this text. The footer is that of the last frame: a key
        changes only vi's sign in it."""
        size = self._output.get_size()
        steers = steer_hint(self._state, text)
        hints = hint_lines(text, self._current_hint(), size.columns, size.rows, self._look, steers=steers)
        if hints and size.rows <= LOW_ROWS:
            return hints
        return [*hints, with_sign(self._footer, self._sign(), self._look)]
