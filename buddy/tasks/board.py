"""The task board: owns every conversation of a session, its events and its approvals.

An async context manager; leaving it cancels and awaits everything. Every operation works at every time, or
raises `TaskError` with one sentence that says why it can't.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec.structs import replace

from buddy.agent.budget import Budget, TokenMeter
from buddy.agent.events import AgentUiEvent, ApprovalRequested, ApprovalResolved, Notice, TokenUsage
from buddy.agent.history import reopened
from buddy.agent.host import Outcome
from buddy.agent.loop import agent_loop, agent_loop_continue
from buddy.agent.messages import AssistantMessage, Origin, Text, UserMessage, UserPart, unanswered
from buddy.safety.rules import Rule
from buddy.sessions.journal import NotSavedError
from buddy.sessions.load import ResumedTask
from buddy.sessions.records import BudgetSet
from buddy.tasks.delegation import Delegations
from buddy.tasks.events import EventHub, EventReader
from buddy.tasks.execution import Writes
from buddy.tasks.inbox import Inbox
from buddy.tasks.parts import BoardParts
from buddy.tasks.task import Note, Task, TaskError, legal_length, title_of
from buddy.tasks.turns import TurnParts, agent_of, host_of

_log = logging.getLogger(__name__)
CLOSE_LIMIT_S = 5
UNSAVED_LIMIT_S = 0.5


class TaskBoard:
    """Every task of a session. Construct it inside a running event loop and use it as `async with`."""

    def __init__(self, parts: BoardParts) -> None:
        self.delegations = Delegations(self)
        self.parts = parts = replace(parts, services=self.delegations.given(parts.services))
        self.hub = EventHub(parts.clock.now)
        self.inbox = Inbox(
            policy=parts.policy,
            emit=self._emit,
            record=self._record_approval,
            now=parts.clock.now,
            wall=parts.clock.wall,
            remember=self._remember,
            save=parts.save_rules,
        )
        self.tasks: dict[int, Task] = {}
        self.notes: list[Note] = []
        self.focus = 0
        self._leaving = False
        self.session_budget = parts.session_budget
        self._shared = TurnParts(parts, self.hub, self.inbox, Writes(), self._changed, self.delegations)

    async def __aenter__(self) -> TaskBoard:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    # -- tasks ---------------------------------------------------------------------------------------------

    def open(self, title: str = "", *, model: str = "", copy_of: int = 0, parent: int = 0) -> Task:
        """A new task, empty or starting from a copy of another's conversation. Raises `ConfigError`."""
        number = max(self.tasks, default=0) + 1
        original = self.task(copy_of) if copy_of else None
        model = model or (original.model if original else "")
        services = original.services.copy(number) if original else self.parts.services(number)
        task = Task(
            number, title=title, model=model, parent=parent, meter=self.meter(model), services=services
        )
        copied = 0
        if original is not None:
            copied = legal_length(original.history)
            task.history = original.history[:copied]
            task.compaction = original.compaction
        self.tasks[number] = task
        record = replace(task.record(), copy_of=copy_of, copied=copied)
        self.parts.memory.record_task(number, record)
        if not self.focus:
            self.set_focus(number)
        return task

    def restore(self, resumed: Sequence[ResumedTask], focus: int) -> None:
        """Put the tasks of a resumed session on the board, as they were; what ran is paused."""
        for one in resumed:
            record = one.record
            task = Task(
                record.number,
                title=record.task.title,
                model=record.task.model,
                parent=record.task.parent,
                meter=self.meter(record.task.model, record.usage),
                services=self.parts.services(record.number),
            )
            task.state, task.reason = record.task.state, record.task.reason
            task.closed = record.task.closed
            task.tools = None if record.task.tools is None else frozenset(record.task.tools)
            task.background = record.number != focus
            task.history = list(record.history)
            task.not_run = one.not_run_calls
            task.compaction = record.compaction
            task.queued, task.steering = list(record.queued), list(record.steering)
            self.tasks[record.number] = task
        self.focus = focus if focus in self.tasks else min(self.tasks, default=0)

    def task(self, number: int) -> Task:
        """The task of a number. Raises `TaskError` naming those there are."""
        found = self.tasks.get(number)
        if found is None:
            known = ", ".join(str(known) for known in self.tasks) or "none"
            raise TaskError(f"there is no task {number} (tasks: {known})")
        return found

    def meter(self, model: str, usage: TokenUsage | None = None) -> TokenMeter:
        """A counter for a task on this model, going on from what the task has used."""
        access = self.parts.model(model)
        meter = TokenMeter(
            window=access.window,
            price=access.price,
            budget=self.parts.task_budget,
            spent=usage.total if usage else None,
            cost_usd=usage.cost_usd if usage else 0,
            session=self.session_budget,
            session_spent=self.spent,
            day=self.parts.day,
        )
        meter.context_tokens = usage.context_tokens if usage else 0
        return meter

    def spent(self) -> tuple[float, int]:
        """Dollars and tokens of the whole session."""
        meters = [task.meter for task in self.tasks.values()]
        tokens = sum(meter.total.input_tokens + meter.total.output_tokens for meter in meters)
        return sum(meter.cost_usd for meter in meters), tokens

    def set_focus(self, number: int) -> None:
        """Show this task in full."""
        self.task(number).background = False
        self.focus = number
        self.parts.memory.record_focus(number)

    def message(self, content: str | Sequence[UserPart], origin: Origin) -> UserMessage:
        """A person's words as a message."""
        given = (Text(content),) if isinstance(content, str) else tuple(content)
        said = UserMessage(self.parts.clock.new_id(), given, origin)
        return cast(UserMessage, self.parts.redact(said))  # here, because titles and queues are written too

    # -- turns ---------------------------------------------------------------------------------------------

    def submit(self, number: int, content: str | Sequence[UserPart]) -> asyncio.Task[None]:
        """Start a turn. Raises `TaskError` while one runs: steer or queue then."""
        task = self._free(number)
        prompt = self.message(content, "prompt")
        self._entitle(task, prompt)
        if number == self.focus and self.notes:
            prompt = replace(prompt, parts=(*self._taken_notes(), *prompt.parts))
        return self._start(task, (prompt,))

    def go_on(self, number: int) -> asyncio.Task[None]:
        """Continue a task that was interrupted, paused or failed. Raises `TaskError` where nothing waits."""
        task = self._free(number)
        if not task.history:
            raise TaskError(f"task {number} has nothing to continue: it has not begun")
        if task.not_run:
            task.history = list(reopened(task.history, task.not_run))
            self.parts.memory.replace_history(number, "continued", len(task.history))
        last = task.history[-1]
        if isinstance(last, AssistantMessage) and not unanswered(task.history):
            if last.finish != "cut" and task.state in ("idle", "finished"):
                raise TaskError(f"task {number} has nothing to continue: the model had finished")
            return self._start(task, (self.message("Continue exactly where you stopped.", "prompt"),))
        return self._start(task, ())

    async def steer(self, number: int, content: str | Sequence[UserPart]) -> None:
        """Text for the running turn, at its next boundary; a prompt when nothing runs."""
        task = self.task(number)
        if not task.running:
            self.submit(number, content)
            return
        task.steering.append(self.message(content, "steer"))
        await self._save_waiting(task)
        self.inbox.withdraw(number, "new instructions")
        self.delegations.instructed(task)

    async def queue(self, number: int, content: str | Sequence[UserPart]) -> None:
        """Text for after the turn; a prompt when nothing runs."""
        task = self.task(number)
        if not task.running:
            self.submit(number, content)
            return
        task.queued.append(self.message(content, "follow_up"))
        await self._save_waiting(task)

    async def take_back(self, number: int) -> UserMessage | None:
        """The last text that waits, out of its queue again."""
        task = self.task(number)
        waiting = task.queued or task.steering
        if not waiting:
            return None
        message = waiting.pop()
        await self._save_waiting(task)
        return message

    def cancel(self, number: int, reason: str = "") -> tuple[UserMessage, ...]:
        """Cancel the running turn; what was queued is handed back. Nothing happens where nothing runs."""
        task = self.task(number)
        texts = (*task.steering, *task.queued)
        if texts:
            task.steering.clear()
            task.queued.clear()
            self.parts.memory.record_queue(number, (), ())
        if task.running:
            task.reason = reason
            task.cancelled.set()
        return texts

    async def kill(self, number: int) -> None:
        """Cancel the turn and close the task."""
        task = self.task(number)
        self.cancel(number)
        await self.wait(number)
        task.closed = True
        task.state = "cancelled"
        self.parts.memory.record_task(number, task.record())

    async def wait(self, number: int) -> Outcome | None:
        """Wait until the task's turn is over; how it ended, None when it never ran."""
        task = self.task(number)
        if task.runner is not None:
            await asyncio.wait({task.runner})
        return task.outcome

    def set_timeout(self, number: int, seconds: float) -> None:
        """Cancel the running turn after this time; 0 takes the limit back."""
        task = self.task(number)
        if task.deadline is not None:
            task.deadline.cancel()
            task.deadline = None
        if seconds > 0:
            reason = f"its time limit of {seconds:g} s is over"
            task.deadline = asyncio.get_running_loop().call_later(seconds, self.cancel, number, reason)

    def reset(self, number: int) -> None:
        """Empty a conversation. The journal keeps what was said."""
        self._free(number).forget()
        self.parts.memory.replace_history(number, "reset", 0)

    def change_model(self, number: int, name: str) -> None:
        """Answer with another model from the next turn on. Raises `ConfigError`, `TaskError`."""
        task = self._free(number)
        old = task.meter
        task.meter = self.meter(name, old.report())
        task.model = name
        self.parts.memory.record_task(number, task.record())

    def set_budget(self, number: int, dollars: float) -> None:
        """Limit a task, or (0) the session; 0 dollars is no limit."""
        if number:
            meter = self.task(number).meter
            meter.budget = Budget(dollars, meter.budget.max_tokens)
        else:
            self.session_budget = Budget(dollars, self.session_budget.max_tokens)
            for task in self.tasks.values():
                task.meter.session = self.session_budget
        self.parts.memory.record_budget(BudgetSet(dollars, 0), number)

    async def close(self) -> None:
        """Cancel every turn and await it; what ran is paused, and goes on after a resume."""
        self._leaving = True
        runners = [task.runner for task in self.tasks.values() if task.runner and not task.runner.done()]
        for task in self.tasks.values():
            if task.running:
                task.reason = "buddy was left"
                task.cancelled.set()
            if task.deadline is not None:
                task.deadline.cancel()
        if not runners:
            return
        saved = self.parts.memory.save_state.saved
        _done, late = await asyncio.wait(runners, timeout=CLOSE_LIMIT_S if saved else UNSAVED_LIMIT_S)
        for runner in late:
            runner.cancel()
        if late and not self.parts.memory.save_state.saved:
            # They wait for a disk that refuses, and nothing may interrupt that. The writer, when it is
            # closed, tells them so; its own end tells the person what is lost.
            with contextlib.suppress(NotSavedError):
                await self.parts.memory.close()
        await asyncio.wait(runners)

    # -- the inside ----------------------------------------------------------------------------------------

    def reader(self) -> EventReader:
        """A front end's view on all events from now on."""
        return self.hub.reader()

    def _free(self, number: int) -> Task:
        task = self.task(number)
        if task.running:
            raise TaskError(f"task {number} is running; steer it, queue, or cancel it first")
        if task.closed:
            raise TaskError(f"task {number} is closed; open another one")
        return task

    def _entitle(self, task: Task, prompt: UserMessage) -> None:
        if not task.title:
            task.title = title_of(prompt)
            if not any(other.title for other in self.tasks.values() if other is not task):
                self.parts.memory.rename(name=self.parts.memory.state().name, title=task.title)

    def _start(self, task: Task, prompts: tuple[UserMessage, ...]) -> asyncio.Task[None]:
        task.cancelled = asyncio.Event()
        task.not_run = ()
        task.reason = ""
        task.state = "running"
        task.started_at = self.parts.clock.now()
        task.runner = asyncio.create_task(self._run(task, prompts), name=f"task {task.number}")
        return task.runner

    async def _run(self, task: Task, prompts: tuple[UserMessage, ...]) -> None:
        self.parts.memory.record_task(task.number, task.record())
        try:
            task.outcome = await self._turn(task, prompts)
        except asyncio.CancelledError:
            task.outcome = Outcome("cancelled", "cancelled", "", 0, ())
        # The border of a task: whatever happens in one, SystemExit and MemoryError included, only it fails.
        except BaseException as error:  # noqa: BLE001 - see above
            _log.error("task %d failed", task.number, exc_info=error)
            reason = f"{type(error).__name__}: {error}"
            task.outcome = Outcome("failed", reason, "crash", 0, ())
            self._emit(task.number, Notice("error", f"task {task.number} failed: {reason}"))
        self._ended(task, task.outcome)

    async def _turn(self, task: Task, prompts: tuple[UserMessage, ...]) -> Outcome:
        access = self.parts.model(task.model)
        agent = agent_of(self._shared, task, access, lambda: task.number == self.focus)
        host = host_of(self._shared, task)
        if prompts:
            return await agent_loop(prompts, agent, task.history, host)
        return await agent_loop_continue(agent, task.history, host)

    def _ended(self, task: Task, outcome: Outcome) -> None:
        match outcome.outcome:
            case "completed":
                task.state = "finished" if task.background else "idle"
            case "limit":
                task.state = "paused"
            case "failed":
                task.state = "failed"
            case "cancelled":
                task.state = "paused" if self._leaving else "cancelled"
        task.reason = task.reason or outcome.reason
        task.outcome = replace(outcome, reason=task.reason)
        if task.deadline is not None:
            task.deadline.cancel()
            task.deadline = None
        self.delegations.ended(task)
        if task.background and not task.parent and outcome.outcome == "completed":
            heading = f"Background task {task.number}, {task.title!r}, has finished. Its answer:"
            self.notes.append(Note(task.number, task.title, task.last_answer(), heading))
        task.runner = None
        with contextlib.suppress(NotSavedError):  # the writer was closed first: it has said what is lost
            self.parts.memory.record_task(task.number, task.record())
            if not any(other.running for other in self.tasks.values()):
                self.parts.memory.idle()

    def _changed(self, task: Task) -> None:
        asked = any(request.task_id == task.number for request in self.inbox.waiting())
        task.state = "waiting" if asked else "running"

    def _taken_notes(self) -> list[UserPart]:
        notes, self.notes = self.notes, []
        return [Text(f"[{note.heading}]\n{note.text}\n\n") for note in notes]

    async def _save_waiting(self, task: Task) -> None:
        self.delegations.wake(task.number)
        await self.parts.memory.record_queue(task.number, tuple(task.queued), tuple(task.steering))

    def _emit(self, number: int, event: AgentUiEvent) -> None:
        self.hub.emit(number, event)
        if isinstance(event, ApprovalRequested | ApprovalResolved):
            self._changed(self.tasks[number])

    async def _record_approval(self, number: int, event: ApprovalRequested | ApprovalResolved) -> None:
        await self.parts.memory.record_approval(number, event)

    def _remember(self, rules: tuple[Rule, ...], until: float | None) -> None:
        for grant in self.parts.policy.grant(rules, until):
            self.parts.memory.record_grant(self.parts.clock.new_id(), msgspec.to_builtins(grant))
