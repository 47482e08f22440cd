"""Records without secrets: what goes into a journal before the loop has cleaned it (questions, titles, text
that waits, a reply that is still streaming).
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from buddy.agent.events import ApprovalRequested
from buddy.agent.messages import AssistantMessage, UserMessage
from buddy.agent.receipt import Receipt
from buddy.safety.redact import redact, redact_message
from buddy.sessions.records import JobChanged, QueueChanged, Record, Renamed, TaskChanged

Value = TypeVar("Value")


def redacted_record(record: Record) -> Record:
    """The record as it may be written. Messages of a history come cleaned; sealed and numeric ones stay."""
    match record:
        case ApprovalRequested() | TaskChanged() | Renamed() | JobChanged() | Receipt():
            return _redacted(record)
        case QueueChanged():
            return QueueChanged(_messages(record.queued), _messages(record.steering), _redacted(record.notes))
        case _:
            return record


def redacted_reply(reply: AssistantMessage) -> AssistantMessage:
    """A reply that is still streaming, as it may be written."""
    return cast(AssistantMessage, redact_message(reply))


def _messages(texts: tuple[UserMessage, ...]) -> tuple[UserMessage, ...]:
    return tuple(cast(UserMessage, redact_message(text)) for text in texts)


def _redacted(value: Value) -> Value:
    """The same value with every text in it cleaned."""
    match value:
        case str():
            return cast(Value, redact(value))
        case msgspec.Struct():
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            changed = {name: new for name, old in fields.items() if (new := _redacted(old)) is not old}
            return msgspec.structs.replace(value, **changed) if changed else value
        case tuple():
            return cast(Value, tuple(_redacted(item) for item in cast("tuple[Any, ...]", value)))
        case list():
            return cast(Value, [_redacted(item) for item in cast("list[Any]", value)])
        case dict():
            items = cast("dict[str, Any]", value).items()
            return cast(Value, {redact(key): _redacted(item) for key, item in items})
        case _:
            return value
