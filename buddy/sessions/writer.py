"""The typed functions that record changes of a session. Each passes its record to the journal and to the live
state, in order, and returns a future: await it only where the next step must not happen before the record is
on the disk.

Snapshots are made here: when the journal has grown enough, when the session is idle, at the end; in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from buddy.agent.compaction import Compaction
from buddy.agent.events import ApprovalRequested, ApprovalResolved, TokenUsage
from buddy.agent.messages import AssistantMessage, Message, ResultStatus, UserMessage
from buddy.agent.receipt import Receipt
from buddy.safety.seal import Seal
from buddy.sessions.errors import NotSavedError
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.identity import Signer
from buddy.sessions.journal import LINGER_S, Journal, SaveState
from buddy.sessions.loading import AgentSessionSnapshot, snapshot_of, write_snapshot
from buddy.sessions.partial import LINGER_S as PARTIAL_LINGER_S
from buddy.sessions.partial import Clean, PartialWriter
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
    redact_record,
    redact_reply,
)
from buddy.sessions.replay import Replay, SessionState

SNAPSHOT_MIN_BYTES = 1_000_000
Saved = asyncio.Future[int]
"""Resolves to the record's number once it is on the disk."""


class SessionWriter:
    """The only way to add to a session. Lives on the event loop; `close` it.

    `warn` gets one sentence about a failure that loses nothing (a snapshot that could not be written, say).
    `snapshot_number` is the last record the snapshot on the disk contains, 0 for no snapshot.
    """

    def __init__(
        self,
        journal: Journal,
        directory: str,
        header: SessionHeader,
        *,
        signer: Signer,
        replay: Replay,
        files: JournalFiles,
        warn: Callable[[str], None] = lambda _text: None,
        snapshot_number: int = 0,
    ) -> None:
        self.journal = journal
        self.directory = directory
        self.header = header
        self._signer = signer
        self._replay = replay
        self._files = files
        self._warn = warn
        self._partials: dict[int, PartialWriter] = {}
        self._snapshot_number = snapshot_number
        self._snapshot_offset = journal.size
        self._snapshot_size = 0
        self._snapshot: asyncio.Task[None] | None = None

    @property
    def session_id(self) -> str:
        """Return the session's id."""
        return self.header.session_id

    @property
    def seal(self) -> Seal:
        """Return the key that seals what this session keeps."""
        return self._signer.session_seal(self.session_id, self.header.workspace)

    @property
    def workspace_seal(self) -> Seal:
        """Return the key that seals what all sessions of this workspace share."""
        return self._signer.workspace_seal(self.header.workspace)

    @property
    def save_state(self) -> SaveState:
        """Return the state of saving."""
        return self.journal.state

    def state(self) -> SessionState:
        """Return the state after all records, saved or not."""
        return self._replay.state()

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return the notes that wait for a prompt, or for the message that carries them to be recorded."""
        return self._replay.notes

    def record_header(self) -> Saved:
        """Record the first line."""
        return self._record("session", self.header)

    def record_message(self, task_id: int, message: Message, *, urgent: bool = True) -> Saved:
        """Record a message that is now part of a task's history. It supersedes the task's partial reply and
        leaves the queue. One that nothing waits for before the model is asked again is not `urgent`."""
        if isinstance(message, AssistantMessage) and task_id in self._partials:
            self._partials[task_id].stop()
        return self._record("message", message, task_id, linger_s=0.0 if urgent else LINGER_S)

    def record_partial(self, task_id: int, reply: AssistantMessage, clean: Clean = redact_reply) -> None:
        """Record the current part of a reply; its growth is written within a second, redacted. The `clean` of
        a task's first reply serves all."""
        partial = self._partials.get(task_id)
        if partial is None:

            def append(grown: PartialGrown) -> Saved:
                return self._record("partial", grown, task_id, linger_s=PARTIAL_LINGER_S)

            partial = self._partials[task_id] = PartialWriter(append, clean=clean)
        partial.update(reply)

    def record_task(self, task_id: int, task: TaskChanged) -> Saved:
        """Record a task that is new or changed."""
        return self._record("task", task, task_id)

    def record_queue(
        self, task_id: int, queued: tuple[UserMessage, ...], steering: tuple[UserMessage, ...]
    ) -> Saved:
        """Record all text that waits for a task."""
        return self._record("queue", QueueChanged(queued, steering), task_id)

    def record_notes(self, task_id: int, notes: tuple[Note, ...]) -> Saved:
        """Record all notes of the session, on a line of some task: the text that waits for it stays as it
        is."""
        changed = msgspec.structs.replace(self._replay.waiting(task_id), notes=notes)
        return self._record("queue", changed, task_id)

    def record_approval(self, task_id: int, approval: ApprovalRequested | ApprovalResolved) -> Saved:
        """Record a question, or its answer."""
        return self._record("approval", approval, task_id)

    def record_grant(self, grant_id: str, grant: dict[str, Any] | None, task_id: int = 0) -> Saved:
        """Record an answer to remember, or (None) to forget."""
        changed = self._signer.seal_grant(self.session_id, GrantChanged(grant_id, grant))
        return self._record("grant", changed, task_id)

    def tool_begin(self, task_id: int, call_id: str, name: str) -> Saved:
        """Record that a call is about to run; await this before it does."""
        return self._record("tool_begin", ToolBegun(call_id, name), task_id)

    def tool_end(self, task_id: int, call_id: str, status: ResultStatus, seconds: float) -> Saved:
        """Record the end of a call. Its result follows at once, and both are written together."""
        return self._record("tool_end", ToolEnded(call_id, status, seconds), task_id, linger_s=LINGER_S)

    def record_usage(self, task_id: int, usage: TokenUsage) -> Saved:
        """Record a task's totals. What the reply led to follows at once."""
        return self._record("usage", usage, task_id, linger_s=LINGER_S)

    def record_compaction(self, task_id: int, compaction: Compaction | None) -> Saved:
        """Record the view on the history that is sent from now on."""
        return self._record("compacted", Compacted(compaction), task_id)

    def replace_history(self, task_id: int, why: str, kept: int, added: tuple[Message, ...] = ()) -> Saved:
        """Record a new history after a reset, a rewind or a withdrawn prompt: the first `kept` messages stay,
        `added` follow."""
        if task_id in self._partials:
            self._partials[task_id].stop()
        return self._record("history", HistoryReplaced(why, kept, added), task_id)

    def record_checkpoint(self, task_id: int, checkpoint: CheckpointTaken) -> Saved:
        """Record a saved state of the working tree. The end of its call follows at once."""
        return self._record("checkpoint", checkpoint, task_id, linger_s=LINGER_S)

    def record_receipt(self, task_id: int, receipt: Receipt) -> Saved:
        """Record the record of what a turn changed and checked. The task's end follows at once."""
        return self._record("receipt", receipt, task_id, linger_s=LINGER_S)

    def record_job(self, task_id: int, job: JobChanged) -> Saved:
        """Record a process a tool left running."""
        return self._record("job", job, task_id)

    def record_budget(self, budget: BudgetSet, task_id: int = 0) -> Saved:
        """Record the limits of a task, or of the session (0)."""
        return self._record("budget", budget, task_id)

    def record_focus(self, task_id: int) -> Saved:
        """Record the task shown in full."""
        return self._record("focus", FocusSet(), task_id)

    def rename(self, *, name: str, title: str) -> Saved:
        """Record the session's name and title."""
        return self._record("renamed", Renamed(name, title))

    def idle(self) -> None:
        """Take a snapshot if anything is new, because the session is idle."""
        if self.journal.last_number > self._snapshot_number:
            self._start_snapshot()

    async def close(self) -> None:
        """Write the waiting records and a last snapshot. Raises `NotSavedError` when records are lost with
        this."""
        for partial in self._partials.values():
            partial.flush()
        try:
            await self.journal.close()
        finally:
            await self._finish_snapshot()
        self.idle()
        await self._finish_snapshot()

    def follow_move(self, directory: str) -> None:
        """Follow the journal to another folder; snapshots go there too."""
        self.directory = directory
        self._snapshot_number = 0

    async def _finish_snapshot(self) -> None:
        if self._snapshot is not None:
            await self._snapshot

    def _record(self, kind: str, record: Record, task_id: int = 0, *, linger_s: float = 0.0) -> Saved:
        record = redact_record(record)
        saved = self.journal.append(kind, record, task_id, linger_s=linger_s)
        self._replay.apply(record, task_id)
        if self.journal.size - self._snapshot_offset > max(SNAPSHOT_MIN_BYTES, self._snapshot_size):
            self._start_snapshot()
        return saved

    def _start_snapshot(self) -> None:
        if self._snapshot is None or self._snapshot.done():
            self._snapshot = asyncio.create_task(self._take_snapshot(), name="snapshot")

    async def _take_snapshot(self) -> None:
        try:
            await self.journal.flush()  # so that there is a line on the disk to tie it to
            snapshot = self._capture()
            await self.journal.flush()
            size = await asyncio.to_thread(write_snapshot, self.directory, snapshot, self._files, self.seal)
            self._snapshot_size = size
        except NotSavedError:
            return  # it would know more than the journal
        except OSError as error:
            self._warn(f"the snapshot could not be written, the journal is whole: {error}")

    def _capture(self) -> AgentSessionSnapshot:
        journal = self.journal
        self._snapshot_number, self._snapshot_offset = journal.last_number, journal.size
        return snapshot_of(
            self._replay.state(),
            header=self.header,
            last_number=journal.last_number,
            last_at=journal.last_at,
            position=journal.position,
        )
