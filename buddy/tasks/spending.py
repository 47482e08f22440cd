"""What the tasks of a session use of tokens and money, and what they may."""

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

    def limit_task(self, task: Task, dollars: float) -> None:
        """What one task may cost from now on; 0 is no limit."""
        task.meter.budget = Budget(dollars, task.meter.budget.max_tokens)
        self._parts.memory.record_budget(BudgetSet(dollars, 0), task.number)

    def limit_session(self, dollars: float) -> None:
        """What the whole session may cost from now on; 0 is no limit."""
        self._session = Budget(dollars, self._session.max_tokens)
        for task in self._tasks.values():
            task.meter.session = self._session
        self._parts.memory.record_budget(BudgetSet(dollars, 0), 0)
