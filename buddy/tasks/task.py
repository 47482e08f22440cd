"""One conversation of the session: its history, what waits for it, and how it stands. Owned by the board."""

from __future__ import annotations

import asyncio
from typing import Literal

from buddy.agent.budget import TokenMeter
from buddy.agent.compaction import Compaction
from buddy.agent.host import Outcome
from buddy.agent.messages import (
    AssistantMessage,
    Call,
    Message,
    Text,
    ToolMessage,
    UserMessage,
    calls_of,
    text_of,
)
from buddy.agent.receipt import Receipt
from buddy.sessions.loading import ResumedTask
from buddy.sessions.records import TaskChanged
from buddy.tasks.dependencies import Workspace

TaskState = Literal["idle", "running", "waiting", "paused", "finished", "failed", "cancelled"]
TITLE_CHARS = 60


class TaskError(Exception):
    """An operation that can't be done now; the message is for the person."""


class Task:
    """State and what changes it; only this room does, other rooms ask the board. `tools`: the names it may
    use, None for all."""

    def __init__(
        self,
        number: int,
        *,
        title: str,
        model: str,
        parent: int,
        meter: TokenMeter,
        workspace: Workspace,
    ) -> None:
        self.number = number
        self.title = title
        self.model = model
        self.parent = parent
        self.copy_of = self.copied = 0
        """The task whose conversation this one began with, 0 for none, and how many messages that was."""
        self.meter = meter
        self.workspace = workspace
        self.services = workspace.services(number)
        self.left = ""
        """What its last turn left in a worktree of its own, for whoever reads its answer."""
        self.state: TaskState = "idle"
        self.reason = ""
        self.closed = False
        self.tools: frozenset[str] | None = None
        self.background = False
        self.receipt: Receipt | None = None
        """That of the last turn, None where it has changed no file."""
        self.history: list[Message] = []
        self.compaction: Compaction | None = None
        self.queued: list[UserMessage] = []
        self.steering: list[UserMessage] = []
        self.taken: list[UserMessage] = []
        """Text a turn took from the two lists and has not recorded yet."""
        self.not_run: tuple[Call, ...] = ()
        self.cancelled = asyncio.Event()
        self.hurry: asyncio.Event | None = None
        """While its turn waits before a request is sent again: setting it ends the waiting."""
        self.runner: asyncio.Task[None] | None = None
        self.outcome: Outcome | None = None
        self.deadline: asyncio.TimerHandle | None = None
        self.started_at = 0.0
        self.seen_writes = 0
        self.looked_at = 0.0
        self.failed_summaries: tuple[int, str, int] = (0, "", 0)

    @property
    def running(self) -> bool:
        """Tell whether a turn is under way."""
        return self.runner is not None and not self.runner.done()

    def start_from(self, original: Task) -> None:
        """Begin with a copy of another task's conversation, and in the same workspace with what its tools
        know."""
        if original.workspace is self.workspace:
            self.services = original.services.copy(self.number)
        self.copy_of, self.copied = original.number, legal_length(original.history)
        self.history = original.history[: self.copied]
        self.compaction = original.compaction

    @property
    def has_only_a_copy(self) -> bool:
        """Tell whether nothing was said in this task since it began with another's conversation."""
        return 0 < len(self.history) <= self.copied

    def begin(self, now: float) -> None:
        """Stand as a task whose turn starts."""
        self.cancelled = asyncio.Event()
        self.not_run = ()
        self.reason = ""
        self.state = "running"
        self.started_at = now

    def forget(self) -> None:
        """Empty the conversation, and what is only true of it."""
        self.history.clear()
        self.compaction = self.receipt = None
        self.not_run = ()
        self.copied = 0
        self.meter.context_tokens = 0
        self.services.forget_shown()

    def rewind(self, kept: int) -> None:
        """Go back to the first `kept` messages, and stand as if nothing had come after them."""
        del self.history[kept:]
        self.copied = min(self.copied, kept)
        if self.compaction is not None and self.compaction.through > kept:
            self.compaction = None
        self.not_run, self.receipt = (), None
        self.state, self.reason = "idle", ""
        self.services.forget_shown()

    def record(self) -> TaskChanged:
        """The task as the journal keeps it."""
        state = "running" if self.running else self.state
        return TaskChanged(
            title=self.title,
            state=state,
            reason=self.reason,
            parent=self.parent,
            model=self.model,
            closed=self.closed,
            copy_of=self.copy_of,
            copied=self.copied,
            tools=None if self.tools is None else tuple(sorted(self.tools)),
            worktree=self.workspace.worktree.name if self.workspace.worktree else "",
        )

    def last_answer(self) -> str:
        """The last thing the model said to the end, "" when it never did."""
        for message in reversed(self.history):
            if isinstance(message, AssistantMessage) and text_of(message).strip():
                return text_of(message).strip()
        return ""


def restored(resumed: ResumedTask, meter: TokenMeter, workspace: Workspace) -> Task:
    """A task of a resumed session, as it was."""
    kept = resumed.record
    task = Task(
        kept.number,
        title=kept.task.title,
        model=kept.task.model,
        parent=kept.task.parent,
        meter=meter,
        workspace=workspace,
    )
    task.state, task.reason = kept.task.state, kept.task.reason
    task.closed = kept.task.closed
    task.copy_of, task.copied = kept.task.copy_of, kept.task.copied
    task.tools = None if kept.task.tools is None else frozenset(kept.task.tools)
    task.history = list(kept.history)
    task.not_run = resumed.not_run_calls
    task.compaction = kept.compaction
    task.receipt = kept.receipt
    task.queued, task.steering = list(kept.queued), list(kept.steering)
    return task


def title_of(message: UserMessage) -> str:
    """A short title from what the person first said."""
    text = next((part.text for part in message.parts if isinstance(part, Text)), "")
    first = text.strip().split("\n", 1)[0]
    return first if len(first) <= TITLE_CHARS else first[: TITLE_CHARS - 1] + "…"


def legal_length(history: list[Message]) -> int:
    """Return how much of a history a copy can start with: up to the last exchange whose calls are answered,
    without words nobody answered yet (the copy would take them up as well)."""
    open_calls: set[str] = set()
    length = 0
    for position, message in enumerate(history):
        match message:
            case AssistantMessage():
                open_calls = {call.id for call in calls_of(message)}
            case ToolMessage():
                open_calls.discard(message.call_id)
            case UserMessage():
                continue
        if not open_calls:
            length = position + 1
    return length
