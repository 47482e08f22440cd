"""The footer: mode, model, context, tokens, cost, running tasks, waiting approvals, sandbox. Pure."""

from __future__ import annotations

import msgspec

from buddy.agent.counting import counted
from buddy.agent.events import TokenUsage
from buddy.repl import words
from buddy.repl.style import Line, Look
from buddy.repl.view_state import DeskFacts, ViewState
from buddy.repl.width import cells, fit, fit_line, line_cells
from buddy.safety.sanitise import one_line
from buddy.workspace.sandbox.status import SandboxStatus

CONTEXT_WARNING = 0.8
TYPING, SIGN_CELLS = "INSERT", 7
"""The sign of the mode that needs no notice; the length of the longest one."""
MODEL_CELLS, SHORT_MODEL_CELLS, SHORTEST_MODEL_CELLS = 40, 20, 10
REASON_CELLS = 20
BRANCH_CELLS = 24
KEYS = "? keys"
_BARE_MODEL, _SHORT_MODEL, _SHORT_WORDS, _SHORTEST = range(1, 5)
"""How much is shortened, step by step, before anything goes: the model's name first, then the words."""


class _Part(msgspec.Struct, frozen=True):
    """One fact of the footer. `rank`: the highest goes first where there is no room, none of rank 0 ever;
    `short`: what it is from which step on, the longest first; `filling`: what takes the room that is left
    at the last step."""

    rank: int
    style: str
    text: str
    short: tuple[tuple[int, str], ...] = ()
    filling: str = ""

    def at(self, step: int) -> str:
        """The text when so much is shortened."""
        return next((text for since, text in reversed(self.short) if since <= step), self.text)


def footer_line(state: ViewState, columns: int, look: Look, *, beside: bool = False) -> Line:
    """One line. Where the terminal is narrow, names and words are shortened before the least important go;
    `beside`: with room for vi's sign."""
    width = max(columns - 1 - (SIGN_CELLS + 3 if beside else 0), 10)
    parts = _parts(state, look)
    while True:
        for step in range(_SHORTEST + 1):
            left = width - _width(parts, step)
            if left >= 0:
                return _with_keys(_joined(parts, step, look, left), width, look)
        if len(parts) < 2:
            return fit_line(_joined(parts, _SHORTEST, look, 0), width, look.glyphs.ellipsis)
        parts.remove(max(parts, key=lambda part: part.rank))


def _with_keys(line: Line, width: int, look: Look) -> Line:
    """The footer with the way to the list of keys, where room is left: nothing is shortened for it."""
    more: Line = [("muted", f" {look.glyphs.dot} " if line else ""), ("muted", KEYS)]
    return [*line, *more] if line_cells([*line, *more]) <= width else line


def with_sign(footer: Line, sign: str, look: Look) -> Line:
    """The footer behind the sign of vi's mode, where there is one."""
    if not sign:
        return footer
    return [("muted" if sign == TYPING else "key", sign), ("muted", f" {look.glyphs.dot} "), *footer]


def _parts(state: ViewState, look: Look) -> list[_Part]:
    """All there is to say, in the order it is shown. What is said elsewhere too goes first: the keys, a
    sandbox, the trust question, what runs; then the numbers, then who answers in which mode."""
    desk = state.desk
    running = len(state.running())
    parts = [
        _waiting(len(state.inbox), sum(row.kind == "question" for row in desk.queue)),
        _Part(1, "bold" if desk.mode != "yolo" else "error", one_line(desk.mode, 20)),
        _model(desk.model, look.glyphs.ellipsis),
        _Part(9, "", one_line(desk.branch, BRANCH_CELLS)),
        *(_numbers(desk.usage, look) if desk.usage is not None else ()),
        _Part(
            7,
            "phase",
            f"{counted(running, 'task')} running" if running else "",
            ((_SHORT_WORDS, f"{running} running"),),
        ),
        _sandbox(desk.sandbox),
        *_warnings(desk),
    ]
    return [part for part in parts if part.text]


def _sandbox(sandbox: SandboxStatus) -> _Part:
    """No alarm: that there is none was said in words at the first approval. It stays as long as the mode."""
    if sandbox.is_missing:
        return _Part(3, "", sandbox.short, ((_SHORT_WORDS, "no sbx"),))
    return _Part(10, "", sandbox.short)


def _waiting(approvals: int, questions: int) -> _Part:
    """Return the footer part for waiting approvals and questions."""
    both = (counted(approvals, "approval"), counted(questions, "question"))
    text = " and ".join(one for one, count in zip(both, (approvals, questions), strict=True) if count)
    kind = "waiting" if approvals and questions else "to approve" if approvals else "to answer"
    count = approvals + questions
    short = ((_SHORT_WORDS, f"{count} {kind}"), (_SHORTEST, f"{count} waiting"))
    return _Part(0, "marked", f"{text} waiting" if text else "", short)


def _model(name: str, ellipsis: str) -> _Part:
    """The name without who serves it, then its beginning: what follows is a date or a variant."""
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
        said = words.tokens(tokens)
        counted_ = words.token_count(tokens)
        parts.append(_Part(6, "", counted_, ((_SHORT_WORDS, f"{said} tok"),)))
        parts.append(_Part(5, "", words.cost(usage.cost_usd, known=usage.cost_known)))
    return parts


def _warnings(desk: DeskFacts) -> list[_Part]:
    """Return the footer's warnings: NOT SAVED, yes to all questions, and the folder that is not trusted."""
    parts = [_Part(0, "warning", one_line(text, 60), _without_reason(text)) for text in desk.extra]
    if desk.untrusted:
        parts.append(_Part(8, "warning", "not trusted: /trust", ((_SHORT_WORDS, "not trusted"),)))
    return parts


def _without_reason(text: str) -> tuple[tuple[int, str], ...]:
    """`NOT SAVED: a long reason` without the reason: that was printed when it came."""
    return ((_SHORT_WORDS, one_line(text.partition(":")[0])),) if len(text) > REASON_CELLS else ()


def _width(parts: list[_Part], step: int) -> int:
    return sum(cells(part.at(step)) for part in parts) + 3 * (len(parts) - 1)


def _joined(parts: list[_Part], step: int, look: Look, left: int) -> Line:
    line: Line = []
    for part in parts:
        if line:
            line.append(("muted", f" {look.glyphs.dot} "))
        text = part.at(step)
        if part.filling and step == _SHORTEST:
            text = fit(part.filling, cells(text) + left, look.glyphs.ellipsis)
        line.append((part.style or "muted", text))
    return line
