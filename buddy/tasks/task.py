"""One conversation of a session: its history, queued prompts and state. The board owns it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import msgspec

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
from buddy.extend.agent_profiles import AgentProfile
from buddy.safety.policy.decide import MODES, mode_by_name
from buddy.safety.policy.session import NO_CALL_LIMITS, CallLimits
from buddy.sessions.loading import ResumedTask
from buddy.sessions.records import LastTests, TaskChanged, VariantMark
from buddy.tasks.dependencies import BoardParts, Workspace
from buddy.workspace.undo.log import UndoEntry

TaskState = Literal["idle", "running", "waiting", "paused", "finished", "failed", "cancelled"]
TITLE_CHARS = 60


class TaskError(Exception):
    """An operation that is not possible now; the message is for the person."""


class Declared(msgspec.Struct, frozen=True):
    """The beginning of a turn's prompts: the names of its tools, and hashes of what they say of themselves
    and of the system prompt."""

    names: tuple[str, ...]
    texts: int
    system: int


class Task:
    """The mutable state of one conversation. Only this room changes it; other rooms ask the board. `tools`
    holds the names of the tools it may use, None for all."""

    def __init__(
        self,
        task_id: int,
        *,
        title: str,
        model: str,
        parent: int,
        meter: TokenMeter,
        workspace: Workspace,
    ) -> None:
        self.task_id = task_id
        self.title = title
        self.model = model
        self.parent = parent
        self.parent_call = ""
        """The call of the parent that started it."""
        self.copy_of = self.copied = 0
        """The task this one was copied from (0: none), and the number of copied messages."""
        self.meter = meter
        self.workspace = workspace
        self.services = workspace.services(task_id)
        self.variant: VariantMark | None = None
        """Its place among the variants of one prompt, None for any other task."""
        self.worked_s = 0.0
        """Seconds of its finished turns."""
        self.tests: LastTests | None = None
        self.profile: AgentProfile | None = None
        """The subagent file it works by, None for a task like the person's own."""
        self.call_limits = NO_CALL_LIMITS
        """The permission mode of its subagent file, and what a command file of the person allows until the
        turn ends."""
        self.worktree_state = ""
        """The changes its last turn left in a worktree of its own, as a sentence for the person or the
        parent."""
        self.state: TaskState = "idle"
        self.reason = ""
        self.closed = False
        self.tools: frozenset[str] | None = None
        self.loaded_tools: tuple[str, ...] = ()
        """The tools its searches loaded, in their order."""
        self.declared: Declared | None = None
        """The beginning of the last turn's prompts, None before the first one of this run."""
        self.prefix_changes: list[str] = []
        """The reasons why the beginning of its prompts changed, so that a provider's cache began anew."""
        self.background = False
        self.receipt: Receipt | None = None
        """The receipt of the last turn, None when it changed no file."""
        self.history: list[Message] = []
        self.compaction: Compaction | None = None
        self.queued: list[UserMessage] = []
        self.steering: list[UserMessage] = []
        self.in_delivery: list[UserMessage] = []
        """Prompts a turn has taken from the two lists and not recorded yet."""
        self.not_run: tuple[Call, ...] = ()
        self.cancelled = asyncio.Event()
        self.retry_now: asyncio.Event | None = None
        """Set while the turn waits before it repeats a request; setting the event ends the wait."""
        self.runner: asyncio.Task[None] | None = None
        self.outcome: Outcome | None = None
        self.deadline: asyncio.TimerHandle | None = None
        self.started_at = 0.0
        self.seen_writes = 0
        self.checked_at = 0.0
        self.failed_summaries: tuple[int, str, int] = (0, "", 0)

    def system_prompt(self, parts: BoardParts) -> str:
        """Return the system prompt of its turns: that of its workspace, with the skills and subagents there
        are, or the one of its subagent file; then the instructions of MCP servers whose tools it has."""
        words = parts.server_words(self.tools, self.profile.name if self.profile is not None else "")
        if self.profile is not None:
            return "\n".join(filter(None, (self.profile.system_prompt(self.workspace.boundary), words)))
        more = parts.catalogue.prompt_text() if parts.catalogue is not None else ""
        pieces = "\n\n".join(filter(None, (more, words)))
        return f"{self.workspace.system}\n{pieces}\n" if pieces else self.workspace.system

    @property
    def running(self) -> bool:
        """Tell whether a turn is running."""
        return self.runner is not None and not self.runner.done()

    def start_from(self, original: Task) -> None:
        """Copy another task's conversation, what its subagent file says (but not what was allowed for one of
        its turns) and, in the same workspace, what its tools know about files."""
        if original.workspace is self.workspace:
            self.services = original.services.copy(self.task_id)
        self.copy_of, self.copied = original.task_id, copyable_length(original.history)
        self.history = original.history[: self.copied]
        self.compaction = original.compaction
        self.loaded_tools = original.loaded_tools
        self.profile, self.tools = original.profile, original.tools
        self.call_limits = CallLimits(original.call_limits.mode)

    @property
    def has_only_a_copy(self) -> bool:
        """Tell whether nothing was added since this task started as a copy."""
        return 0 < len(self.history) <= self.copied

    def begin_turn(self, now: float) -> None:
        """Reset the state of the previous turn and mark the task as running."""
        self.cancelled = asyncio.Event()
        self.not_run = ()
        self.reason = ""
        self.state = "running"
        self.started_at = now

    def clear(self) -> None:
        """Clear the conversation and everything that is only true for it."""
        self.history.clear()
        self.compaction = self.receipt = self.tests = None
        self.not_run = ()
        self.copied = 0
        self.loaded_tools, self.declared = (), None
        self.prefix_changes.clear()
        self.meter.context_tokens = 0
        self.services.forget_shown()

    def rewind(self, length: int) -> None:
        """Keep the first `length` messages and reset the state that depended on later ones."""
        del self.history[length:]
        self.copied = min(self.copied, length)
        if self.compaction is not None and self.compaction.through > length:
            self.compaction = None
        self.not_run, self.receipt = (), None
        self.state, self.reason = "idle", ""
        self.services.forget_shown()

    def move(self, workspace: Workspace) -> None:
        """Work in another workspace from the next turn on. What its tools know of files is that of the old
        one, and stays there."""
        self.workspace = workspace
        self.services = workspace.services(self.task_id)

    def record(self) -> TaskChanged:
        """Return the task's record for the journal."""
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
            target=self.workspace.target,
            loaded_tools=self.loaded_tools,
            variant=self.variant,
            worked_s=self.worked_s,
            tests=self.tests,
            mode=self.call_limits.mode or "",
        )

    def last_answer(self) -> str:
        """Return the model's last text, "" when there is none."""
        for message in reversed(self.history):
            if isinstance(message, AssistantMessage) and text_of(message).strip():
                return text_of(message).strip()
        return ""


def restore_task(resumed: ResumedTask, meter: TokenMeter, workspace: Workspace) -> Task:
    """Build the task that a resumed session had."""
    record = resumed.record
    task = Task(
        record.task_id,
        title=record.task.title,
        model=record.task.model,
        parent=record.task.parent,
        meter=meter,
        workspace=workspace,
    )
    task.state, task.reason = record.task.state, record.task.reason
    task.closed = record.task.closed
    task.copy_of, task.copied = record.task.copy_of, record.task.copied
    task.tools = None if record.task.tools is None else frozenset(record.task.tools)
    if record.task.mode:
        # A mode that this buddy does not know is no reason to allow more than the strictest.
        task.call_limits = CallLimits(mode_by_name(record.task.mode) or MODES[0])
    task.loaded_tools = record.task.loaded_tools
    task.variant, task.worked_s, task.tests = record.task.variant, record.task.worked_s, record.task.tests
    task.history = list(record.history)
    task.not_run = resumed.not_run_calls
    task.compaction = record.compaction
    task.receipt = record.receipt
    task.queued, task.steering = list(record.queued), list(record.steering)
    return task


def title_of(message: UserMessage) -> str:
    """Return a short title made from the person's first prompt."""
    text = next((part.text for part in message.parts if isinstance(part, Text)), "")
    first = text.strip().split("\n", 1)[0]
    return first if len(first) <= TITLE_CHARS else first[: TITLE_CHARS - 1] + "…"


def copyable_length(history: list[Message]) -> int:
    """Return how many messages of a history a copy may start with.

    The copy ends with the last exchange whose calls are all answered. Prompts without an answer stay out: the
    copy would answer them too.
    """
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


def changes_since(task: Task, position: int, entries: Sequence[UndoEntry]) -> tuple[UndoEntry, ...]:
    """Return the task's changes that are not undone, from the first call after this message on."""
    calls = {
        call.id
        for one in task.history[position:]
        if isinstance(one, AssistantMessage)
        for call in calls_of(one)
    }
    first = next((index for index, entry in enumerate(entries) if entry.call_id in calls), len(entries))
    return tuple(entries[first:])


def changed_paths(entries: Sequence[UndoEntry]) -> list[str]:
    """Return the paths of changes, each once, sorted."""
    return sorted({path for entry in entries for path in entry.paths})
