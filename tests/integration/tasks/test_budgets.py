"""Budgets of a session and its tasks over a resume."""

from __future__ import annotations

import asyncio
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
        await saved_session.close()


async def test_requests_of_two_tasks_share_the_budget_of_the_session(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        board = session.board
        one, other = board.task(1).meter, board.open().meter
        board.set_budget(0, Budget(max_tokens=100))
        assert await one.reserve(60, 0) is None
        second = asyncio.ensure_future(other.reserve(60, 0))
        await asyncio.sleep(0)
        assert not second.done()
        board.set_budget(0, Budget(max_tokens=200))
        assert await second is None
