"""Tokens and money the tasks of a session use, and their limits."""

from __future__ import annotations

from collections.abc import Mapping

from buddy.agent.budget import Budget, TokenMeter
from buddy.agent.events import TokenUsage
from buddy.sessions.records import BudgetSet
from buddy.tasks.parts import BoardParts
from buddy.tasks.task import Task


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
