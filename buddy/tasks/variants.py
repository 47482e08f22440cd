"""Variants: one prompt worked on by several tasks at once, each in a worktree of its own, from one state and
under one budget."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from buddy.agent.budget import Budget, BudgetLedger
from buddy.agent.cancel import finish_uninterruptibly
from buddy.agent.tool import ToolContext, ToolError, ToolResult
from buddy.config.settings import ConfigError
from buddy.safety.paths import Boundary
from buddy.safety.policy.facts import facts_of
from buddy.sessions.records import VariantMark
from buddy.tasks.dependencies import BoardParts, TaskServices
from buddy.tasks.task import Task, TaskError
from buddy.tasks.workspaces import TaskWorkspaces
from buddy.tools.files.read import read_file
from buddy.tools.variants import ResultPart, VariantResults
from buddy.workspace.worktrees.worktrees import Worktree

FEWEST, MOST = 2, 8
"""Variants of one prompt. Each is a working tree, a conversation and a stream."""


class VariantOwner(Protocol):
    """The parts of the board that variants use."""

    parts: BoardParts
    tasks: dict[int, Task]
    workspaces: TaskWorkspaces

    def open(
        self, title: str = "", *, model: str = "", copy_of: int = 0, parent: int = 0, worktree: str = ""
    ) -> Task:
        """Open a task."""
        ...

    def to_background(self, task_id: int) -> None:
        """Move a task to the background."""
        ...

    async def kill(self, task_id: int) -> None:
        """Cancel the turn and close the task."""
        ...


class OpenedVariants(msgspec.Struct, frozen=True):
    """The tasks of new variants, without a prompt yet. `problems` are the numbers that could not be opened,
    with the reason; `notice` is for the person."""

    tasks: tuple[Task, ...]
    problems: Mapping[int, str]
    notice: str = ""


class Variants:
    """The variants of a board, in groups: one group for each prompt."""

    def __init__(self, owner: VariantOwner) -> None:
        self._owner = owner
        self._results = VariantResults(self._read)

    def add_service(self, services: Callable[[int], TaskServices]) -> Callable[[int], TaskServices]:
        """Add the service that reads the results of variants to the services of each task."""

        def with_results(inner: TaskServices) -> TaskServices:
            def copy(task_id: int) -> TaskServices:
                return with_results(inner.copy(task_id))

            extended = {**inner.services, VariantResults: self._results}
            return msgspec.structs.replace(inner, services=extended, copy=copy)

        return lambda task_id: with_results(services(task_id))

    # -- the groups ----------------------------------------------------------------------------------------

    def groups(self) -> dict[int, list[Task]]:
        """Return the variants of each prompt by the id of the group, the oldest first."""
        found: dict[int, list[Task]] = {}
        for task in self._owner.tasks.values():
            if task.variant is not None:
                found.setdefault(task.variant.group, []).append(task)
        return found

    def group_of(self, task: Task) -> list[Task]:
        """Return the variants of the same prompt, this one among them."""
        assert task.variant is not None
        return self.groups()[task.variant.group]

    # -- opening -------------------------------------------------------------------------------------------

    async def open(self, words: str, models: Sequence[str], *, start: Task) -> OpenedVariants:
        """Open a task with a worktree for each model, all from the files of the main tree and the
        conversation of `start`. Raises `TaskError` when not even two can be; then nothing is left of them."""
        if not FEWEST <= len(models) <= MOST:
            raise TaskError(f"expected {FEWEST} to {MOST} variants, found {len(models)}")
        if start.workspace.target:
            raise TaskError(
                f"variants work on this machine, and task {start.task_id} works on {start.workspace.target}; "
                "go back with /target local, or leave out --target"
            )
        if start.workspace.worktree is not None:
            raise TaskError(
                f"variants start from the main tree, and task {start.task_id} works in "
                f"{start.workspace.worktree.display_path}; /fg shows a task of the main tree"
            )
        trees, problems, notice = await self._make_trees(words, len(models))
        if len(trees) < FEWEST:
            await self._remove(trees.values())
            reasons = "; ".join(dict.fromkeys(problems.values()))
            raise TaskError(f"nothing was started, fewer than {FEWEST} worktrees could be made: {reasons}")
        limits = start.meter.budget
        try:
            tasks = self._open_tasks(trees, models, start, limits)
        except ConfigError as error:
            await self._remove(trees.values())
            raise TaskError(str(error)) from error
        self._share_budget(tasks, limits)
        return OpenedVariants(tuple(tasks), problems, notice)

    def _open_tasks(
        self, trees: Mapping[int, Worktree], models: Sequence[str], start: Task, limits: Budget
    ) -> list[Task]:
        group = max(self._owner.tasks, default=0) + 1
        tasks: list[Task] = []
        for number, tree in trees.items():
            model = models[number - 1] or start.model
            task = self._owner.open(model=model, copy_of=start.task_id, worktree=tree.name)
            self._owner.to_background(task.task_id)
            task.variant = VariantMark(group, number, limits.max_cost_usd, limits.max_tokens)
            self._owner.parts.journal.record_task(task.task_id, task.record())
            tasks.append(task)
        return tasks

    async def _make_trees(self, words: str, count: int) -> tuple[dict[int, Worktree], dict[int, str], str]:
        """Make the worktrees one after the other. The later ones are copies of the first, so that all have
        the same files whatever is saved meanwhile."""
        trees: dict[int, Worktree] = {}
        problems: dict[int, str] = {}
        notices: list[str] = []
        try:
            for number in range(1, count + 1):
                first = next(iter(trees.values()), None)
                try:
                    name = f"{number} {words}"
                    made = await self._owner.workspaces.make(name, carrying=True, like=first)
                except ToolError as error:
                    problems[number] = str(error)
                else:
                    trees[number] = made[0]
                    notices.append(made[1])
        except asyncio.CancelledError:
            await finish_uninterruptibly(self._remove(trees.values()))
            raise
        return trees, problems, next(filter(None, notices), "")

    async def _remove(self, trees: Iterable[Worktree]) -> None:
        for tree in tuple(trees):
            with contextlib.suppress(ToolError):  # /worktree lists what is left
                await self._owner.workspaces.parts().trees.remove(tree, discard=True)

    async def drop(self, task: Task) -> None:
        """End a variant, close its task and remove its worktree with everything in it. Raises `ToolError`."""
        if not task.closed:
            await self._owner.kill(task.task_id)
        tree, workspaces = task.workspace.worktree, self._owner.workspaces
        if tree is None:
            return
        trees = workspaces.parts().trees
        if trees.missing(tree):
            await trees.forget(tree)
        else:
            await trees.remove(tree, discard=True)
        await asyncio.to_thread(workspaces.forget_changes, tree)
        task.worktree_state = ""

    # -- the budget ----------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Share the budgets of the groups of a resumed session."""
        for tasks in self.groups().values():
            mark = tasks[0].variant
            if mark is not None:
                self._share_budget(tasks, Budget(mark.max_cost_usd, mark.max_tokens))

    def limit(self, task: Task, budget: Budget) -> None:
        """Limit what a variant and the others of its prompt may use together."""
        for other in self.group_of(task):
            assert other.variant is not None
            other.variant = msgspec.structs.replace(
                other.variant, max_cost_usd=budget.max_cost_usd, max_tokens=budget.max_tokens
            )
            self._owner.parts.journal.record_task(other.task_id, other.record())
        if task.meter.shared is not None:
            task.meter.shared.budget = budget

    def _share_budget(self, tasks: Sequence[Task], budget: Budget) -> None:
        members = frozenset(task.task_id for task in tasks)
        shared = BudgetLedger("the budget of all variants", budget, lambda: self._spent(members))
        for task in self._owner.tasks.values():
            if self._root(task) in members:
                task.meter.shared = shared
        for task in tasks:
            task.meter.budget = Budget()  # the shared one is all that limits it

    def _spent(self, members: frozenset[int]) -> tuple[float, int]:
        """Return dollars and tokens of variants and of the subagents that work for them."""
        meters = [task.meter for task in self._owner.tasks.values() if self._root(task) in members]
        tokens = sum(meter.total.input_tokens + meter.total.output_tokens for meter in meters)
        return sum(meter.cost_usd for meter in meters), tokens

    def _root(self, task: Task) -> int:
        while task.parent in self._owner.tasks:
            task = self._owner.tasks[task.parent]
        return task.task_id

    # -- results -------------------------------------------------------------------------------------------

    async def _read(self, context: ToolContext, number: int, part: ResultPart, path: str) -> ToolResult:
        from buddy.tasks.variant_results import read_result  # few sessions try a prompt several times

        reader = self._owner.tasks[context.task_id]
        if reader.variant is None:
            raise ToolError("this task is no variant of a prompt: there is no other result to read")
        others = {task.variant.number: task for task in self.group_of(reader) if task.variant is not None}
        if number not in others:
            raise ToolError(f"there is no variant {number} (variants: {', '.join(map(str, others))})")

        def may_read(boundary: Boundary, real: str) -> bool:
            parts = self._owner.parts
            try:
                facts = facts_of(read_file, read_file.arguments(path=real), boundary)
            except ToolError:  # a name that no call could give
                return False
            verdict = parts.policy.consider(facts, parts.clock.wall(), reader.call_limits)
            return verdict.decision == "allow"

        return await read_result(
            self._owner.workspaces, context, others[number], part, path, may_read=may_read
        )
