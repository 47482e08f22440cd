"""Repair of a message history, so that every provider accepts it. Pure.

A legal history begins with the person; no reply follows a reply directly; each call of a reply has exactly
one result, in the order of the calls, directly behind the reply; nothing is empty; a reply that was cut off
has no calls (they are never run, and their arguments may be half of a JSON text). Interruptions, damaged
files and edits by other programs break this; a provider then refuses the whole request.

A result belongs to the reply before it: many servers number their calls from zero in every reply, so a call
id is unique only within its reply.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import msgspec

from buddy.agent.messages import (
    INTERRUPTED_TEXT,
    NOT_RUN_TEXT,
    AssistantMessage,
    AssistantPart,
    Call,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    calls_of,
)

CUT_TEXT = "[interrupted]"
"""The text of a reply that was cut before its first content."""
MISSING_START_TEXT = "[the beginning of this conversation is missing]"
CONTINUE_TEXT = "[continue]"


class Repair(msgspec.Struct, frozen=True):
    """A legal history and `notes` on the changes, one sentence each. `not_run_calls` are the calls at the end
    that never began: a front end may offer them again (see `reopen_calls`)."""

    history: tuple[Message, ...]
    notes: tuple[str, ...]
    not_run_calls: tuple[Call, ...]


def repair_history(history: Sequence[Message], begun: AbstractSet[str]) -> Repair:
    """Make a history legal. A call without a result is answered with `INTERRUPTED_TEXT` when its id is in
    `begun`, else with `NOT_RUN_TEXT`. Nothing a person said is dropped or reordered. Idempotent."""
    return RepairedPrefix().repair(history, begun)


class RepairedPrefix:
    """Repairs a growing history incrementally: only new messages are examined.

    Everything before the last reply is final and kept. After a compaction, a reset or an undo the repair
    starts over: it compares the messages with those it saw, by identity, in C.
    """

    def __init__(self) -> None:
        self._seen: list[Message] = []
        self._done: list[Message] = []
        self._notes: list[str] = []

    def repair(self, history: Sequence[Message], begun: AbstractSet[str]) -> Repair:
        """Do the same as `repair_history`; the notes are those of all repairs in this history."""
        if len(history) < len(self._seen) or not all(map(operator.is_, self._seen, history)):
            self._seen, self._done, self._notes = [], [], []
        exchanges = _exchanges(history, len(self._seen))
        for exchange in exchanges[:-1]:
            messages, notes = _repair_exchange(exchange, begun, self._last())
            self._done += messages
            self._notes += notes
        self._seen += history[len(self._seen) : exchanges[-1].start]
        tail, tail_notes = _repair_exchange(exchanges[-1], begun, self._last())
        return Repair((*self._done, *tail), (*self._notes, *tail_notes), _not_run(exchanges[-1], tail))

    def _last(self) -> Message | None:
        return self._done[-1] if self._done else None


def reopen_calls(history: Sequence[Message], calls: Sequence[Call]) -> tuple[Message, ...]:
    """Return the history without the "not run" results at its end, so that `calls` can be judged and run
    after all. Results of other calls stay, and so does everything before them."""
    wanted = {call.id for call in calls}
    end = len(history)
    while end and _is_not_run(history[end - 1], wanted):
        end -= 1
    return tuple(history[:end])


def is_empty(message: Message) -> bool:
    """Tell whether a provider would refuse the message for having nothing in it. Results may be empty."""
    match message:
        case UserMessage():
            return not any(not isinstance(part, Text) or part.text.strip() for part in message.parts)
        case AssistantMessage():
            return not any(_says_something(part) for part in message.parts)
        case ToolMessage():
            return False


def _says_something(part: AssistantPart) -> bool:
    match part:
        case Text():
            return bool(part.text.strip())
        case Call() | ServerItem():
            return True
        case Thinking():
            return False


def _is_dropped(message: Message) -> bool:
    """Tell whether a message is empty and no cut reply: the part of one that was shown stays, even reasoning
    alone."""
    if not isinstance(message, AssistantMessage) or message.finish != "cut":
        return is_empty(message)
    return is_empty(message) and not any(
        isinstance(part, Thinking) and part.text.strip() for part in message.parts
    )


class _Exchange(msgspec.Struct):
    """A reply and what follows it up to the next reply; the first may have none. `start` is its index."""

    start: int
    reply: AssistantMessage | None
    following: list[ToolMessage | UserMessage] = []
    dropped: list[Message] = []


def _exchanges(history: Sequence[Message], start: int) -> list[_Exchange]:
    """Return the history from `start` on, cut before each reply. At least one; only the first has no
    reply."""
    exchange = _Exchange(start, None)
    found = [exchange]
    for at in range(start, len(history)):
        message = history[at]
        if _is_dropped(message):
            exchange.dropped.append(message)
        elif isinstance(message, AssistantMessage):
            exchange = _Exchange(at, message)
            found.append(exchange)
        else:
            exchange.following.append(message)
    return found


def _runnable_calls(reply: AssistantMessage | None) -> tuple[Call, ...]:
    """Return the calls of a reply that count: none of a cut one, and the first of each id."""
    if reply is None or reply.finish == "cut":
        return ()
    by_id: dict[str, Call] = {}
    for call in calls_of(reply):
        by_id.setdefault(call.id, call)
    return tuple(by_id.values())


def _repair_exchange(
    exchange: _Exchange, begun: AbstractSet[str], previous: Message | None
) -> tuple[list[Message], list[str]]:
    """Return the messages of an exchange as they may follow `previous`, and notes on the changes."""
    notes = [f"dropped empty message {message.id}" for message in exchange.dropped]
    messages: list[Message] = []
    if exchange.reply is not None:
        messages += _lead_in(exchange.reply, previous, notes)
        messages.append(_legal_reply(exchange.reply, notes))
    results = _results(exchange, begun, notes)
    said = [message for message in exchange.following if isinstance(message, UserMessage)]
    messages += [*results, *said]
    if not notes and exchange.following != messages[len(messages) - len(exchange.following) :]:
        notes.append(f"put the results of reply {_id_of(exchange)} in the order of its calls")
    return messages, notes


def _id_of(exchange: _Exchange) -> str:
    return exchange.reply.id if exchange.reply is not None else "none"


def _lead_in(reply: AssistantMessage, previous: Message | None, notes: list[str]) -> list[Message]:
    if isinstance(previous, UserMessage | ToolMessage):
        return []
    text = MISSING_START_TEXT if previous is None else CONTINUE_TEXT
    notes.append(f"put {text!r} before reply {reply.id}")
    return [UserMessage(f"{reply.id}-before", (Text(text),), "note")]


def _legal_reply(reply: AssistantMessage, notes: list[str]) -> AssistantMessage:
    runnable = _runnable_calls(reply)
    parts = reply.parts
    if runnable != calls_of(reply):
        kept = {id(call) for call in runnable}
        parts = tuple(part for part in parts if not isinstance(part, Call) or id(part) in kept)
        notes.append(f"dropped calls of reply {reply.id} that can't be run")
    if not any(_says_something(part) for part in parts):
        parts = (*parts, Text(CUT_TEXT))
        notes.append(f"marked reply {reply.id} as interrupted")
    return reply if parts is reply.parts else msgspec.structs.replace(reply, parts=parts)


def _results(exchange: _Exchange, begun: AbstractSet[str], notes: list[str]) -> list[ToolMessage]:
    """Return one result for each call, in order. The first result of a call counts."""
    calls = _runnable_calls(exchange.reply)
    waiting = {call.id for call in calls}
    given: dict[str, ToolMessage] = {}
    for message in exchange.following:
        if not isinstance(message, ToolMessage):
            continue
        if message.call_id in waiting and message.call_id not in given:
            given[message.call_id] = message
        else:
            notes.append(f"dropped result {message.id}: it answers no open call")
    for call in calls:
        if call.id not in given:
            given[call.id] = _stand_in(_id_of(exchange), call, begun=call.id in begun)
            notes.append(f"answered call {call.id} of reply {_id_of(exchange)}: {given[call.id].text}")
    return [given[call.id] for call in calls]


def _stand_in(reply_id: str, call: Call, *, begun: bool) -> ToolMessage:
    text, status = (INTERRUPTED_TEXT, "cancelled") if begun else (NOT_RUN_TEXT, "skipped")
    return ToolMessage(f"{reply_id}-{call.id}-result", call.id, call.name, text, status)


def _not_run(exchange: _Exchange, messages: Sequence[Message]) -> tuple[Call, ...]:
    """Return the calls of the last exchange that were never started, unless the person has sent something
    since."""
    if messages and isinstance(messages[-1], UserMessage):
        return ()
    return tuple(
        call
        for call in _runnable_calls(exchange.reply)
        if any(_is_not_run(message, {call.id}) for message in messages)
    )


def _is_not_run(message: Message, wanted: AbstractSet[str]) -> bool:
    return (
        isinstance(message, ToolMessage)
        and message.call_id in wanted
        and message.text == NOT_RUN_TEXT
        and message.status == "skipped"
    )
