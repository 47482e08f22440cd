"""The state of a session as `GET /session` answers it: its tasks, their conversations, what is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from buddy import __version__
from buddy.agent.events import AgentUiEvent, ApprovalRequested, SteeringAccepted, TaskEvent, TurnStarted
from buddy.agent.messages import (
    AssistantMessage,
    AssistantPart,
    Attachment,
    Call,
    Image,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    UserPart,
    text_of,
    typed_text,
)
from buddy.app.session import Session
from buddy.headless.serve.running_turn import Preview, RunningTurn
from buddy.tasks.task import Task, TaskState
from buddy.tools.ask_user import OpenQuestion

MAX_MESSAGES, MAX_CHARS = 200, 400_000
"""The end of a conversation that is sent; `buddy export` and `/export` write all of it."""


class TaskFacts(msgspec.Struct, frozen=True):
    """A task without its conversation. `target` is the other place it works in, "" for this machine.
    `waiting` are the texts sent for after the turn, or for its next step."""

    task_id: int
    title: str
    state: TaskState
    reason: str
    model: str
    parent: int
    is_background: bool
    is_closed: bool
    worktree: str
    target: str
    cost_usd: float
    cost_known: bool
    input_tokens: int
    output_tokens: int
    context_tokens: int
    context_limit: int
    waiting: tuple[str, ...]


class TaskSnapshot(msgspec.Struct, frozen=True):
    """A task with the end of its conversation. `earlier` counts the messages before it; `live` are the events
    of the running turn that the messages may not have yet, `previews` the calls that still arrive."""

    facts: TaskFacts
    earlier: int
    messages: tuple[Message, ...]
    live: tuple[AgentUiEvent, ...]
    previews: tuple[Preview, ...]


class TaskApproval(msgspec.Struct, frozen=True):
    """An open request for approval."""

    task_id: int
    event: ApprovalRequested


class SessionSnapshot(msgspec.Struct, frozen=True):
    """The whole session. `last_event_id` is where `/events` goes on without a gap; `focus` is the task in the
    foreground; `save_problem` is "" while everything is saved."""

    version: str
    session_id: str
    name: str
    folder: str
    mode: str
    focus: int
    cost_usd: float
    tokens: int
    save_problem: str
    last_event_id: str
    tasks: tuple[TaskSnapshot, ...]
    approvals: tuple[TaskApproval, ...]
    questions: tuple[OpenQuestion, ...]


def task_facts(task: Task) -> TaskFacts:
    """Return the facts of a task."""
    meter = task.meter
    return TaskFacts(
        task_id=task.task_id,
        title=task.title,
        state=task.state,
        reason=task.reason,
        model=task.model,
        parent=task.parent,
        is_background=task.background,
        is_closed=task.closed,
        worktree=task.workspace.worktree.name if task.workspace.worktree else "",
        target=task.workspace.target,
        cost_usd=meter.cost_usd,
        cost_known=meter.cost_known,
        input_tokens=meter.total.input_tokens,
        output_tokens=meter.total.output_tokens,
        context_tokens=meter.context_tokens,
        context_limit=meter.window.limit,
        waiting=tuple(typed_text(message) for message in (*task.steering, *task.queued)),
    )


def session_snapshot(
    session: Session, turns: Mapping[int, RunningTurn], last_event_id: str
) -> SessionSnapshot:
    """Return the state of a session."""
    board = session.board
    cost_usd, tokens = board.spending()
    names = session.writer.state()
    saving = session.writer.save_state
    return SessionSnapshot(
        version=__version__,
        session_id=session.session_id,
        name=names.name or names.title,
        folder=session.launch.boundary.cwd,
        mode=session.policy.mode,
        focus=board.focus,
        cost_usd=cost_usd,
        tokens=tokens,
        save_problem="" if saving.saved else saving.reason,
        last_event_id=last_event_id,
        tasks=tuple(_task_snapshot(task, turns.get(task.task_id)) for task in board.tasks.values()),
        approvals=tuple(TaskApproval(request.task_id, request.event) for request in board.inbox.waiting()),
        questions=session.questions.waiting(),
    )


def _task_snapshot(task: Task, turn: RunningTurn | None) -> TaskSnapshot:
    earlier = max(_earlier(task.history), task.copied)  # the copied ones stand in the task they come from
    return TaskSnapshot(
        facts=task_facts(task),
        earlier=earlier,
        messages=tuple(shown_message(message) for message in task.history[earlier:]),
        live=tuple(shown_event(event) for event in turn.events()) if turn is not None else (),
        previews=turn.previews() if turn is not None else (),
    )


def _earlier(history: Sequence[Message]) -> int:
    """Return the number of messages that are left out."""
    at, chars = len(history), 0
    while at and len(history) - at < MAX_MESSAGES and chars < MAX_CHARS:
        at -= 1
        chars += len(text_of(history[at]))
    return at


def shown_message(message: Message) -> Message:
    """Return a message without what only a provider reads: pictures, attached texts, opaque fields."""
    match message:
        case UserMessage():
            return _shown_prompt(message)
        case AssistantMessage():
            parts = tuple(_shown_part(part) for part in message.parts)
            return msgspec.structs.replace(message, parts=parts, opaque={})
        case ToolMessage():
            return msgspec.structs.replace(message, images=())


def _shown_prompt(message: UserMessage) -> UserMessage:
    parts: list[UserPart] = []
    for part in message.parts:
        match part:
            case Text():
                parts.append(part)
            case Attachment():
                parts.append(Attachment(part.title, ""))
            case Image():
                parts.append(Image(part.media_type, ""))
    return msgspec.structs.replace(message, parts=tuple(parts))


def _shown_part(part: AssistantPart) -> AssistantPart:
    match part:
        case Text():
            return Text(part.text)
        case Thinking():
            return Thinking(part.text, "")
        case Call():
            return Call(part.id, part.name, part.arguments)
        case ServerItem():
            return ServerItem({})


def shown_event(event: AgentUiEvent) -> AgentUiEvent:
    """Return an event without the pictures and attached texts of prompts, which can be many megabytes; every
    other event as it is."""
    if isinstance(event, TurnStarted):
        return TurnStarted(tuple(_shown_prompt(prompt) for prompt in event.prompts))
    if isinstance(event, SteeringAccepted):
        return SteeringAccepted(_shown_prompt(event.message))
    return event


def shown_task_event(task_event: TaskEvent) -> TaskEvent:
    """Return an event of a task as it is sent."""
    event = shown_event(task_event.event)
    return task_event if event is task_event.event else msgspec.structs.replace(task_event, event=event)
