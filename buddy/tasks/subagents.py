"""Subagents: tasks that work for another task.

A subagent is cancelled with its parent or alone, spends a share of the parent's budget, and reports to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from buddy.agent.budget import Budget, TokenMeter
from buddy.agent.cancel import run_cancellable
from buddy.agent.formatting import keep_ends
from buddy.agent.messages import Text, UserMessage
from buddy.agent.tool import Tool, ToolError
from buddy.config.settings import ConfigError
from buddy.extend.agent_profiles import AgentProfile, profile_of
from buddy.safety.policy.decide import stricter_mode
from buddy.safety.policy.session import CallLimits
from buddy.tasks.dependencies import BoardParts, TaskServices
from buddy.tasks.hook_points import GENERAL_AGENT
from buddy.tasks.task import Task, TaskError
from buddy.tasks.workspaces import TaskWorkspaces
from buddy.tools.ask_user import Questions
from buddy.tools.delegate import MAX_REPORT_CHARS, AgentDefaults, Assignment, Delegation, Report

MAX_DEPTH = 2
MAX_RUNNING = 8
SHARE = 0.5
"""Share of the parent's remaining budget that a subagent gets; what it does not spend is returned."""

_BRIEF = (
    "[You are a subagent: task {task_id}, working for task {parent}. Only your last message is read: it "
    "is handed to task {parent}. Do the following, and answer with what that task needs to know.]\n\n"
)


class Owner(Protocol):
    """The operations of the board that subagents use."""

    parts: BoardParts
    workspaces: TaskWorkspaces

    def open(
        self, title: str = "", *, model: str = "", copy_of: int = 0, parent: int = 0, worktree: str = ""
    ) -> Task:
        """Open a task."""
        ...

    def submit(self, task_id: int, content: str) -> asyncio.Task[None]:
        """Start a turn."""
        ...

    def cancel(self, task_id: int, reason: str = "") -> tuple[UserMessage, ...]:
        """Cancel the running turn."""
        ...

    def task(self, task_id: int) -> Task:
        """Return the task with this id."""
        ...


class _Child(msgspec.Struct, frozen=True):
    """A running subagent, and the budget its parent lent it."""

    task_id: int
    parent: int
    runner: asyncio.Task[None]
    lent: Budget


class Delegations:
    """The subagents of a board."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._children: dict[int, _Child] = {}
        self._owed: dict[int, list[int]] = {}
        self._wake: dict[int, asyncio.Event] = {}
        self.service = Delegation(
            self._describe, self._start, self._attend, self._report_later, self._isolate, self._release
        )

    def add_service(self, services: Callable[[int], TaskServices]) -> Callable[[int], TaskServices]:
        """Add the service that starts subagents to the services of each task."""

        def with_delegation(inner: TaskServices) -> TaskServices:
            def copy(task_id: int) -> TaskServices:
                return with_delegation(inner.copy(task_id))

            extended = {**inner.services, Delegation: self.service}
            return msgspec.structs.replace(inner, services=extended, copy=copy)

        return lambda task_id: with_delegation(services(task_id))

    def depth(self, task_id: int) -> int:
        """Return the number of ancestors of a task."""
        parent = self._owner.task(task_id).parent
        return 0 if not parent else 1 + self.depth(parent)

    def hides(self, task: Task, tool: Tool) -> bool:
        """Tell whether a task does not get a tool. Subagents can't ask the person; those of the last level
        can't delegate; only variants read each other's results; the servers a subagent file defines are its
        own."""
        if tool.for_variants and task.variant is None:
            return True
        if tool.agent and (
            task.profile is None or task.profile.name != tool.agent or not task.profile.own_servers
        ):
            return True
        if not task.parent:
            return False
        return tool.asks_person or (tool.delegates and self.depth(task.task_id) >= MAX_DEPTH)

    def wake(self, task_id: int) -> None:
        """Wake a task that waits for its subagents: text arrived for it."""
        if task_id in self._wake:
            self._wake[task_id].set()

    def withdraw_questions(self, task: Task) -> None:
        """Withdraw the questions of the task's model: the person sent new instructions."""
        questions = task.services.find(Questions)
        if questions is not None:
            questions.withdraw(task.task_id)

    def end_children(self, task: Task) -> None:
        """End the subagents of a task whose turn is over."""
        self._owed.pop(task.task_id, None)
        for child in list(self._children.values()):
            if child.parent != task.task_id:
                continue
            if child.runner.done():
                self._collect(child.task_id)
            else:
                self._owner.cancel(child.task_id, f"task {task.task_id}, which it worked for, ended")
                child.runner.add_done_callback(lambda _, task_id=child.task_id: self._discard(task_id))

    def _discard(self, task_id: int) -> None:
        if task_id in self._children:
            self._collect(task_id)

    async def reports(self, task: Task) -> tuple[UserMessage, ...]:
        """Wait for the next background subagents to end and return their reports. Returns () when there are
        none, or when text for the task arrives first. Raises `TurnCancelled`."""
        owed = self._owed.get(task.task_id)
        if not owed:
            return ()
        wake = self._wake[task.task_id] = asyncio.Event()
        task.state = "waiting"
        try:
            return await run_cancellable(self._wait_for_reports(owed, wake, task), task.cancelled)
        finally:
            task.state = "running"
            del self._wake[task.task_id]

    async def _wait_for_reports(
        self, owed: list[int], wake: asyncio.Event, task: Task
    ) -> tuple[UserMessage, ...]:
        woken_by_text = asyncio.ensure_future(wake.wait())
        try:
            runners = [self._children[task_id].runner for task_id in owed]
            if not (task.steering or task.queued):
                await asyncio.wait({*runners, woken_by_text}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken_by_text.cancel()
        done = [task_id for task_id in owed if self._children[task_id].runner.done()]
        owed[:] = [task_id for task_id in owed if task_id not in done]
        return tuple(self._message(self._collect(task_id)) for task_id in done)

    def _start(self, parent: int, assignment: Assignment) -> int:
        owner = self._owner
        above = owner.task(parent)
        if self.depth(parent) >= MAX_DEPTH:
            raise ToolError(f"subagents can be nested {MAX_DEPTH} deep only; do this part yourself")
        running = [child for child in self._children.values() if child.parent == parent]
        if sum(not child.runner.done() for child in running) >= MAX_RUNNING:
            raise ToolError(f"{MAX_RUNNING} subagents already work for you; wait for one to end")
        profile = self._profile(assignment.agent)
        only = self._check_tools(assignment.tools)
        is_narrowed = only is not None or above.tools is not None
        only = _narrow(_narrow(only, self._tools_of(profile)), above.tools)
        if profile is not None and is_narrowed:  # a server of its own would widen what it was given
            profile = msgspec.structs.replace(profile, own_servers=())
        self._check_model(assignment.model, above)
        lent = _share(above.meter)
        try:
            child = owner.open(
                _title(assignment.text),
                model=assignment.model or self._model_of(profile) or above.model,
                parent=parent,
                worktree=assignment.worktree,
            )
        except ConfigError as error:
            raise ToolError(f"the subagent can't be started: {error}") from error
        child.background = True
        child.parent_call = assignment.call_id
        child.tools = only
        child.profile = profile
        mode = stricter_mode(above.call_limits.mode, profile.mode if profile is not None else None)
        child.call_limits = CallLimits(mode)
        if lent.max_cost_usd or lent.max_tokens:
            child.meter.budget = child.meter.budget.within(lent)
            above.meter.budget = _adjust_budget(above.meter.budget, lent, -1)
        brief = _BRIEF.format(task_id=child.task_id, parent=parent)
        runner = owner.submit(child.task_id, brief + assignment.text)
        self._children[child.task_id] = _Child(child.task_id, parent, runner, lent)
        return child.task_id

    def _profile(self, name: str) -> AgentProfile | None:
        """Return the profile of a subagent file, None for a subagent without one. Raises `ToolError`."""
        catalogue = self._owner.parts.catalogue
        if name in ("", GENERAL_AGENT):
            return None
        if catalogue is None:
            raise ToolError(f"there is no subagent named {name[:80]!r}; leave `agent` out")
        return profile_of(catalogue, name)

    def _describe(self, name: str) -> AgentDefaults:
        profile = self._profile(name)
        return AgentDefaults(profile.background, profile.worktree) if profile else AgentDefaults()

    def _tools_of(self, profile: AgentProfile | None) -> frozenset[str] | None:
        """Return the tools a profile gives; names that are no tool here are left out."""
        known = (tool.name for tool in self._owner.parts.tools.list_all())
        return profile.allowed_tools(known) if profile is not None else None

    def _model_of(self, profile: AgentProfile | None) -> str:
        """Return the model of a profile; "" where the person has no profile of that name:
        a file must not choose another company's model."""
        if profile is None:
            return ""
        return profile.model if profile.model in self._owner.parts.profiles else ""

    async def _isolate(self, parent: int, text: str) -> str:
        """Make a worktree for a subagent from the commit of its parent's workspace."""
        try:
            tree, _notice = await self._owner.workspaces.make(text, start=self._owner.task(parent))
        except TaskError as error:
            raise ToolError(str(error)) from error
        return tree.name

    async def _release(self, name: str) -> None:
        if name:
            parts = self._owner.workspaces.parts()
            await parts.trees.remove(parts.trees.by_name(name))

    def _check_model(self, name: str, above: Task) -> None:
        """Refuse a model the person never set up: it may be another company's, or dearer."""
        parts = self._owner.parts
        if name in ("", above.model, *parts.profiles) or name == parts.model(above.model).model:
            return
        known = f" ({', '.join(parts.profiles)})" if parts.profiles else ""
        raise ToolError(
            f"{name!r} is none of the person's profiles{known}; leave `model` out to use your own"
        )

    def _check_tools(self, names: tuple[str, ...] | None) -> frozenset[str] | None:
        if names is None:
            return None
        tools = self._owner.parts.tools
        for name in names:
            if tools.get(name) is None:
                raise ToolError(tools.unknown(name))
        chosen = [tools.get(name) for name in names]
        return frozenset(tool.name for tool in chosen if tool is not None)

    async def _attend(self, task_id: int) -> Report:
        child = self._children[task_id]
        try:
            await asyncio.wait({child.runner})
        except asyncio.CancelledError:
            self._owner.cancel(task_id, f"task {child.parent}, which it worked for, was cancelled")
            await asyncio.wait({child.runner})
            self._collect(task_id)
            raise
        return self._collect(task_id)

    def _report_later(self, task_id: int) -> None:
        child = self._children[task_id]
        self._owed.setdefault(child.parent, []).append(task_id)

    def _collect(self, task_id: int) -> Report:
        """Remove a subagent that ended: return its unspent budget to the parent and build its report."""
        child = self._children.pop(task_id)
        task, above = self._owner.task(task_id), self._owner.task(child.parent)
        spent = Budget(task.meter.cost_usd, task.meter.total.input_tokens + task.meter.total.output_tokens)
        refund = Budget(
            max(0.0, child.lent.max_cost_usd - spent.max_cost_usd),
            max(0, child.lent.max_tokens - spent.max_tokens),
        )
        above.meter.budget = _adjust_budget(above.meter.budget, refund, 1)
        changes = (
            f"\n[Its changes are not in your tree: {task.worktree_state}.]" if task.worktree_state else ""
        )
        answer = task.last_answer() + changes
        outcome = task.outcome
        if outcome is not None and outcome.outcome == "completed":
            return Report(task_id, ok=True, text=answer)
        ending = outcome.outcome if outcome is not None else "cancelled"
        reason = f": {task.reason}" if task.reason and task.reason != ending else ""
        last_words = f"\nIt had said:\n{answer}" if answer else ""
        return Report(
            task_id, ok=False, text=f"task {task_id} did not finish ({ending}{reason}).{last_words}"
        )

    def _message(self, report: Report) -> UserMessage:
        heading = f"[Task {report.task_id}, which you delegated, has {'finished' if report.ok else 'ended'}."
        text = f"{heading} Its answer:]\n{keep_ends(report.text, MAX_REPORT_CHARS)}"
        return UserMessage(self._owner.parts.clock.new_id(), (Text(text),), "note")


def _title(text: str) -> str:
    first = text.strip().split("\n", 1)[0]
    return first if len(first) <= 60 else first[:59] + "…"


def _share(meter: TokenMeter) -> Budget:
    """Return the budget of a subagent, 0 where the parent has no limit. Raises `ToolError` when nothing is
    left."""
    budget = meter.budget
    tokens = meter.total.input_tokens + meter.total.output_tokens
    dollars_left, tokens_left = budget.max_cost_usd - meter.cost_usd, budget.max_tokens - tokens
    if (budget.max_cost_usd and dollars_left <= 0) or (budget.max_tokens and tokens_left <= 0):
        raise ToolError("your budget is used up: nothing is left for a subagent")
    return Budget(
        dollars_left * SHARE if budget.max_cost_usd else 0.0,
        int(tokens_left * SHARE) if budget.max_tokens else 0,
    )


def _adjust_budget(budget: Budget, by: Budget, sign: int) -> Budget:
    """Add to or subtract from a budget; no limit stays no limit."""
    return Budget(
        budget.max_cost_usd + sign * by.max_cost_usd if budget.max_cost_usd else 0.0,
        budget.max_tokens + sign * by.max_tokens if budget.max_tokens else 0,
    )


def _narrow(tools: frozenset[str] | None, above: frozenset[str] | None) -> frozenset[str] | None:
    """Return the tools of a subagent: none that its parent does not have."""
    if tools is None or above is None:
        return above if tools is None else tools
    return tools & above
