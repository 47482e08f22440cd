"""Construction of the parts of a run's task board."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from buddy.agent.budget import Budget, DayBudget
from buddy.agent.host import Limits
from buddy.agent.registry import ToolRegistry
from buddy.cli.rules import RuleFiles
from buddy.cli.run import Run, SharedServices
from buddy.cli.workspaces import main_workspace, worktree_parts
from buddy.safety.policy_facts import Facts
from buddy.safety.redact import redact, redact_message
from buddy.safety.shell.hardened import READ_ONLY_ENVIRONMENT
from buddy.sessions.spending import DaySpending
from buddy.tasks.parts import BoardParts, Clock
from buddy.tools.cache import ToolCache
from buddy.workspace.approved import Approved

ATTENDED_WAIT_S = 120
UNATTENDED_WAIT_S = 900
"""How long a provider may ask to wait before the turn fails."""


def board_parts(run: Run, held: SharedServices, tools: ToolRegistry, rules: RuleFiles) -> BoardParts:
    """All of it, by the settings and the command line."""
    settings, models = run.settings, run.models
    attended, options = run.wanted.attended, run.wanted.options
    return BoardParts(
        workspace=main_workspace(run, held),
        tools=tools,
        model=models.access_or_explain if attended else models.access,
        policy=run.policy,
        judged=remember(held.approved),
        sandboxing=held.sandbox,
        memory=run.session.writer,
        cache=ToolCache(time.monotonic),
        redact=lambda message: redact_message(message, models.keys()),
        redact_text=lambda text: redact(text, models.keys()),
        save_rules=rules.save,
        forget_rule=rules.forget,
        clock=_clock(),
        limits=Limits(
            max_replies=options.max_turns or settings.agent.max_iterations,
            tries=settings.network.tries,
            outage_tries=0 if attended else settings.network.unattended_tries,
            longest_wait_s=ATTENDED_WAIT_S if attended else UNATTENDED_WAIT_S,
        ),
        task_budget=Budget(options.max_cost or settings.budget.task_usd, settings.budget.task_tokens),
        session_budget=Budget(settings.budget.session_usd, settings.budget.session_tokens),
        attended=attended,
        steering=settings.agent.steering,
        follow_ups=settings.agent.follow_ups,
        day=_day(run),
        worktrees=worktree_parts(run, held),
    )


def remember(approved: Approved) -> Callable[[str, Facts], None]:
    """Return a function that records what a call was judged by: the places its paths lead to and the content
    of its scripts (tools refuse when these have changed), and the environment a command that only reads must
    run with."""

    def judged(call_id: str, facts: Facts) -> None:
        started = (facts.folder,) if facts.folder is not None else ()
        for located in (*facts.reads, *facts.writes, *started):
            approved.remember(call_id, located.given, located.real)
        reads = facts.shell is not None and facts.shell.read_only
        if facts.shell is not None and not reads:
            approved.remember_scripts(call_id, facts.shell, facts.scripts)
        approved.harden(call_id, READ_ONLY_ENVIRONMENT if reads else {})

    return judged


def _clock() -> Clock:
    return Clock(
        now=time.monotonic,
        wall=time.time,
        sleep=asyncio.sleep,
        random=lambda: int.from_bytes(os.urandom(6), "big") / 2**48,
        new_id=lambda: os.urandom(8).hex(),
    )


def _day(run: Run) -> DayBudget:
    spending = DaySpending(run.place.where.state)
    return DayBudget(run.settings.budget.day_usd, spending.spent, spending.add)
