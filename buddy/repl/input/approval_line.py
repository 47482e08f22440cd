"""Decide whether a typed line answers a request for approval. Pure.

A key is never stolen: only a whole line answers, one that is exactly `y`, `a`, `p` or `n`, one of them with a
request's number (`y 3`), or `n` with words for the model. It answers only a request that was on the screen
long enough before the line was begun, and of which nothing is folded away. The same holds for `/ok`, however
it is written and with a time, and for `/ok all` about every row: neither says yes to what came while it was
being typed.

Pasted text never answers. A terminal puts a paste in brackets, so a single read of exactly `y` and Enter,
with nothing before and nothing behind it, is two keys that a slow line, a key macro or `tmux send-keys`
brought together: it approves that one call, nothing that lasts (`a`, `p`, a command). Terminals known not to
bracket pastes are not trusted with it, and a pasted `y` and line feed holds no Enter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from buddy.agent.formatting import format_count
from buddy.agent.lazy_regex import pattern
from buddy.repl.intents import ApprovalAnswer, ApprovalKey
from buddy.repl.view.state import InboxRow

SEEN_BEFORE_S = 0.3
HUMAN_S = 0.012
"""Key and Enter within this time arrived together: a paste through a terminal without paste mode."""

_KEYS: dict[str, ApprovalKey] = {"y": "once", "a": "session", "p": "rule", "n": "denied"}
_LETTER = pattern(r"(?P<key>[yapn])(?:\s+(?P<number>\d{1,9}))?")
_REASONED = pattern(r"n\s+(?:(?P<number>\d{1,9})\s+)?(?P<words>\S.*)")
_TOGETHER = ("y", "n")
"""Letters that answer also when they came together with Enter: they are about one call and do not last."""

_ANSWERING = frozenset({"ok", "no", "approve", "mode", "trust"})


class TypedLine(msgspec.Struct, frozen=True):
    """A line as it was entered. `begun_at` is when its first character came; `came` is what came in one piece
    with Enter, "" where Enter was a key of its own."""

    text: str
    pasted: bool
    begun_at: float
    sent_at: float
    came: str = ""


class Waiting(msgspec.Struct, frozen=True):
    """Open requests, the oldest first, and whether a model's question is open."""

    rows: Sequence[InboxRow]
    question: bool = False

    def by_number(self, number: str) -> InboxRow | None:
        """Return the request of a number."""
        return next((row for row in self.rows if str(row.number) == number), None)


Refused = Literal["too soon", "pasted", "no rule", "folded", "which"]


def answer_of(line: TypedLine, waiting: Waiting) -> ApprovalAnswer | Refused | None:
    """Return the answer a line gives to a request, the reason it gives none although it looks like one, or
    None when it is no answer at all."""
    if not waiting.rows:
        return None
    text = line.text.strip()
    if text == "/ok":
        return _check(line, waiting, waiting.rows[0], "once", "", named=True)
    if letter := _LETTER().fullmatch(text):
        row = waiting.by_number(letter["number"]) if letter["number"] else waiting.rows[0]
        if row is not None:
            return _check(line, waiting, row, _KEYS[letter["key"]], "", named=bool(letter["number"]))
        return "which" if letter["key"] != "n" else None
    if (reasoned := _REASONED().fullmatch(text)) and not line.pasted:
        row = waiting.by_number(reasoned["number"]) if reasoned["number"] else None
        words = reasoned["words"] if row is not None else text[1:].strip()
        return _check(line, waiting, row or waiting.rows[0], "denied", words, named=row is not None)
    return None


def _check(
    line: TypedLine, waiting: Waiting, row: InboxRow, key: ApprovalKey, words: str, *, named: bool
) -> ApprovalAnswer | Refused:
    if _came_at_once(line):
        return "pasted"
    if waiting.question and not named and not words:
        return "which"
    seen_at = row.marked_at if row is waiting.rows[0] else row.drawn_at
    if seen_at is None or line.begun_at - seen_at < SEEN_BEFORE_S:
        return "too soon"
    if row.folded and key != "denied":
        return "folded"
    if (key == "session" and not row.session) or (key == "rule" and not row.rule):
        return "no rule"
    return ApprovalAnswer(row.request_id, row.digest, key, words)


def refusal_of(line: TypedLine, waiting: Waiting) -> Refused | None:
    """Return the reason a command that answers requests, or changes what will be asked, is refused while some
    wait; None for every other line, for a no, whose words may well be pasted, and when it may."""
    text, rows = line.text.strip(), waiting.rows
    if not rows or not text.startswith("/") or not answers(text) or _is(text, "no"):
        return None
    if _came_at_once(line):
        return "pasted"
    if not _is(text, "ok"):
        return None
    named = text.lower().split()[1:2]
    about = [rows[0]]
    seen = [rows[0].marked_at]
    if named == ["all"]:
        about, seen = list(rows), [row.drawn_at for row in rows]
    elif named and named[0].isdecimal():  # a number names what was read
        about, seen = [row for row in rows if row is waiting.by_number(named[0])], []
    if any(at is None or line.begun_at - at < SEEN_BEFORE_S for at in seen):
        return "too soon"
    return "folded" if any(row.folded for row in about) else None


def _is(command: str, name: str) -> bool:
    return name.startswith(command.removeprefix("/").split(None, 1)[0].lower())


def came_whole(line: TypedLine) -> bool:
    """Tell whether the whole line arrived at once with Enter: pasted without bracketed paste, or sent by a
    program."""
    return bool(line.came) and line.came.endswith(line.text)


def _came_at_once(line: TypedLine) -> bool:
    if line.pasted:
        return True
    if came_whole(line):
        return line.came not in _TOGETHER
    return line.sent_at - line.begun_at < HUMAN_S


def letters_only(text: str) -> bool:
    """Tell whether every line of a text would answer a request; such a paste is refused and not sent to the
    model."""
    return all(line.strip() in _KEYS for line in text.strip().split("\n"))


def is_reasoned_no(text: str) -> bool:
    """Tell whether a line is a refusal with a reason for the model."""
    return _REASONED().fullmatch(text.strip()) is not None


def is_letter(text: str) -> bool:
    """Tell whether a line is nothing but an answer to a request."""
    return _LETTER().fullmatch(text.strip()) is not None


def answers(command: str) -> bool:
    """Tell whether a command line answers requests, now or in advance."""
    name = command.removeprefix("/").split(None, 1)[:1]
    return bool(name) and any(one.startswith(name[0].lower()) for one in _ANSWERING)  # beginnings work, too


def denial_of(row: InboxRow, now: float) -> ApprovalAnswer | Refused:
    """Return the answer to the marked row for Esc on an empty line while nothing runs in front: no, to this
    row alone. The next row must be marked on the screen for as long before another Esc counts for it."""
    if row.marked_at is None or now - row.marked_at < SEEN_BEFORE_S:
        return "too soon"
    return ApprovalAnswer(row.request_id, row.digest, "denied")


def refusal(why: Refused, line: TypedLine, waiting: Waiting) -> str:
    """Explain why a line that looked like an answer was not taken as one."""
    match why:
        case "too soon":
            return "Not answered: the request came while you typed. Answer again."
        case "pasted" if is_letter(line.text) and not line.pasted:
            return "Not approved: y and Enter came as one paste. Press y, then Enter."
        case "pasted":
            return "Not answered: pasted text never answers a request. Type it."
        case "no rule":
            return "Not answered: nothing can be remembered for this call. y or n."
        case "folded":
            row = next((row for row in waiting.rows if row.folded), waiting.rows[0])
            return (
                f"Not approved: {format_count(row.folded, 'line')} not shown. Ctrl+O shows them, then answer."
            )
        case "which" if waiting.question:
            number = waiting.rows[0].number
            return f"A request and a question wait. y {number} or n {number} is about the request."
        case "which":
            numbers = ", ".join(str(row.number) for row in waiting.rows)
            return f"No request has that number. Waiting: {numbers}"


NOTHING_WAITS = "Nothing waits for an answer. Enter again sends '{}' to the model."
SPELLED_OUT = "Not answered: only {} and Enter does. Enter again sends '{}' to the model."
_SPELLED_OUT = {"yes": "y", "ok": "y", "okay": "y", "y": "y", "no": "n", "n": "n"}


def doubt_of(text: str, waiting: Waiting) -> str:
    """Return the reason a line that is no answer is sent only by a second Enter: a letter while nothing
    waits, or an answer spelled out, which would withdraw the request it was meant for; "" for every other
    line."""
    text = text.strip()
    if is_letter(text):
        return "" if waiting.rows or waiting.question else NOTHING_WAITS.format(text)
    letter = _SPELLED_OUT.get(text.rstrip(".!").lower())
    if letter is None or not waiting.rows or waiting.question:
        return ""
    return SPELLED_OUT.format(letter, text)
