"""The task board: owns the tasks of a session, their events, approvals, notes and spending."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import cast

import msgspec
from msgspec.structs import replace

from buddy.agent.budget import Budget, BudgetLedger, TokenMeter
from buddy.agent.events import AgentUiEvent, ApprovalRequested, ApprovalResolved, TokenUsage
from buddy.agent.history import reopen_calls
from buddy.agent.host import Outcome
from buddy.agent.messages import (
    AssistantMessage,
    Attachment,
    Origin,
    Text,
    UserMessage,
    UserPart,
    unanswered_calls,
)
from buddy.agent.tool import ToolError, ToolRegistry, ToolResult
from buddy.extend.agent_profiles import AgentProfile
from buddy.safety.policy.rules import Rule
from buddy.safety.policy.session import CallLimits
from buddy.sessions.errors import NotSavedError
from buddy.sessions.loading import ResumedTask
from buddy.sessions.records import BudgetSet, Note
from buddy.sessions.writer import SessionWriter
from buddy.tasks.approvals import Inbox
from buddy.tasks.dependencies import BoardParts, TaskServices
from buddy.tasks.event_hub import EventHub, EventReader
from buddy.tasks.subagents import Delegations
from buddy.tasks.task import Task, TaskError, restore_task, title_of
from buddy.tasks.tool_execution import Writes
from buddy.tasks.turn_host import TurnParts, run_between_turns
from buddy.tasks.turn_runner import TurnRunner, tools_of_task
from buddy.tasks.variants import Variants
from buddy.tasks.workspaces import TaskWorkspaces


class Spending:
    """The owner of the session's budget. `tasks` are the board's tasks by id."""

    def __init__(self, parts: BoardParts, tasks: Mapping[int, Task]) -> None:
        self._parts = parts
        self._tasks = tasks
        self._session = BudgetLedger("the session's budget", parts.session_budget, self.totals)

    def meter(self, model: str, usage: TokenUsage | None = None) -> TokenMeter:
        """Return a meter for a task on this model that continues from `usage`. Raises `ConfigError`."""
        access = self._parts.model(model)
        meter = TokenMeter(
            window=access.window,
            price=access.price,
            budget=self._parts.task_budget,
            spent=usage.total if usage else None,
            cost_usd=usage.cost_usd if usage else 0,
            session=self._session,
            day=self._parts.day,
        )
        if usage is not None:
            meter.context_tokens = usage.context_tokens
            is_used = usage.total.input_tokens or usage.total.output_tokens
            if is_used:  # what was spent keeps its price when the model changes
                meter.cost_known = usage.cost_known
        return meter

    def totals(self) -> tuple[float, int]:
        """Return dollars and tokens of the whole session."""
        meters = [task.meter for task in self._tasks.values()]
        tokens = sum(meter.total.input_tokens + meter.total.output_tokens for meter in meters)
        return sum(meter.cost_usd for meter in meters), tokens

    @property
    def session_budget(self) -> Budget:
        """Return the limits of the whole session."""
        return self._session.budget

    def limit_task(self, task: Task, budget: Budget) -> None:
        """Limit what one task may still use; 0 is no limit."""
        task.meter.budget = budget
        self._parts.journal.record_budget(BudgetSet(budget.max_cost_usd, budget.max_tokens), task.task_id)

    def limit_session(self, budget: Budget) -> None:
        """Limit what the whole session may still use; 0 is no limit."""
        self._session.budget = budget
        self._parts.journal.record_budget(BudgetSet(budget.max_cost_usd, budget.max_tokens), 0)

    def restore(self) -> None:
        """Apply the limits from the journal of a resumed session. For the session, the smaller of the
        journal's limit and this run's limit applies."""
        state = self._parts.journal.state()
        if state.budget is not None:
            saved = Budget(state.budget.max_cost_usd, state.budget.max_tokens)
            self._session.budget = self._session.budget.within(saved)
        for record in state.tasks:
            task = self._tasks.get(record.task_id)
            if task is not None and record.budget is not None:
                task.meter.budget = Budget(record.budget.max_cost_usd, record.budget.max_tokens)


class Notes:
    """The notes of a session. `focus` returns the task in whose journal lines they are recorded."""

    def __init__(self, journal: SessionWriter, focus: Callable[[], int]) -> None:
        self._journal = journal
        self._focus = focus

    @property
    def waiting(self) -> tuple[Note, ...]:
        """Return the notes that go with the next foreground prompt. A background task's answer waits for
        another task's prompt: in its own conversation it is already there."""
        front = self._focus()
        return tuple(
            note
            for note in self._journal.notes
            if not note.carried_by and (not note.answer_of or note.answer_of != front)
        )

    def offer(self, note: Note) -> None:
        """Attach a note to the next prompt; it replaces a waiting note with the same id. Raises
        `NotSavedError` after the journal was closed."""
        self._save((*(other for other in self._journal.notes if other.id != note.id), note))

    def drop_last(self) -> None:
        """Withdraw the last waiting note, if there is one."""
        for last in self.waiting[-1:]:
            self._save(note for note in self._journal.notes if note.id != last.id)

    def attach(self, prompt: UserMessage) -> UserMessage:
        """Return the prompt with the waiting notes before its text.

        The journal keeps the notes until the prompt enters a history, so that after a crash they wait again.
        """
        notes = self.waiting
        if not notes:
            return prompt
        ids = {note.id for note in notes}
        self._save(
            replace(note, carried_by=prompt.id) if note.id in ids else note for note in self._journal.notes
        )
        parts = (Attachment(note.heading, f"[{note.heading}{note.lead}]\n{note.text}\n\n") for note in notes)
        return replace(prompt, parts=(*parts, *prompt.parts))

    def release(self, message_id: str = "") -> None:
        """Let notes wait again that this message ("": any message) did not take into a history."""
        notes = self._journal.notes
        back = [note.id for note in notes if note.carried_by and message_id in ("", note.carried_by)]
        if back:
            with contextlib.suppress(NotSavedError):  # the closed writer has reported what is lost
                self._save(replace(note, carried_by="") if note.id in back else note for note in notes)

    def _save(self, notes: Iterable[Note]) -> None:
        self._journal.record_notes(self._focus(), tuple(notes))


class TaskBoard:
    """The tasks of a session. Construct it in a running event loop and use it with `async with`."""

    def __init__(self, parts: BoardParts) -> None:
        self.delegations = Delegations(self)
        self.parts = parts
        self.tasks: dict[int, Task] = {}
        self.variants = Variants(self)
        self.workspaces = TaskWorkspaces(parts, self.tasks, self._add_services)
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
        self.notes = Notes(parts.journal, lambda: self.focus)
        self._spending = Spending(parts, self.tasks)
        self._shared = TurnParts(
            parts, self.hub, self.inbox, Writes(), self._update_state, self.delegations, self.workspaces
        )
        self._running = TurnRunner(
            self._shared,
            self.tasks,
            is_foreground=lambda task_id: task_id == self.focus,
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
        """Open a task, empty or as a copy of another one. It works in the named worktree, else where the
        copied task or its parent works. Raises `ConfigError`."""
        task_id = max(self.tasks, default=0) + 1
        original = self.task(copy_of) if copy_of else None
        model = model or (original.model if original else "")
        place = self.workspaces.of(self.tasks.get(copy_of or parent), worktree)
        meter = self._spending.meter(model)
        task = Task(task_id, title=title, model=model, parent=parent, meter=meter, workspace=place)
        if original:
            task.start_from(original)
        if parent:
            meter.shared = self.task(parent).meter.shared
        self.tasks[task_id] = task
        self.parts.journal.record_task(task_id, task.record())
        if not self.focus:
            self.set_focus(task_id)
        return task

    def restore(self, resumed: Sequence[ResumedTask], focus: int) -> None:
        """Restore the tasks of a resumed session; the ones that were running are paused."""
        for saved in resumed:
            record = saved.record
            meter = self._spending.meter(record.task.model, record.usage)
            target = record.task.target
            place = (
                self.workspaces.on_target(target) if target else self.workspaces.by_name(record.task.worktree)
            )
            task = restore_task(saved, meter, place)
            task.background = record.task_id != focus
            self.tasks[record.task_id] = task
        self.focus = focus if focus in self.tasks else min(self.tasks, default=0)
        if self.focus and self.tasks[self.focus].workspace.target:
            self.workspaces.home = self.tasks[self.focus].workspace
        self._spending.restore()
        self.variants.restore()
        self.notes.release()

    def task(self, task_id: int) -> Task:
        """Return the task with this id. Raises `TaskError` that names the existing ones."""
        task = self.tasks.get(task_id)
        if task is None:
            known = ", ".join(str(known) for known in self.tasks) or "none"
            raise TaskError(f"there is no task {task_id} (tasks: {known})")
        return task

    def spending(self) -> tuple[float, int]:
        """Return dollars and tokens of the whole session."""
        return self._spending.totals()

    def set_focus(self, task_id: int) -> None:
        """Bring this task to the foreground."""
        self.task(task_id).background = False
        self.focus = task_id
        self.parts.journal.record_focus(task_id)

    def to_background(self, task_id: int) -> None:
        """Move a task to the background: its answer becomes a note."""
        self.task(task_id).background = True

    def message(self, content: str | Sequence[UserPart], origin: Origin) -> UserMessage:
        """Build a user message, without secrets."""
        parts = (Text(content),) if isinstance(content, str) else tuple(content)
        message = UserMessage(self.parts.clock.new_id(), parts, origin)
        return cast(
            UserMessage, self.parts.redact(message)
        )  # before it becomes a title or enters a queue: both are saved

    # -- turns ---------------------------------------------------------------------------------------------

    def submit(self, task_id: int, content: str | Sequence[UserPart]) -> asyncio.Task[None]:
        """Start a turn. Raises `TaskError` while one runs: steer or queue then."""
        task = self._idle_task(task_id)
        # First, because it raises when the worktree is gone: no note may be attached to a prompt that is not
        # sent.
        before, prompt = self.workspaces.introduce(task), self.message(content, "prompt")
        self._set_title(task, prompt)
        if task_id == self.focus:
            prompt = self.notes.attach(prompt)
        runner = self._running.start(task, (*before, prompt))
        runner.add_done_callback(lambda _runner: self.notes.release(prompt.id))
        return runner

    def continue_task(self, task_id: int) -> asyncio.Task[None]:
        """Continue a task that was interrupted, paused or failed. Raises `TaskError` when there is nothing to
        continue."""
        task = self._idle_task(task_id)
        if not task.history:
            raise TaskError(f"task {task_id} has nothing to continue: no prompt was sent")
        if task.has_only_a_copy:
            raise TaskError(self._only_a_copy(task))
        if task.not_run:
            task.history = list(reopen_calls(task.history, task.not_run))
            self.parts.journal.replace_history(task_id, "continued", len(task.history))
        last = task.history[-1]
        if isinstance(last, AssistantMessage) and not unanswered_calls(task.history):
            if last.finish != "cut" and task.state in ("idle", "finished"):
                raise TaskError(f"task {task_id} has nothing to continue: the model had finished")
            return self._running.start(task, (self.message("Continue exactly where you stopped.", "prompt"),))
        return self._running.start(task, ())

    def _only_a_copy(self, task: Task) -> str:
        first = task.copy_of
        original = self.tasks.get(first)
        is_running = original is not None and original.running
        there = (
            f"which is running: /fg {first} shows it" if is_running else f"/continue {first} goes on there"
        )
        return f"task {task.task_id} has nothing to continue: it begins with a copy of task {first}, {there}"

    def retry_now(self, task_id: int) -> bool:
        """Retry the task's request now, even if the provider asked for a longer wait. Return False when
        nothing was waiting."""
        task = self.task(task_id)
        governor = self.parts.model(task.model).governor
        waits = governor.is_closed or task.retry_now is not None
        governor.lift()
        if task.retry_now is not None:
            task.retry_now.set()
        return waits

    async def prompt(self, task_id: int, content: str | Sequence[UserPart]) -> None:
        """Steer the running turn at its next boundary; submit the text when no turn runs."""
        task = self.task(task_id)
        if not task.running:
            self.submit(task_id, content)
            return
        task.steering.append(self.message(content, "steer"))
        await self._save_waiting(task)
        self.inbox.withdraw(task_id, "new instructions")
        self.delegations.withdraw_questions(task)

    async def run_for_person(self, task_id: int, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        """Run a call that a text of the person asks for, under the policy and in the sandbox of this task.
        Raises `ToolError` where it may not run."""
        found = self.parts.tools.get(tool)
        if found is None:
            raise ToolError(self.parts.tools.unknown(tool))
        decoded = found.decode(msgspec.json.encode(arguments).decode())
        return await run_between_turns(self._shared, self.task(task_id), found, decoded)

    def tools_of(self, task_id: int) -> ToolRegistry:
        """Return the tools that a task's next request declares, with those it could still load."""
        task = self.task(task_id)
        return tools_of_task(self.parts, task, partial(self.delegations.hides, task), lambda _tools: None)

    def work_by(self, task_id: int, profile: AgentProfile) -> None:
        """Let an empty task work by a subagent file. Raises `TaskError` once it has begun."""
        task = self._idle_task(task_id)
        if task.history:
            raise TaskError(f"task {task_id} has begun: a subagent starts with an empty conversation")
        task.profile = profile
        task.call_limits = CallLimits(profile.mode)
        task.tools = profile.allowed_tools(tool.name for tool in self.parts.tools.list_all())

    def allow_for_turn(self, task_id: int, rules: tuple[Rule, ...]) -> None:
        """Allow what these rules do in the turn that starts next, or runs."""
        task = self.task(task_id)
        task.call_limits = replace(task.call_limits, rules=(*task.call_limits.rules, *rules))

    def forget_allowed(self, task_id: int) -> None:
        """Take back what was allowed for a turn that does not come."""
        task = self.task(task_id)
        if not task.running:
            task.call_limits = replace(task.call_limits, rules=())

    async def queue(self, task_id: int, content: str | Sequence[UserPart]) -> None:
        """Queue text for after the turn; submit it when no turn runs."""
        task = self.task(task_id)
        if not task.running:
            self.submit(task_id, content)
            return
        task.queued.append(self.message(content, "follow_up"))
        await self._save_waiting(task)

    async def take_back(self, task_id: int) -> UserMessage | None:
        """Remove the last waiting text from its queue and return it."""
        task = self.task(task_id)
        waiting = task.queued or task.steering
        if not waiting:
            return None
        message = waiting.pop()
        await self._save_waiting(task)
        return message

    def cancel(self, task_id: int, reason: str = "") -> tuple[UserMessage, ...]:
        """Cancel the running turn, if any, and return the queued texts."""
        task = self.task(task_id)
        texts = (*task.steering, *task.queued)
        if texts:
            task.steering.clear()
            task.queued.clear()
            self.parts.journal.record_queue(task_id, (), tuple(task.in_delivery))
        self._stop(task, reason)
        return texts

    def _stop(self, task: Task, reason: str) -> None:
        if task.running:
            task.reason = reason
            task.cancelled.set()

    async def kill(self, task_id: int) -> None:
        """Cancel the turn and close the task."""
        task = self.task(task_id)
        self.cancel(task_id)
        await self.wait(task_id)
        task.closed = True
        task.state = "cancelled"
        self.parts.journal.record_task(task_id, task.record())

    async def wait(self, task_id: int) -> Outcome | None:
        """Wait for the end of the task's turn and return its outcome, None when it never ran."""
        task = self.task(task_id)
        if task.runner is not None:
            await asyncio.wait({task.runner})
        return task.outcome

    def set_timeout(self, task_id: int, seconds: float) -> None:
        """Cancel the running turn after this time; 0 removes the limit.

        Queued text stays queued for the next turn: nobody is there to take it back.
        """
        task = self.task(task_id)
        if task.deadline is not None:
            task.deadline.cancel()
            task.deadline = None
        if seconds > 0:
            reason = f"its time limit of {seconds:g} s (/timeout) ran out"
            task.deadline = asyncio.get_running_loop().call_later(seconds, self._stop, task, reason)

    async def rewind(self, task_id: int, length: int) -> None:
        """Go back to the first `length` messages. Raises `TaskError` while a turn runs.

        Memory and journal change without an await between, so that a prompt sent meanwhile comes later in
        both.
        """
        task = self._idle_task(task_id)
        summary = task.compaction
        self.parts.journal.replace_history(task_id, "rewound", length)
        task.rewind(length)
        if summary is not None and task.compaction is None:
            self.parts.journal.record_compaction(task_id, None)
        await self.parts.journal.record_task(task_id, task.record())

    def reset(self, task_id: int) -> None:
        """Clear a conversation. The journal keeps its messages."""
        self._idle_task(task_id).clear()
        self.parts.journal.replace_history(task_id, "reset", 0)

    def change_model(self, task_id: int, name: str) -> None:
        """Use another model from the next turn on. Raises `ConfigError`, `TaskError`."""
        task = self._idle_task(task_id)
        old = task.meter
        task.meter = self._spending.meter(name, old.report())
        task.meter.budget, task.meter.shared = old.budget, old.shared
        task.model = name
        self.parts.journal.record_task(task_id, task.record())

    def change_target(self, task_id: int, name: str) -> None:
        """Work on another machine from the next turn on ("": on this one); tasks that start from now on work
        there too. Raises `TaskError`."""
        task = self._idle_task(task_id)
        place = self.workspaces.on_target(name)
        if name and task.workspace.worktree is not None:
            raise TaskError(
                f"task {task_id} works in the worktree {task.workspace.worktree.name} of this machine; "
                "take a task of the main tree (/new) to the target"
            )
        self.workspaces.home = place
        if place.target == task.workspace.target:
            return  # also in a worktree: it is on this machine already
        task.move(place)
        self.parts.journal.record_task(task_id, task.record())

    def set_budget(self, task_id: int, budget: Budget) -> None:
        """Limit a task, all variants of a prompt (by one of them), or the session (0); 0 dollars or tokens is
        no limit."""
        task = self.task(task_id) if task_id else None
        if task is not None and task.variant is not None:
            self.variants.limit(task, budget)
        elif task is not None:
            self._spending.limit_task(task, budget)
        else:
            self._spending.limit_session(budget)

    def budget(self, task_id: int) -> Budget:
        """Return the limits of a task, or of the session (0)."""
        if not task_id:
            return self._spending.session_budget
        meter, variant = self.task(task_id).meter, self.task(task_id).variant
        return meter.shared.budget if variant is not None and meter.shared is not None else meter.budget

    async def close(self) -> None:
        """Cancel every turn and wait for its end; running tasks become paused and continue after a resume."""
        await self._running.end_all()
        await self.workspaces.clean_up()

    # -- internals -----------------------------------------------------------------------------------------

    def reader(self) -> EventReader:
        """Return a new reader of all events from now on."""
        return self.hub.reader()

    def _add_services(self, services: Callable[[int], TaskServices]) -> Callable[[int], TaskServices]:
        """Add the board's own services to those of each task."""
        return self.variants.add_service(self.delegations.add_service(services))

    def _idle_task(self, task_id: int) -> Task:
        task = self.task(task_id)
        if task.running:
            raise TaskError(f"task {task_id} is running: wait for it, or cancel it (Esc)")
        if task.closed:
            raise TaskError(f"task {task_id} is closed; start another one with `TEXT &`")
        return task

    def _set_title(self, task: Task, prompt: UserMessage) -> None:
        if not task.title:
            task.title = title_of(prompt)
            if not any(other.title for other in self.tasks.values() if other is not task):
                self.parts.journal.rename(name=self.parts.journal.state().name, title=task.title)

    def _update_state(self, task: Task) -> None:
        asked = any(request.task_id == task.task_id for request in self.inbox.waiting())
        task.state = "waiting" if asked else "running"

    async def _save_waiting(self, task: Task) -> None:
        self.delegations.wake(task.task_id)
        await self.parts.journal.record_queue(
            task.task_id, tuple(task.queued), (*task.in_delivery, *task.steering)
        )

    def _emit(self, task_id: int, event: AgentUiEvent) -> None:
        self.hub.emit(task_id, event)
        if isinstance(event, ApprovalRequested | ApprovalResolved):
            self._update_state(self.tasks[task_id])

    async def _record_approval(self, task_id: int, event: ApprovalRequested | ApprovalResolved) -> None:
        await self.parts.journal.record_approval(task_id, event)

    def _remember(self, rules: tuple[Rule, ...], until: float | None) -> None:
        for grant in self.parts.policy.grant(rules, until):
            self.parts.journal.record_grant(self.parts.clock.new_id(), msgspec.to_builtins(grant))
