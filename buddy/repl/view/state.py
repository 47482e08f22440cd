"""The state of the screen: one record that only `view.fold` and the app change; drawing only reads it."""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from buddy.agent.display import Display
from buddy.agent.events import RiskName, TokenUsage
from buddy.agent.messages import Call
from buddy.repl.render import numbers as words
from buddy.repl.render.markdown import MarkdownStream
from buddy.repl.view.blocks import ApprovalAsked, Block, Foldable, ToolCall, request_name
from buddy.tools.streaming_arguments import ArgumentsSoFar
from buddy.workspace.sandbox.status import NO_SANDBOX, SandboxStatus

KEPT_FOLDED = 30
KEPT_HELD = 400


class QueueRow(msgspec.Struct, frozen=True):
    """Text that waits to be sent, at the next tool boundary or after the turn; or a model's question that
    waits for an answer, which its number addresses."""

    kind: Literal["question", "steer", "queue", "note"]
    task_id: int
    text: str
    number: int = 0

    @property
    def answer_hint(self) -> str:
        """Return the command that answers a question, in brackets."""
        return f" (/answer {self.number} …)"


class OwnRow(msgspec.Struct, frozen=True):
    """A running command the user started beside the tasks (`! make`). `last_line` is its last output."""

    title: str
    since: float
    last_line: str


class SessionFacts(msgspec.Struct, frozen=True):
    """Facts for the screen that do not arrive as events.

    `focus` is the foreground task; `names` are the titles of tasks; `extra` are further words for the footer
    (a budget, a warning); `own` is the work the user started beside the tasks; `usage` is that of the
    foreground task, including earlier runs; `untrusted` means the trust question is open; `coming` means a
    turn of the foreground task runs or is about to start; `branch` is the workspace's, with a star when files
    are changed; `enter_queues` is the setting that text for a running task waits for the end of its turn;
    `jobs` are the background commands; `target` is the machine the foreground task works on, with the state
    of its connection where that is lost, "" for this one.
    """

    focus: int
    mode: str
    model: str
    sandbox: SandboxStatus
    queue: tuple[QueueRow, ...]
    names: dict[int, str]
    extra: tuple[str, ...] = ()
    own: tuple[OwnRow, ...] = ()
    usage: TokenUsage | None = None
    untrusted: bool = False
    coming: bool = False
    branch: str = ""
    enter_queues: bool = False
    jobs: tuple[str, ...] = ()
    target: str = ""


NO_SESSION = SessionFacts(focus=1, mode="ask", model="", sandbox=NO_SANDBOX, queue=(), names={})


class WaitingPhase(msgspec.Struct):
    """The request was sent; nothing has arrived yet."""

    since: float


class ThinkingPhase(msgspec.Struct):
    """Reasoning is arriving."""

    since: float
    chars: int
    text: str


class Writing(msgspec.Struct):
    """Answer text is arriving."""


class Calling(msgspec.Struct):
    """Arguments of calls are arriving, by call id; `call_id` is the latest."""

    call_id: str
    name: str
    calls: dict[str, ArgumentsSoFar]

    @property
    def so_far(self) -> ArgumentsSoFar:
        """Return the arguments received so far for the latest call."""
        return self.calls[self.call_id]


class Working(msgspec.Struct):
    """Between replies: tools run, or the next request is being prepared."""

    since: float


class Retrying(msgspec.Struct):
    """The request is repeated at `due`. `count` tells which attempt failed, of how many; "" before the
    first."""

    due: float
    why: str
    count: str = ""


class Loading(msgspec.Struct):
    """The request waits for a library."""

    since: float
    name: str


Phase = Loading | WaitingPhase | ThinkingPhase | Writing | Calling | Working | Retrying


class RunningTool(msgspec.Struct):
    """A call between its start and its end. `last_line` is its last output, `asked` the preview of its
    approval; with `begun` false it never runs."""

    call: Call
    title: str
    risk: RiskName
    since: float
    last_line: str
    asked: Display | None = None
    begun: bool = True


class TaskView:
    """A task on the screen. `phase` is None between turns."""

    def __init__(self, task_id: int) -> None:
        self.task_id = task_id
        self.phase: Phase | None = None
        self.heard_at = 0.0
        self.tools: dict[str, RunningTool] = {}
        self.stream = MarkdownStream()
        self.stream_block = -1
        self.thought: list[str] = []
        self.thought_since = 0.0
        self.order: deque[str] = deque()
        """The ids of begun calls that are not printed yet, in the order of the reply."""
        self.finished: dict[str, ToolCall] = {}
        """The ended calls among them."""
        self.lookups: list[ToolCall] = []
        """Ended lookups that wait for others of the same reply, to be printed in one line."""
        self.calls = 0
        self.refused = self.failed = 0
        self.not_begun = 0
        self.output_tokens = 0
        self.held: deque[Block] = deque(maxlen=KEPT_HELD)
        self.last_reply: list[Block] = []
        self.turn_tokens = 0

    @property
    def is_running(self) -> bool:
        """Tell whether a turn is running."""
        return self.phase is not None


class InboxRow(msgspec.Struct):
    """A waiting request for approval. `drawn_at` is when it first was on the screen, `marked_at` when it
    first was the marked row there, None before; `folded` counts its lines that were not printed."""

    request_id: str
    number: int
    digest: str
    task_id: int
    call: Call
    title: str
    risk: RiskName
    reason: str
    preview: Display
    rule: str
    since: float
    drawn_at: float | None
    marked_at: float | None
    session: str = ""
    folded: int = 0

    @property
    def name(self) -> str:
        """Return the request's name for people: `/ok` takes its number, `@` the task's."""
        return request_name(self.number, self.task_id)

    def block(self) -> ApprovalAsked:
        """Return the block that announces the request."""
        return ApprovalAsked(
            self.request_id, self.number, self.task_id, self.title, self.risk, self.reason, self.preview
        )

    def unfold(self) -> None:
        """Note that all of it is being printed: it counts as seen once that is on the screen."""
        self.folded, self.drawn_at, self.marked_at = 0, None, None


class ViewState:
    """The whole screen. Rows of the inbox are in order of arrival; the first is the marked one."""

    def __init__(self) -> None:
        self.tasks: dict[int, TaskView] = {}
        self.inbox: list[InboxRow] = []
        self.folded: deque[Foldable] = deque(maxlen=KEPT_FOLDED)
        self.deferred: list[Block] = []
        """Answers of background tasks that wait for the end of the foreground answer."""
        self.warned_of_sandbox = False
        self.facts = NO_SESSION

    def reset(self) -> None:
        """Clear everything for another session."""
        self.tasks.clear()
        self.inbox.clear()
        self.folded.clear()
        self.deferred.clear()
        self.facts = NO_SESSION

    @property
    def focus(self) -> int:
        """Return the id of the foreground task."""
        return self.facts.focus

    def task(self, task_id: int) -> TaskView:
        """Return the view of a task, created on first use."""
        view = self.tasks.get(task_id)
        if view is None:
            view = self.tasks[task_id] = TaskView(task_id)
        return view

    def running(self) -> list[TaskView]:
        """Return the tasks with a running turn, the foreground task first."""
        tasks = [task for task in self.tasks.values() if task.is_running]
        return sorted(tasks, key=lambda task: (task.task_id != self.focus, task.task_id))

    def running_names(self) -> list[str]:
        """Return the names of everything that leaving would end: tasks, jobs, the user's commands."""
        tasks = [
            words.running_name(f"task {task.task_id}", self.name(task.task_id)) for task in self.running()
        ]
        return [*tasks, *self.facts.jobs, *(row.title for row in self.facts.own)]

    def name(self, task_id: int) -> str:
        """Return a task's title, "" when it has none."""
        return self.facts.names.get(task_id, "")

    def marked_row(self) -> InboxRow | None:
        """Return the request that a bare y, a, p or n answers: the oldest."""
        return self.inbox[0] if self.inbox else None
