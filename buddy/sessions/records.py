"""Journal records: one class for each kind of line, and their redaction."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, cast

import msgspec

from buddy.agent.compaction import Compaction
from buddy.agent.events import ApprovalRequested, ApprovalResolved, TokenUsage
from buddy.agent.messages import (
    AssistantMessage,
    AssistantPart,
    Attachment,
    Message,
    ResultStatus,
    Text,
    UserMessage,
)
from buddy.agent.receipt import Check, Receipt
from buddy.safety.secrets.redact import redact, redact_message

VERSION = 3
"""The version of the journal's format. A journal with a higher one is opened read-only."""
SEALED_VERSION = 2
"""From this format on every line is sealed, and the header's `mac` covers all of it."""

TaskState = Literal["idle", "running", "waiting", "paused", "finished", "failed", "cancelled"]


class SessionHeader(msgspec.Struct, frozen=True):
    """The first line. `workspace` is the folder the session works in, links resolved; `mac` proves that this
    person made it for that folder on this machine; `parent` names the session this one was copied from and
    `parent_number` the last record it shares with it ("" and 0 when it has none); `headless`: a run without a
    terminal began it, so that lists for people may leave it out."""

    version: int
    session_id: str
    created_at: float
    workspace: str
    mac: str
    parent: str = ""
    parent_number: int = 0
    headless: bool = False


class VariantMark(msgspec.Struct, frozen=True):
    """A task's place among the variants of one prompt. `group` is the task id of the first of them, `number`
    counts from 1; the limits are those of the whole group, 0 for none."""

    group: int
    number: int
    max_cost_usd: float = 0
    max_tokens: int = 0


class LastTests(msgspec.Struct, frozen=True):
    """The last test run of a task. `outdated`: files were changed after it."""

    check: Check
    outdated: bool = False


class TaskChanged(msgspec.Struct, frozen=True):
    """The new state of a task. `parent` is the task it works for, 0 for none. The first record of a copied
    task has `copy_of`: it starts with the first `copied` messages of that task's history. `tools`: the names
    it may use, None for all. `worktree`: the name of its worktree, "" for the project's main tree.
    `loaded_tools`: the tools that its searches loaded. `worked_s`: the time of its finished turns. `target`:
    the machine it works on, "" for this one. `mode`: the permission mode its subagent file limits it to, ""
    for none."""

    title: str
    state: TaskState
    reason: str = ""
    parent: int = 0
    model: str = ""
    closed: bool = False
    copy_of: int = 0
    copied: int = 0
    tools: tuple[str, ...] | None = None
    worktree: str = ""
    loaded_tools: tuple[str, ...] = ()
    variant: VariantMark | None = None
    worked_s: float = 0
    tests: LastTests | None = None
    target: str = ""
    mode: str = ""


class Note(msgspec.Struct, frozen=True):
    """A text attached to the next prompt of the foreground task: the answer of a finished background task, or
    the output of a command the person ran. `heading` stands above the text, with `lead` behind it for the
    model; `carried_by` is the message it was attached to, "" while it waits; `answer_of` is the task whose
    answer it is, 0 for none."""

    id: str
    task_number: int
    title: str
    text: str
    heading: str
    carried_by: str = ""
    answer_of: int = 0
    lead: str = ""


class QueueChanged(msgspec.Struct, frozen=True):
    """All waiting messages: `queued` for after the turn, `steering` for the running one. Recording a message
    in the history removes it here, so that no crash can deliver it twice. `notes` are those of the whole
    session, None when unchanged; a note is removed with the message that carries it."""

    queued: tuple[UserMessage, ...]
    steering: tuple[UserMessage, ...]
    notes: tuple[Note, ...] | None = None


class GrantChanged(msgspec.Struct, frozen=True):
    """A remembered answer, in the policy's own format; None revokes it. `seal` proves that this person
    granted it here: a line edited into the file grants nothing."""

    grant_id: str
    grant: dict[str, Any] | None
    seal: str = ""


class ToolBegun(msgspec.Struct, frozen=True):
    """A call is about to run; synced before it starts."""

    call_id: str
    name: str


class ToolEnded(msgspec.Struct, frozen=True):
    """A call ended."""

    call_id: str
    status: ResultStatus
    seconds: float


class Compacted(msgspec.Struct, frozen=True):
    """The compaction in force from now on; None for the whole history."""

    compaction: Compaction | None


class HistoryReplaced(msgspec.Struct, frozen=True):
    """The first `kept` messages stay, `added` follow them: a reset, a rewind, a repair, a prompt taken
    back."""

    why: str
    kept: int
    added: tuple[Message, ...] = ()


class CheckpointTaken(msgspec.Struct, frozen=True):
    """A saved state of the working tree, around a call ("" for none). `data` belongs to whoever took it."""

    checkpoint_id: str
    call_id: str
    data: dict[str, Any] = {}


class JobChanged(msgspec.Struct, frozen=True):
    """The new state of a background process."""

    job_id: str
    state: str
    data: dict[str, Any] = {}


class Renamed(msgspec.Struct, frozen=True):
    """The session's name, given by the person ("" when it has none), and its title, found by itself."""

    name: str
    title: str


class BudgetSet(msgspec.Struct, frozen=True):
    """Limits of the session, or of a task."""

    max_cost_usd: float
    max_tokens: int


class FocusSet(msgspec.Struct, frozen=True):
    """The task of this line is in the foreground."""


class PartGrowth(msgspec.Struct, frozen=True):
    """Growth of part `at` of a reply: its first `keep` characters stay, the text (or the arguments) of `part`
    follows. `keep` 0 replaces the part."""

    at: int
    keep: int
    part: AssistantPart


class PartialGrown(msgspec.Struct, frozen=True):
    """The growth of a streaming reply since its last line."""

    reply_id: str
    model: str
    lane: str
    growth: tuple[PartGrowth, ...]


Approval = ApprovalRequested | ApprovalResolved
Record = (
    SessionHeader
    | Message
    | TaskChanged
    | QueueChanged
    | Approval
    | GrantChanged
    | ToolBegun
    | ToolEnded
    | TokenUsage
    | Compacted
    | HistoryReplaced
    | CheckpointTaken
    | JobChanged
    | Renamed
    | BudgetSet
    | FocusSet
    | PartialGrown
    | Receipt
)

KINDS: dict[str, Any] = {
    "session": SessionHeader,
    "message": Message,
    "task": TaskChanged,
    "queue": QueueChanged,
    "approval": Approval,
    "grant": GrantChanged,
    "tool_begin": ToolBegun,
    "tool_end": ToolEnded,
    "usage": TokenUsage,
    "compacted": Compacted,
    "history": HistoryReplaced,
    "checkpoint": CheckpointTaken,
    "job": JobChanged,
    "renamed": Renamed,
    "budget": BudgetSet,
    "focus": FocusSet,
    "partial": PartialGrown,
    "receipt": Receipt,
}
"""The record class of each kind of line."""


_OLD_ATTACHMENTS = (
    "[I ran ",
    "[I took back ",
    "[I applied again ",
    "[Background task ",
    "[buddy was lost while job ",
    "[buddy was killed while job ",
    "\n\n[attached: ",
)
"""The openings of the texts that were attached to prompts before format 3, which had no `Attachment`."""

_OLD_LEADS = (". Its answer:", ". What became of the job:", ". State of the job:", ":")


def upgrade_record(record: Record) -> Record:
    """Return a record of an older format as this one writes it: attachments are parts of their own."""
    match record:
        case UserMessage():
            return _upgrade_message(record)
        case HistoryReplaced():
            added = tuple(
                _upgrade_message(one) if isinstance(one, UserMessage) else one for one in record.added
            )
            return record if added == record.added else HistoryReplaced(record.why, record.kept, added)
        case QueueChanged():
            return QueueChanged(
                tuple(map(_upgrade_message, record.queued)),
                tuple(map(_upgrade_message, record.steering)),
                record.notes and tuple(map(_upgrade_note, record.notes)),
            )
        case _:
            return record


def _upgrade_message(message: UserMessage) -> UserMessage:
    is_old = [isinstance(part, Text) and part.text.startswith(_OLD_ATTACHMENTS) for part in message.parts]
    has_words = any(
        isinstance(part, Text) and not old for part, old in zip(message.parts, is_old, strict=True)
    )
    if not any(is_old) or not has_words or any(isinstance(part, Attachment) for part in message.parts):
        return message
    parts = (
        Attachment(_old_title(part.text), part.text) if isinstance(part, Text) and old else part
        for part, old in zip(message.parts, is_old, strict=True)
    )
    return msgspec.structs.replace(message, parts=tuple(parts))


def _old_title(text: str) -> str:
    line = text.strip().split("\n", 1)[0].removeprefix("[").removesuffix("]")
    return _split_lead(line)[0]


def _upgrade_note(note: Note) -> Note:
    heading, lead = ("", note.lead) if note.lead else _split_lead(note.heading)
    return msgspec.structs.replace(note, heading=heading or note.heading, lead=lead)


def _split_lead(heading: str) -> tuple[str, str]:
    lead = next((lead for lead in _OLD_LEADS if heading.endswith(lead)), "")
    return heading.removesuffix(lead), lead


Value = TypeVar("Value")


def redact_record(record: Record) -> Record:
    """Redact a record. Messages of a history are redacted already; sealed and numeric records stay
    unchanged."""
    match record:
        case ApprovalRequested() | TaskChanged() | Renamed() | JobChanged() | Receipt():
            return _redact_value(record)
        case QueueChanged():
            return QueueChanged(
                _messages(record.queued), _messages(record.steering), _redact_value(record.notes)
            )
        case _:
            return record


def redact_reply(reply: AssistantMessage) -> AssistantMessage:
    """Redact a streaming reply."""
    return cast(AssistantMessage, redact_message(reply))


def _messages(texts: tuple[UserMessage, ...]) -> tuple[UserMessage, ...]:
    return tuple(cast(UserMessage, redact_message(text)) for text in texts)


def _redact_value(value: Value) -> Value:
    """Redact every text in a value."""
    match value:
        case str():
            return cast(Value, redact(value))
        case msgspec.Struct():
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            changed = {name: new for name, old in fields.items() if (new := _redact_value(old)) is not old}
            return msgspec.structs.replace(value, **changed) if changed else value
        case tuple():
            return cast(Value, tuple(_redact_value(item) for item in cast("tuple[Any, ...]", value)))
        case list():
            return cast(Value, [_redact_value(item) for item in cast("list[Any]", value)])
        case dict():
            items = cast("dict[str, Any]", value).items()
            return cast(Value, {redact(key): _redact_value(item) for key, item in items})
        case _:
            return value
