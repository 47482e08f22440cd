"""The task board: owns every conversation of a session, its events, approvals, notes and spending."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import msgspec
from msgspec.structs import replace

from buddy.agent.budget import Budget, TokenMeter
from buddy.agent.events import AgentUiEvent, ApprovalRequested, ApprovalResolved, TokenUsage
from buddy.agent.history import reopen_calls
from buddy.agent.host import Outcome
from buddy.agent.messages import AssistantMessage, Origin, Text, UserMessage, UserPart, unanswered_calls
from buddy.safety.policy.rules import Rule
from buddy.sessions.journal import NotSavedError
from buddy.sessions.loading import ResumedTask
from buddy.sessions.records import BudgetSet, Note
from buddy.sessions.writer import SessionWriter
from buddy.tasks.approvals import Inbox
from buddy.tasks.dependencies import BoardParts
from buddy.tasks.event_hub import EventHub, EventReader
from buddy.tasks.subagents import Delegations
from buddy.tasks.task import Task, TaskError, restored, title_of
from buddy.tasks.tool_execution import Writes
from buddy.tasks.turn_host import TurnParts
from buddy.tasks.turn_runner import Running
from buddy.tasks.workspaces import TaskWorkspaces


class Spending:
    """The one owner of the session's budget. `tasks`: those of the board, by number."""

    def __init__(self, parts: BoardParts, tasks: Mapping[int, Task]) -> None:
        self._parts = parts
        self._tasks = tasks
        self._session = parts.session_budget

    def meter(self, model: str, usage: TokenUsage | None = None) -> TokenMeter:
        """A counter for a task on this model, going on from what the task has used. Raises `ConfigError`."""
        access = self._parts.model(model)
        meter = TokenMeter(
            window=access.window,
            price=access.price,
            budget=self._parts.task_budget,
            spent=usage.total if usage else None,
            cost_usd=usage.cost_usd if usage else 0,
            session=self._session,
            session_spent=self.spent,
            day=self._parts.day,
        )
        if usage is not None:
            meter.context_tokens = usage.context_tokens
            is_used = usage.total.input_tokens or usage.total.output_tokens
            if is_used:  # the price of another model changes nothing
                meter.cost_known = usage.cost_known
        return meter

    def spent(self) -> tuple[float, int]:
        """Dollars and tokens of the whole session."""
        meters = [task.meter for task in self._tasks.values()]
        tokens = sum(meter.total.input_tokens + meter.total.output_tokens for meter in meters)
        return sum(meter.cost_usd for meter in meters), tokens

    @property
    def session_budget(self) -> Budget:
        """The limits of the whole session."""
        return self._session

    def limit_task(self, task: Task, budget: Budget) -> None:
        """Limit what one task may use from now on; 0 is no limit."""
        task.meter.budget = budget
        self._parts.memory.record_budget(BudgetSet(budget.max_cost_usd, budget.max_tokens), task.number)

    def limit_session(self, budget: Budget) -> None:
        """Limit what the whole session may use from now on; 0 is no limit."""
        self._put_session(budget)
        self._parts.memory.record_budget(BudgetSet(budget.max_cost_usd, budget.max_tokens), 0)

    def restore(self) -> None:
        """Take up the limits that the journal of a resumed session holds. Of two limits for the session, the
        journal's and the one this run was started with, the smaller holds."""
        state = self._parts.memory.state()
        if state.budget is not None:
            mine, kept = self._session, state.budget
            self._put_session(
                Budget(
                    _smaller(mine.max_cost_usd, kept.max_cost_usd),
                    int(_smaller(mine.max_tokens, kept.max_tokens)),
                )
            )
        for record in state.tasks:
            task = self._tasks.get(record.number)
            if task is not None and record.budget is not None:
                task.meter.budget = Budget(record.budget.max_cost_usd, record.budget.max_tokens)

    def _put_session(self, budget: Budget) -> None:
        self._session = budget
        for task in self._tasks.values():
            task.meter.session = budget


def _smaller(one: float, other: float) -> float:
    """The smaller of two limits, where 0 is none."""
    return min(one, other) if one and other else one or other


class Notes:
    """The notes of a session; `focus` names the task whose line of the journal they go on."""

    def __init__(self, memory: SessionWriter, focus: Callable[[], int]) -> None:
        self._memory = memory
        self._focus = focus

    @property
    def waiting(self) -> tuple[Note, ...]:
        """Notes that go along with the next prompt in the foreground. A task's own answer is none there: it
        waits for another task's prompt."""
        front = self._focus()
        return tuple(
            note
            for note in self._memory.notes
            if not note.carried_by and (not note.answer_of or note.answer_of != front)
        )

    def offer(self, note: Note) -> None:
        """Attach it to the next prompt; one with its id that still waits gives way. Raises `NotSavedError`
        once the journal is closed."""
        self._save((*(other for other in self._memory.notes if other.id != note.id), note))

    def drop_last(self) -> None:
        """Take the last one back that waits. Nothing happens where none does."""
        for last in self.waiting[-1:]:
            self._save(note for note in self._memory.notes if note.id != last.id)

    def carried(self, prompt: UserMessage) -> UserMessage:
        """The prompt with all that waits before its words. They leave the journal when it enters a history;
        until then a crash leaves them waiting."""
        notes = self.waiting
        if not notes:
            return prompt
        ids = {note.id for note in notes}
        self._save(
            replace(note, carried_by=prompt.id) if note.id in ids else note for note in self._memory.notes
        )
        parts = (Text(f"[{note.heading}]\n{note.text}\n\n") for note in notes)
        return replace(prompt, parts=(*parts, *prompt.parts))

    def not_carried(self, message_id: str = "") -> None:
        """The message ("": any) will not come, or has come: what it did not take into a history waits
        again."""
        notes = self._memory.notes
        back = [note.id for note in notes if note.carried_by and message_id in ("", note.carried_by)]
        if back:
            with contextlib.suppress(NotSavedError):  # the writer was closed first: it has said what is lost
                self._save(replace(note, carried_by="") if note.id in back else note for note in notes)

    def _save(self, notes: Iterable[Note]) -> None:
        self._memory.record_notes(self._focus(), tuple(notes))


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

    def to_background(self, number: int) -> None:
        """Let a task finish out of sight: its answer becomes a note."""
        self.task(number).background = True

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
            task.history = list(reopen_calls(task.history, task.not_run))
            self.parts.memory.replace_history(number, "continued", len(task.history))
        last = task.history[-1]
        if isinstance(last, AssistantMessage) and not unanswered_calls(task.history):
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

    async def prompt(self, number: int, content: str | Sequence[UserPart]) -> None:
        """Steer the running turn at its next boundary; submit the text when nothing runs."""
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

    async def rewind(self, number: int, kept: int) -> None:
        """Go back to the first `kept` messages. Memory and journal change in one step, so that a prompt sent
        meanwhile comes after it in both. Raises `TaskError` while a turn runs."""
        task = self._free(number)
        summary = task.compaction
        self.parts.memory.replace_history(number, "rewound", kept)
        task.rewind(kept)
        if summary is not None and task.compaction is None:
            self.parts.memory.record_compaction(number, None)
        await self.parts.memory.record_task(number, task.record())

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
