"""The task board: owns every conversation of a session, its events and its approvals.

An async context manager; leaving it cancels and awaits everything. Every operation works at every time, or
raises `TaskError` with one sentence that says why it can't.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import msgspec

from buddy.agent.budget import Budget
from buddy.agent.events import AgentUiEvent, ApprovalRequested, ApprovalResolved
from buddy.agent.history import reopened
from buddy.agent.host import Outcome
from buddy.agent.messages import AssistantMessage, Origin, Text, UserMessage, UserPart, unanswered
from buddy.safety.rules import Rule
from buddy.sessions.load import ResumedTask
from buddy.tasks.delegation import Delegations
from buddy.tasks.events import EventHub, EventReader
from buddy.tasks.execution import Writes
from buddy.tasks.inbox import Inbox
from buddy.tasks.notes import Notes
from buddy.tasks.parts import BoardParts
from buddy.tasks.places import TaskWorkspaces
from buddy.tasks.running import Running
from buddy.tasks.spending import Spending
from buddy.tasks.task import Task, TaskError, restored, title_of
from buddy.tasks.turns import TurnParts


class TaskBoard:
    """Every task of a session. Construct it inside a running event loop and use it as `async with`."""

    def __init__(self, parts: BoardParts) -> None:
        self.delegations = Delegations(self)
        self.parts = parts
        self.tasks: dict[int, Task] = {}
        self.places = TaskWorkspaces(parts, self.tasks, self.delegations.given)
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
        self.focus = 0
        self.notes = Notes(parts.memory, lambda: self.focus)
        self._spending = Spending(parts, self.tasks)
        self._running = Running(
            TurnParts(parts, self.hub, self.inbox, Writes(), self._changed, self.delegations, self.places),
            self.tasks,
            is_foreground=lambda number: number == self.focus,
            offer=self.notes.offer,
        )

    async def __aenter__(self) -> TaskBoard:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    # -- tasks ---------------------------------------------------------------------------------------------

    def open(
        self, title: str = "", *, model: str = "", copy_of: int = 0, parent: int = 0, worktree: str = ""
    ) -> Task:
        """A new task, empty or starting from a copy of another's conversation; it works where that does, or
        its parent, unless a worktree is named. Raises `ConfigError`."""
        number = max(self.tasks, default=0) + 1
        original = self.task(copy_of) if copy_of else None
        model = model or (original.model if original else "")
        place = self.places.of(self.tasks.get(copy_of or parent), worktree)
        meter = self._spending.meter(model)
        task = Task(number, title=title, model=model, parent=parent, meter=meter, workspace=place)
        if original:
            task.start_from(original)
        self.tasks[number] = task
        self.parts.memory.record_task(number, task.record())
        if not self.focus:
            self.set_focus(number)
        return task

    def restore(self, resumed: Sequence[ResumedTask], focus: int) -> None:
        """Put the tasks of a resumed session on the board, as they were; what ran is paused."""
        for one in resumed:
            record = one.record
            meter = self._spending.meter(record.task.model, record.usage)
            task = restored(one, meter, self.places.named(record.task.worktree))
            task.background = record.number != focus
            self.tasks[record.number] = task
        self.focus = focus if focus in self.tasks else min(self.tasks, default=0)
        self._spending.restore()
        self.notes.not_carried()

    def task(self, number: int) -> Task:
        """The task of a number. Raises `TaskError` naming those there are."""
        found = self.tasks.get(number)
        if found is None:
            known = ", ".join(str(known) for known in self.tasks) or "none"
            raise TaskError(f"there is no task {number} (tasks: {known})")
        return found

    def spent(self) -> tuple[float, int]:
        """Dollars and tokens of the whole session."""
        return self._spending.spent()

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
        before, prompt = self.places.told(task), self.message(content, "prompt")
        self._entitle(task, prompt)
        if number == self.focus:
            prompt = self.notes.carried(prompt)
        runner = self._running.start(task, (*before, prompt))
        runner.add_done_callback(lambda _runner: self.notes.not_carried(prompt.id))
        return runner

    def go_on(self, number: int) -> asyncio.Task[None]:
        """Continue a task that was interrupted, paused or failed. Raises `TaskError` where nothing waits."""
        task = self._free(number)
        if not task.history:
            raise TaskError(f"task {number} has nothing to continue: it has not begun")
        if task.has_only_a_copy:
            raise TaskError(self._only_a_copy(task))
        if task.not_run:
            task.history = list(reopened(task.history, task.not_run))
            self.parts.memory.replace_history(number, "continued", len(task.history))
        last = task.history[-1]
        if isinstance(last, AssistantMessage) and not unanswered(task.history):
            if last.finish != "cut" and task.state in ("idle", "finished"):
                raise TaskError(f"task {number} has nothing to continue: the model had finished")
            return self._running.start(task, (self.message("Continue exactly where you stopped.", "prompt"),))
        return self._running.start(task, ())

    def _only_a_copy(self, task: Task) -> str:
        first = task.copy_of
        original = self.tasks.get(first)
        is_running = original is not None and original.running
        there = (
            f"which is running: /fg {first} shows it" if is_running else f"/continue {first} goes on there"
        )
        return f"task {task.number} has nothing to continue: it begins with a copy of task {first}, {there}"

    def hurry(self, number: int) -> bool:
        """Ask the task's model at once, whatever the provider asked to wait for. False when nobody waits."""
        task = self.task(number)
        governor = self.parts.model(task.model).governor
        waits = governor.is_closed or task.hurry is not None
        governor.lift()
        if task.hurry is not None:
            task.hurry.set()
        return waits

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
            self.parts.memory.record_queue(number, (), tuple(task.taken))
        self._stop(task, reason)
        return texts

    def _stop(self, task: Task, reason: str) -> None:
        if task.running:
            task.reason = reason
            task.cancelled.set()

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
        """Cancel the running turn after this time; 0 takes the limit back. Nobody is there then to hand to
        what was queued: it waits for the next turn."""
        task = self.task(number)
        if task.deadline is not None:
            task.deadline.cancel()
            task.deadline = None
        if seconds > 0:
            reason = f"its time limit of {seconds:g} s (/timeout) ran out"
            task.deadline = asyncio.get_running_loop().call_later(seconds, self._stop, task, reason)

    def reset(self, number: int) -> None:
        """Empty a conversation. The journal keeps what was said."""
        self._free(number).forget()
        self.parts.memory.replace_history(number, "reset", 0)

    def change_model(self, number: int, name: str) -> None:
        """Answer with another model from the next turn on. Raises `ConfigError`, `TaskError`."""
        task = self._free(number)
        old = task.meter
        task.meter = self._spending.meter(name, old.report())
        task.meter.budget = old.budget
        task.model = name
        self.parts.memory.record_task(number, task.record())

    def set_budget(self, number: int, budget: Budget) -> None:
        """Limit a task, or (0) the session; 0 dollars or tokens is no limit."""
        if number:
            self._spending.limit_task(self.task(number), budget)
        else:
            self._spending.limit_session(budget)

    def budget(self, number: int) -> Budget:
        """The limits of a task, or (0) of the session."""
        return self.task(number).meter.budget if number else self._spending.session_budget

    async def close(self) -> None:
        """Cancel every turn and await it; what ran is paused, and goes on after a resume."""
        await self._running.end_all()
        await self.places.tidied()

    # -- the inside ----------------------------------------------------------------------------------------

    def reader(self) -> EventReader:
        """A front end's view on all events from now on."""
        return self.hub.reader()

    def _free(self, number: int) -> Task:
        task = self.task(number)
        if task.running:
            raise TaskError(f"task {number} is running: wait until it is done, or cancel it (Esc)")
        if task.closed:
            raise TaskError(f"task {number} is closed; `TEXT &` starts another one")
        return task

    def _entitle(self, task: Task, prompt: UserMessage) -> None:
        if not task.title:
            task.title = title_of(prompt)
            if not any(other.title for other in self.tasks.values() if other is not task):
                self.parts.memory.rename(name=self.parts.memory.state().name, title=task.title)

    def _changed(self, task: Task) -> None:
        asked = any(request.task_id == task.number for request in self.inbox.waiting())
        task.state = "waiting" if asked else "running"

    async def _save_waiting(self, task: Task) -> None:
        self.delegations.wake(task.number)
        await self.parts.memory.record_queue(task.number, tuple(task.queued), (*task.taken, *task.steering))

    def _emit(self, number: int, event: AgentUiEvent) -> None:
        self.hub.emit(number, event)
        if isinstance(event, ApprovalRequested | ApprovalResolved):
            self._changed(self.tasks[number])

    async def _record_approval(self, number: int, event: ApprovalRequested | ApprovalResolved) -> None:
        await self.parts.memory.record_approval(number, event)

    def _remember(self, rules: tuple[Rule, ...], until: float | None) -> None:
        for grant in self.parts.policy.grant(rules, until):
            self.parts.memory.record_grant(self.parts.clock.new_id(), msgspec.to_builtins(grant))
