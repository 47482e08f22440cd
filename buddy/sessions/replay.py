"""Replay of a session's records into its state. Records are applied in order both when written and when read,
with the same result, so that a snapshot can replace them."""

from __future__ import annotations

from typing import Any

import msgspec

from buddy.agent.compaction import Compaction
from buddy.agent.events import ApprovalRequested, ApprovalResolved, TokenUsage
from buddy.agent.messages import AssistantMessage, AssistantPart, Message, ToolMessage, UserMessage
from buddy.agent.receipt import Receipt
from buddy.sessions.partial import apply_growth, cut_reply
from buddy.sessions.records import (
    BudgetSet,
    CheckpointTaken,
    Compacted,
    FocusSet,
    GrantChanged,
    HistoryReplaced,
    JobChanged,
    Note,
    PartialGrown,
    QueueChanged,
    Record,
    Renamed,
    SessionHeader,
    TaskChanged,
    ToolBegun,
    ToolEnded,
)


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint and its place in the conversation: before message `at` of its task."""

    taken: CheckpointTaken
    task_id: int
    at: int


class TaskRecord(msgspec.Struct, frozen=True, rename={"task_id": "number"}):  # snapshots on disk say "number"
    """The state of one task. `begun` are the started calls without a result in the history, `ended` those of
    them that ended. `usage` is None before the first reply; `receipt` is that of the last turn, None where it
    changed no file."""

    task_id: int
    task: TaskChanged
    history: tuple[Message, ...] = ()
    queued: tuple[UserMessage, ...] = ()
    steering: tuple[UserMessage, ...] = ()
    approvals: tuple[ApprovalRequested, ...] = ()
    begun: tuple[ToolBegun, ...] = ()
    ended: tuple[ToolEnded, ...] = ()
    usage: TokenUsage | None = None
    compaction: Compaction | None = None
    budget: BudgetSet | None = None
    partial: AssistantMessage | None = None
    receipt: Receipt | None = None


class SessionState(msgspec.Struct, frozen=True):
    """The state of a session without its header."""

    tasks: tuple[TaskRecord, ...] = ()
    focus: int = 0
    name: str = ""
    title: str = ""
    budget: BudgetSet | None = None
    grants: tuple[GrantChanged, ...] = ()
    jobs: tuple[JobChanged, ...] = ()
    job_tasks: tuple[int, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    notes: tuple[Note, ...] = ()


class _Task:
    """A task under replay."""

    def __init__(self, record: TaskRecord) -> None:
        self.record = record
        self.history: list[Message] = list(record.history)
        self.begun = {begun.call_id: begun for begun in record.begun}
        self.ended = {ended.call_id: ended for ended in record.ended}

    def change(self, **changes: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **changes)

    def freeze(self) -> TaskRecord:
        return msgspec.structs.replace(
            self.record,
            history=tuple(self.history),
            begun=tuple(self.begun.values()),
            ended=tuple(self.ended.values()),
        )

    def add(self, message: Message) -> None:
        match message:
            case AssistantMessage():
                self.change(partial=None)
            case ToolMessage():
                self.begun.pop(message.call_id, None)
                self.ended.pop(message.call_id, None)
            case UserMessage():
                self.finish_partial()
                self.change(
                    receipt=None,
                    queued=_without(self.record.queued, message),
                    steering=_without(self.record.steering, message),
                )
        self.history.append(message)

    def grow(self, grown: PartialGrown) -> None:
        partial = self.record.partial
        parts: tuple[AssistantPart, ...] = ()
        if partial is not None and partial.id == grown.reply_id:
            parts = partial.parts
        else:
            self.finish_partial()
        self.change(partial=cut_reply(grown, apply_growth(parts, grown.growth)))

    def finish_partial(self) -> None:
        """Keep the unfinished reply in the history, because the conversation continued after it."""
        if self.record.partial is not None:
            self.history.append(self.record.partial)
            self.change(partial=None)

    def replace(self, replaced: HistoryReplaced) -> None:
        compaction, kept = self.record.compaction, max(0, replaced.kept)
        if compaction is not None and compaction.through > kept:
            compaction = _move_compaction(compaction, self.history, replaced)
        self.history[kept:] = replaced.added
        self.change(partial=None, compaction=compaction, receipt=None)


class Replay:
    """Builds the state of one session. `apply` never fails: a record that does not fit is ignored."""

    def __init__(self, state: SessionState | None = None) -> None:
        state = state or SessionState()
        self._tasks = {task.task_id: _Task(task) for task in state.tasks}
        self._grants = {grant.grant_id: grant for grant in state.grants}
        self._jobs = {
            job.job_id: (job, task_id) for job, task_id in zip(state.jobs, state.job_tasks, strict=False)
        }
        self._checkpoints = list(state.checkpoints)
        self._state = state

    def state(self) -> SessionState:
        """Return a frozen copy of the state."""
        return msgspec.structs.replace(
            self._state,
            tasks=tuple(self._tasks[number].freeze() for number in sorted(self._tasks)),
            grants=tuple(self._grants.values()),
            jobs=tuple(job for job, _ in self._jobs.values()),
            job_tasks=tuple(task_id for _, task_id in self._jobs.values()),
            checkpoints=tuple(self._checkpoints),
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return the notes that no recorded message carries yet."""
        return self._state.notes

    def waiting(self, task_id: int) -> QueueChanged:
        """Return the waiting messages of a task."""
        if task_id not in self._tasks:
            return QueueChanged((), ())
        record = self._tasks[task_id].record
        return QueueChanged(record.queued, record.steering)

    def apply(self, record: Record, task_id: int) -> None:
        """Apply one record."""
        match record:
            case SessionHeader():
                pass
            case GrantChanged():
                self._grants.pop(record.grant_id, None)
                if record.grant is not None:
                    self._grants[record.grant_id] = record
            case JobChanged():
                self._jobs[record.job_id] = (record, task_id)
            case CheckpointTaken():
                at = len(self._tasks[task_id].history) if task_id in self._tasks else 0
                self._checkpoints.append(Checkpoint(record, task_id, at))
            case Renamed():
                self._change(name=record.name, title=record.title)
            case FocusSet():
                self._change(focus=task_id)
            case BudgetSet() if task_id == 0:
                self._change(budget=record)
            case TaskChanged() if task_id not in self._tasks:
                task = self._task(task_id)
                task.change(task=record)
                if record.copy_of in self._tasks:
                    task.history += self._tasks[record.copy_of].history[: record.copied]
            case _:
                self._apply_to_task(self._task(task_id), record)

    def _apply_to_task(self, task: _Task, record: Record) -> None:
        match record:
            case UserMessage() | AssistantMessage() | ToolMessage():
                task.add(record)
                self._deliver(record)
            case PartialGrown():
                task.grow(record)
            case TaskChanged():
                task.change(task=record)
            case QueueChanged():
                task.change(queued=record.queued, steering=record.steering)
                if record.notes is not None:
                    self._change(notes=record.notes)
            case ApprovalRequested():
                task.change(approvals=(*task.record.approvals, record))
            case ApprovalResolved():
                open_ = [asked for asked in task.record.approvals if asked.request_id != record.request_id]
                task.change(approvals=tuple(open_))
            case ToolBegun():
                task.begun[record.call_id] = record
            case ToolEnded():
                if record.call_id in task.begun:
                    task.ended[record.call_id] = record
            case TokenUsage():
                task.change(usage=record)
            case Compacted():
                task.change(compaction=record.compaction)
            case HistoryReplaced():
                task.replace(record)
            case BudgetSet():
                task.change(budget=record)
            case Receipt():
                task.change(receipt=record)
            case SessionHeader() | GrantChanged() | JobChanged() | CheckpointTaken() | Renamed() | FocusSet():
                pass

    def _deliver(self, message: Message) -> None:
        if self._state.notes:
            self._change(notes=tuple(note for note in self.notes if note.carried_by != message.id))

    def _change(self, **changes: Any) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)

    def _task(self, task_id: int) -> _Task:
        """Return a task; it exists from its first record on, even if the line that opened it was lost."""
        if task_id not in self._tasks:
            self._tasks[task_id] = _Task(TaskRecord(task_id, TaskChanged("", "idle")))
        return self._tasks[task_id]


def _without(waiting: tuple[UserMessage, ...], message: UserMessage) -> tuple[UserMessage, ...]:
    if not waiting:
        return waiting
    return tuple(other for other in waiting if other.id != message.id)


def _move_compaction(
    compaction: Compaction, history: list[Message], replaced: HistoryReplaced
) -> Compaction | None:
    """Move a compaction to a replaced history: it ends after the same message, or is dropped with it."""
    if compaction.through > len(history):
        return None
    last = history[compaction.through - 1].id
    for at, message in enumerate(replaced.added):
        if message.id == last:
            return Compaction(replaced.kept + at + 1, compaction.summary)
    return None
