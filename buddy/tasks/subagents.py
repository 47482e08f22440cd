"""Subagents: tasks that work for another task. They are cancelled with it or alone, spend a share of its
budget, and their reports go to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from buddy.agent.budget import Budget, TokenMeter
from buddy.agent.cancel import run_cancellable
from buddy.agent.formatting import keep_ends
from buddy.agent.messages import Text, UserMessage
from buddy.agent.tool import ToolError
from buddy.config.settings import ConfigError
from buddy.tasks.dependencies import BoardParts, TaskServices
from buddy.tasks.task import Task, TaskError
from buddy.tasks.workspaces import TaskWorkspaces
from buddy.tools.ask_user import Questions
from buddy.tools.delegate import MAX_REPORT_CHARS, Assignment, Delegation, Report

MAX_DEPTH = 2
MAX_RUNNING = 8
SHARE = 0.5
"""Of what its parent may still spend; what is left of it goes back."""

_BRIEF = (
    "[You are a subagent: task {number}, working for task {parent}. Nobody reads what you do but your last "
    "message, which is handed to it. Do this, and answer with what it needs to know.]\n\n"
)


class Owner(Protocol):
    """The part of the board that its subagents use."""

    parts: BoardParts
    places: TaskWorkspaces

    def open(
        self, title: str = "", *, model: str = "", copy_of: int = 0, parent: int = 0, worktree: str = ""
    ) -> Task:
        """A new task."""
        ...

    def submit(self, number: int, content: str) -> asyncio.Task[None]:
        """Start its turn."""
        ...

    def cancel(self, number: int, reason: str = "") -> tuple[UserMessage, ...]:
        """Cancel its turn."""
        ...

    def task(self, number: int) -> Task:
        """The task of a number."""
        ...


class _Child(msgspec.Struct, frozen=True):
    """A subagent at work, and what its parent lent it."""

    number: int
    parent: int
    runner: asyncio.Task[None]
    lent: Budget


class Delegations:
    """All subagents of a board."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._children: dict[int, _Child] = {}
        self._owed: dict[int, list[int]] = {}
        self._wake: dict[int, asyncio.Event] = {}
        self.service = Delegation(self._start, self._attend, self._report_later, self._isolate, self._release)

    def given(self, services: Callable[[int], TaskServices]) -> Callable[[int], TaskServices]:
        """The services of each task, and a way to start subagents."""

        def with_delegation(inner: TaskServices) -> TaskServices:
            def copy(number: int) -> TaskServices:
                return with_delegation(inner.copy(number))

            known = {**inner.services, Delegation: self.service}
            return msgspec.structs.replace(inner, services=known, copy=copy)

        return lambda number: with_delegation(services(number))

    def depth(self, number: int) -> int:
        """Return the number of tasks above a task."""
        parent = self._owner.task(number).parent
        return 0 if not parent else 1 + self.depth(parent)

    def hidden(self, task: Task) -> tuple[str, ...]:
        """Tools a task does not get: a subagent of the last level can't have subagents, and nobody talks to a
        subagent."""
        if not task.parent:
            return ()
        return ("ask_user", "delegate") if self.depth(task.number) >= MAX_DEPTH else ("ask_user",)

    def wake(self, number: int) -> None:
        """Text came for a task: it may be waiting for its subagents."""
        if number in self._wake:
            self._wake[number].set()

    def instructed(self, task: Task) -> None:
        """The person sent new instructions: questions of the task's model wait no longer."""
        questions = task.services.services.get(Questions)
        if isinstance(questions, Questions):
            questions.withdraw(task.number)

    def ended(self, task: Task) -> None:
        """A task's turn is over: what still works for it ends as well."""
        self._owed.pop(task.number, None)
        for child in list(self._children.values()):
            if child.parent != task.number:
                continue
            if child.runner.done():
                self._closed(child.number)
            else:
                self._owner.cancel(child.number, f"task {task.number}, which it worked for, ended")
                child.runner.add_done_callback(lambda _, number=child.number: self._abandoned(number))

    def _abandoned(self, number: int) -> None:
        if number in self._children:
            self._closed(number)

    async def reports(self, task: Task) -> tuple[UserMessage, ...]:
        """Wait for the next subagents in the background to end; their reports. Nothing when there is none, or
        when text for the task came first. Raises `TurnCancelled`."""
        owed = self._owed.get(task.number)
        if not owed:
            return ()
        wake = self._wake[task.number] = asyncio.Event()
        task.state = "waiting"
        try:
            return await run_cancellable(self._next(owed, wake, task), task.cancelled)
        finally:
            task.state = "running"
            del self._wake[task.number]

    async def _next(self, owed: list[int], wake: asyncio.Event, task: Task) -> tuple[UserMessage, ...]:
        woken = asyncio.ensure_future(wake.wait())
        try:
            runners = [self._children[number].runner for number in owed]
            if not (task.steering or task.queued):
                await asyncio.wait({*runners, woken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        done = [number for number in owed if self._children[number].runner.done()]
        owed[:] = [number for number in owed if number not in done]
        return tuple(self._message(self._closed(number)) for number in done)

    def _start(self, parent: int, assignment: Assignment) -> int:
        owner = self._owner
        above = owner.task(parent)
        if self.depth(parent) >= MAX_DEPTH:
            raise ToolError(f"subagents can be nested {MAX_DEPTH} deep; do this part yourself")
        running = [child for child in self._children.values() if child.parent == parent]
        if sum(not child.runner.done() for child in running) >= MAX_RUNNING:
            raise ToolError(f"{MAX_RUNNING} subagents work for you already; wait for one to end")
        only = self._known(assignment.tools)
        lent = _share(above.meter)
        try:
            child = owner.open(
                _title(assignment.text),
                model=assignment.model or above.model,
                parent=parent,
                worktree=assignment.worktree,
            )
        except ConfigError as error:
            raise ToolError(f"the subagent can't be started: {error}") from error
        child.background = True
        child.tools = only
        if lent.max_cost_usd or lent.max_tokens:
            child.meter.budget = _least(child.meter.budget, lent)
            above.meter.budget = _changed(above.meter.budget, lent, -1)
        brief = _BRIEF.format(number=child.number, parent=parent)
        runner = owner.submit(child.number, brief + assignment.text)
        self._children[child.number] = _Child(child.number, parent, runner, lent)
        return child.number

    async def _isolate(self, parent: int, text: str) -> str:
        """A worktree for a subagent, from the commit its parent's workspace stands on."""
        try:
            tree, _said = await self._owner.places.make(text, start=self._owner.task(parent))
        except TaskError as error:
            raise ToolError(str(error)) from error
        return tree.name

    async def _release(self, name: str) -> None:
        if name:
            parts = self._owner.places.parts()
            await parts.trees.remove(parts.trees.by_name(name))

    def _known(self, names: tuple[str, ...] | None) -> frozenset[str] | None:
        if names is None:
            return None
        tools = self._owner.parts.tools
        for name in names:
            if tools.get(name) is None:
                raise ToolError(tools.unknown(name))
        found = [tools.get(name) for name in names]
        return frozenset(tool.name for tool in found if tool is not None)

    async def _attend(self, number: int) -> Report:
        child = self._children[number]
        try:
            await asyncio.wait({child.runner})
        except asyncio.CancelledError:
            self._owner.cancel(number, f"task {child.parent}, which it worked for, was cancelled")
            await asyncio.wait({child.runner})
            self._closed(number)
            raise
        return self._closed(number)

    def _report_later(self, number: int) -> None:
        child = self._children[number]
        self._owed.setdefault(child.parent, []).append(number)

    def _closed(self, number: int) -> Report:
        """A subagent has ended: what it did not spend goes back, what it said goes up."""
        child = self._children.pop(number)
        task, above = self._owner.task(number), self._owner.task(child.parent)
        spent = Budget(task.meter.cost_usd, task.meter.total.input_tokens + task.meter.total.output_tokens)
        back = Budget(
            max(0.0, child.lent.max_cost_usd - spent.max_cost_usd),
            max(0, child.lent.max_tokens - spent.max_tokens),
        )
        above.meter.budget = _changed(above.meter.budget, back, 1)
        left = f"\n[Its changes are not in your tree: {task.left}.]" if task.left else ""
        answer = task.last_answer() + left
        outcome = task.outcome
        if outcome is not None and outcome.outcome == "completed":
            return Report(number, ok=True, text=answer)
        ending = outcome.outcome if outcome is not None else "cancelled"
        reason = f": {task.reason}" if task.reason and task.reason != ending else ""
        said = f"\nIt had said:\n{answer}" if answer else ""
        return Report(number, ok=False, text=f"task {number} did not finish ({ending}{reason}).{said}")

    def _message(self, report: Report) -> UserMessage:
        heading = f"[Task {report.number}, which you delegated, has {'finished' if report.ok else 'ended'}."
        text = f"{heading} Its answer:]\n{keep_ends(report.text, MAX_REPORT_CHARS)}"
        return UserMessage(self._owner.parts.clock.new_id(), (Text(text),), "note")


def _title(text: str) -> str:
    first = text.strip().split("\n", 1)[0]
    return first if len(first) <= 60 else first[:59] + "…"


def _share(meter: TokenMeter) -> Budget:
    """Return a subagent's share of its parent's budget, 0 where that has no limit. Raises `ToolError`."""
    budget = meter.budget
    tokens = meter.total.input_tokens + meter.total.output_tokens
    dollars_left, tokens_left = budget.max_cost_usd - meter.cost_usd, budget.max_tokens - tokens
    if (budget.max_cost_usd and dollars_left <= 0) or (budget.max_tokens and tokens_left <= 0):
        raise ToolError("your budget is used up: there is nothing left for a subagent")
    return Budget(
        dollars_left * SHARE if budget.max_cost_usd else 0.0,
        int(tokens_left * SHARE) if budget.max_tokens else 0,
    )


def _least(one: Budget, other: Budget) -> Budget:
    def least(first: Any, second: Any) -> Any:
        return min(first, second) if first and second else first or second

    return Budget(least(one.max_cost_usd, other.max_cost_usd), least(one.max_tokens, other.max_tokens))


def _changed(budget: Budget, by: Budget, sign: int) -> Budget:
    """A budget with some lent or given back; no limit stays no limit."""
    return Budget(
        budget.max_cost_usd + sign * by.max_cost_usd if budget.max_cost_usd else 0.0,
        budget.max_tokens + sign * by.max_tokens if budget.max_tokens else 0,
    )
