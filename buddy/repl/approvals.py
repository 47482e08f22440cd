"""When a typed line answers a request for approval. Pure.

A key is never stolen: only a whole line that is exactly `y`, `a`, `p` or `n` answers, it answers the marked
row, and only if that row was marked on the screen long enough before the line was begun. The same holds for
`/ok`, however it is written and with a time, and for `/ok all` about every row: neither says yes to what came
while it was being typed. Pasted text never answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from buddy.repl.intents import Answer, ApprovalKey
from buddy.repl.view_state import InboxRow

SEEN_BEFORE_S = 0.3
HUMAN_S = 0.012
"""Key and Enter within this time came in one piece: a paste through a terminal without paste mode."""

_KEYS: Mapping[str, ApprovalKey] = {"y": "once", "a": "session", "p": "rule", "n": "denied"}

_ANSWERING = frozenset({"ok", "no", "approve", "mode", "trust"})


class TypedLine(msgspec.Struct, frozen=True):
    """A line as it was entered. `begun_at` is when its first character came."""

    text: str
    pasted: bool
    begun_at: float
    sent_at: float


Refused = Literal["too soon", "pasted", "no rule"]


def answer_of(line: TypedLine, row: InboxRow | None) -> Answer | Refused | None:
    """The answer a line gives to the marked row; why it gives none although it looks like one; None when it
    is no answer at all."""
    text = line.text.strip()
    key = "once" if text == "/ok" else _KEYS.get(text)
    if key is None or row is None:
        return None
    if _came_at_once(line):
        return "pasted"
    if row.marked_at is None or line.begun_at - row.marked_at < SEEN_BEFORE_S:
        return "too soon"
    if (key == "session" and not row.session) or (key == "rule" and not row.rule):
        return "no rule"
    return Answer(row.request_id, row.digest, key)


def refused(line: TypedLine, rows: Sequence[InboxRow]) -> Refused | None:
    """Why a command that answers requests, or what will be asked, is not carried out while some wait; None
    for every other line, for a no, whose words may well be pasted, and when it may."""
    text = line.text.strip()
    if not rows or not text.startswith("/") or not answers(text) or _is(text, "no"):
        return None
    if _came_at_once(line):
        return "pasted"
    if not _is(text, "ok"):
        return None
    named = text.lower().split()[1:2]
    if named == ["all"]:
        seen = [row.drawn_at for row in rows]
    else:  # a number names what was read; without one it is about the marked row
        seen = [] if named and named[0].isdecimal() else [rows[0].marked_at]
    return "too soon" if any(at is None or line.begun_at - at < SEEN_BEFORE_S for at in seen) else None


def _is(command: str, name: str) -> bool:
    return name.startswith(command.removeprefix("/").split(None, 1)[0].lower())


def _came_at_once(line: TypedLine) -> bool:
    return line.pasted or line.sent_at - line.begun_at < HUMAN_S


def letters_only(text: str) -> bool:
    """Whether every line of a text would answer a request: pasted, it is refused, not sent to the model."""
    return all(line.strip() in _KEYS for line in text.strip().split("\n"))


def answers(command: str) -> bool:
    """Whether a command line answers requests, or what will be asked."""
    name = command.removeprefix("/").split(None, 1)[:1]
    return bool(name) and any(one.startswith(name[0].lower()) for one in _ANSWERING)  # beginnings work, too


def denial_of(row: InboxRow, now: float) -> Answer | Refused:
    """What Esc on an empty line says to the marked row while nothing runs in front: no, to this one alone.
    The next row has to be marked on the screen for as long before another Esc counts for it."""
    if row.marked_at is None or now - row.marked_at < SEEN_BEFORE_S:
        return "too soon"
    return Answer(row.request_id, row.digest, "denied")


REFUSALS: Mapping[Refused, str] = {
    "too soon": "not answered: the request was not on the screen yet when you began to type; type it again",
    "pasted": "not answered: pasted text never answers a request; type it",
    "no rule": "not answered: nothing can be remembered for this call; y or n",
}
