"""The footer: mode, model, context, tokens, cost, running tasks, waiting approvals, sandbox. Pure."""

from __future__ import annotations

from buddy.agent.counting import counted
from buddy.agent.events import TokenUsage
from buddy.repl import words
from buddy.repl.style import Line, Look
from buddy.repl.view_state import ViewState
from buddy.repl.width import fit_line, line_cells
from buddy.safety.sanitise import one_line

CONTEXT_WARNING = 0.8
TYPING, SIGN_CELLS = "INSERT", 7
"""The sign of the mode that needs no notice; the length of the longest one."""


def footer_line(state: ViewState, columns: int, look: Look, *, beside: bool = False) -> Line:
    """One line. Where the terminal is narrow the least important words go first; `beside`: with room for
    vi's sign."""
    width = max(columns - 1 - (SIGN_CELLS + 3 if beside else 0), 10)
    parts = _parts(state, look)
    while len(parts) > 1 and _width(parts) > width:
        parts.remove(max(parts, key=lambda part: part[0]))
    return fit_line(_joined(parts, look), width, look.glyphs.ellipsis)


def with_sign(footer: Line, sign: str, look: Look) -> Line:
    """The footer behind the sign of vi's mode, where there is one."""
    if not sign:
        return footer
    return [("muted" if sign == TYPING else "key", sign), ("muted", f" {look.glyphs.dot} "), *footer]


def _parts(state: ViewState, look: Look) -> list[tuple[int, str, str]]:
    """(how dispensable, style, text), in the order they are shown."""
    desk = state.desk
    parts: list[tuple[int, str, str]] = []
    if state.inbox:
        parts.append((0, "marked", counted(len(state.inbox), "approval") + " waiting"))
    questions = sum(row.kind == "question" for row in desk.queue)
    if questions:
        parts.append((0, "marked", counted(questions, "question") + " waiting"))
    parts.append((1, "bold" if desk.mode != "yolo" else "error", one_line(desk.mode, 20)))
    parts.append((3, "", one_line(desk.model, 40)))
    if desk.usage is not None:
        parts += [part for part in _numbers(desk.usage) if look.numbers or "context" in part[2]]
    running = len(state.running())
    if running:
        parts.append((2, "phase", counted(running, "task") + " running"))
    parts.append((4, "error" if "NONE" in desk.sandbox else "", one_line(desk.sandbox, 40)))
    parts += [(0, "warning", one_line(text, 60)) for text in desk.extra]  # NOT SAVED, yes to all questions
    return [part for part in parts if part[2]]


def _numbers(usage: TokenUsage) -> list[tuple[int, str, str]]:
    tokens = usage.total.input_tokens + usage.total.output_tokens
    parts: list[tuple[int, str, str]] = []
    if usage.context_tokens and usage.context_limit:
        share = usage.context_tokens / usage.context_limit
        parts.append((4, "warning" if share >= CONTEXT_WARNING else "", f"{share:.0%} context"))
    if tokens:
        parts.append((6, "", f"{words.tokens(tokens)} tokens"))
        if usage.cost_known:
            parts.append((5, "", words.money(usage.cost_usd)))
    return parts


def _width(parts: list[tuple[int, str, str]]) -> int:
    return line_cells([(style, text) for _order, style, text in parts]) + 3 * (len(parts) - 1)


def _joined(parts: list[tuple[int, str, str]], look: Look) -> Line:
    line: Line = []
    for _order, style, text in parts:
        if line:
            line.append(("muted", f" {look.glyphs.dot} "))
        line.append((style or "muted", text))
    return line
