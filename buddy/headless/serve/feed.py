"""The events of a session on their way into the log, and the state that belongs to each position of it."""

from __future__ import annotations

import asyncio

import msgspec

from buddy.agent.events import TaskEvent, TextDelta, ThinkingDelta, ToolCallDelta, ToolProgress
from buddy.agent.json_codec import encode
from buddy.app.session import Session
from buddy.headless.serve.event_log import EventLog
from buddy.headless.serve.running_turn import RunningTurn
from buddy.headless.serve.snapshot import (
    SessionSnapshot,
    TaskFacts,
    session_snapshot,
    shown_task_event,
    task_facts,
)
from buddy.tools.ask_user import OpenQuestion

FRAME_S = 0.01
"""Deltas of one block that arrive within a frame are one record."""
PREVIEW_EVERY_S = 0.1
LOOKS = 10
"""Every so many previews the facts of tasks are compared that change without an event: a queue, a closed
task."""
_GROWING = (TextDelta, ThinkingDelta, ToolCallDelta, ToolProgress)


class QuestionClosed(msgspec.Struct, frozen=True):
    """A question of a model was answered or withdrawn."""

    number: int


class HistoryChanged(msgspec.Struct, frozen=True):
    """A conversation was rewound or cleared: it is to be loaded again."""

    task_id: int


class SessionFeed:
    """Moves events from the session's hub to a log, beside what is no event: facts of tasks (`task`), calls
    that arrive (`preview`), questions (`question`, `question_closed`), rewinding (`history_changed`)."""

    def __init__(self, session: Session, log: EventLog) -> None:
        self._session = session
        self._log = log
        self._reader = session.board.reader()
        self._turns: dict[int, RunningTurn] = {}
        self._facts: dict[int, TaskFacts] = {}
        self._lengths: dict[int, int] = {}
        self._look_at_tasks()

    async def run(self) -> None:
        """Move events until cancelled or the session ends."""
        questions = self._session.questions
        questions.listeners.append(self._open_question)
        questions.close_listeners.append(self._close_question)
        looking = asyncio.create_task(self._keep_looking())
        try:
            while events := await self._reader.batch():
                self._publish(events)
                await asyncio.sleep(FRAME_S)
        finally:
            looking.cancel()
            self._reader.close()
            questions.listeners.remove(self._open_question)
            questions.close_listeners.remove(self._close_question)
            self._log.close()

    def snapshot(self) -> SessionSnapshot:
        """Return the state at the end of the log, which is brought up to now first."""
        self._publish(self._reader.drain())
        self._look_at_tasks()
        return session_snapshot(self._session, self._turns, self._log.id_of(self._log.newest))

    def _publish(self, events: list[TaskEvent]) -> None:
        for task_event in events:
            event, task_id = task_event.event, task_event.task_id
            self._log.append(str(type(event).__struct_config__.tag), encode(shown_task_event(task_event)))
            turn = self._turns.setdefault(task_id, RunningTurn(task_id))
            turn.add(event)
        if any(not isinstance(task_event.event, _GROWING) for task_event in events):
            self._look_at_tasks()
        if events:
            self._log.announce()

    async def _keep_looking(self) -> None:
        count = 0
        while True:
            await asyncio.sleep(PREVIEW_EVERY_S)
            if not self._log.readers:
                continue
            before, count = self._log.newest, count + 1
            for turn in self._turns.values():
                for preview in turn.changed_previews():
                    self._log.append("preview", encode(preview))
            if count % LOOKS == 0:
                self._look_at_tasks()
            if self._log.newest > before:
                self._log.announce()

    def _look_at_tasks(self) -> None:
        """Add a record for every task whose facts have changed."""
        for task in self._session.board.tasks.values():
            facts = task_facts(task)
            if self._facts.get(task.task_id) != facts:
                self._facts[task.task_id] = facts
                self._log.append("task", encode(facts))
            if len(task.history) < self._lengths.get(task.task_id, 0):
                self._log.append("history_changed", encode(HistoryChanged(task.task_id)))
            self._lengths[task.task_id] = len(task.history)

    def _open_question(self, question: OpenQuestion) -> None:
        self._log.append("question", encode(question))
        self._log.announce()

    def _close_question(self, number: int) -> None:
        self._log.append("question_closed", encode(QuestionClosed(number)))
        self._log.announce()
