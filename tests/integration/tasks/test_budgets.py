"""Budgets of a session and its tasks over a resume."""

from __future__ import annotations

from pathlib import Path

import msgspec

from buddy.agent.budget import Budget
from buddy.tasks.board import TaskBoard
from tests.support.scripted_session import scripted_session
from tests.support.session_files import store_in


async def test_part_4_budgets_survive_a_resume(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        session.board.set_budget(0, Budget(5, 200_000))
        session.board.set_budget(1, Budget(0, 1_000))
    store = store_in(tmp_path)
    (tmp_path / "next").mkdir()
    async with scripted_session(tmp_path / "next") as session:
        saved_session = await store.open("last")
        parts = msgspec.structs.replace(
            session.parts, journal=saved_session.writer, session_budget=Budget(max_cost_usd=2)
        )
        async with TaskBoard(parts) as board:
            board.restore(saved_session.loaded.tasks, saved_session.loaded.state.focus)
            assert board.budget(0) == Budget(2, 200_000)
            assert board.budget(1) == Budget(0, 1_000)
            assert board.task(1).meter.session == Budget(2, 200_000)
        await saved_session.close()
