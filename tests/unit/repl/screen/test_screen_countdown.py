"""A time that has to pass without being started anew."""

from __future__ import annotations

import asyncio

from buddy.repl.screen.screen import Countdown


async def test_it_is_over_once_after_it_was_started_last() -> None:
    over: list[float] = []
    loop = asyncio.get_running_loop()
    countdown = Countdown(lambda: over.append(loop.time()))
    begun = loop.time()
    countdown.start(loop, 60)
    countdown.start(loop, 0.02)
    assert countdown.is_on
    async with asyncio.timeout(60):
        while not over:
            await asyncio.sleep(0.002)
    assert not countdown.is_on
    assert over[0] - begun >= 0.019
    assert len(over) == 1


async def test_it_can_be_stopped_and_needs_no_loop() -> None:
    over: list[str] = []
    countdown = Countdown(lambda: over.append("over"))
    countdown.start(asyncio.get_running_loop(), -1)
    countdown.stop()
    countdown.start(None, 0)
    await asyncio.sleep(0.01)
    assert (countdown.is_on, over) == (False, [])
