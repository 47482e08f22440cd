"""Work beside a cancel event: cancelled at any moment, it is closed and nothing is said of it."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest

from buddy.agent.cancel import Beside, TurnCancelled


async def test_work_cancelled_before_its_first_step_is_closed_without_a_word() -> None:
    cancelled = asyncio.Event()
    begun: list[int] = []

    async def work() -> None:
        begun.append(1)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        running = asyncio.ensure_future(Beside(cancelled).run(work()))
        await asyncio.sleep(0)  # the work is about to take its first step
        cancelled.set()
        with pytest.raises(TurnCancelled):
            await running
        gc.collect()

    assert (begun, [str(one.message) for one in told]) == ([], [])
