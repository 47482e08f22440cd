"""A stream that stalls is cut, and the error says what stalled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from buddy.agent.provider import Alive, Finished, ModelDelta, ProviderError, TextPiece
from buddy.llm.stall_watchdog import WatchedProvider, WatchLimits, watch_stream
from tests.fake_llm.script import Pings, Stall, reply
from tests.fake_llm.server import FakeLLM
from tests.support.lanes import lane, pieces_of, request

LIMITS = WatchLimits(first_s=100, idle_s=30, content_s=300, total_s=1_000)


class Clock:
    """A loop's clock that a test turns: callbacks run when their time has come."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.due: list[tuple[float, Callable[[], None], asyncio.TimerHandle]] = []
        self.calls = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        handle = asyncio.get_running_loop().call_later(3600, callback)
        self.due.append((when, callback, handle))
        self.calls += 1
        return handle

    async def advance(self, seconds: float) -> None:
        await self.settle()
        end = self.now + seconds
        while ready := [one for one in self.due if one[0] <= end and not one[2].cancelled()]:
            entry = min(ready, key=lambda one: one[0])
            self.due.remove(entry)
            self.now = max(self.now, entry[0])
            entry[1]()
            await self.settle()
        self.now = end
        await self.settle()

    def look(self) -> None:
        """Run the callback that is due first, and nothing between."""
        entry = min((one for one in self.due if not one[2].cancelled()), key=lambda one: one[0])
        self.due.remove(entry)
        entry[1]()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


class Source:
    """A provider's stream that a test feeds."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[ModelDelta] = asyncio.Queue()
        self.is_closed = False

    async def stream(self) -> AsyncGenerator[ModelDelta, None]:
        try:
            while True:
                delta = await self.queue.get()
                yield delta
                if isinstance(delta, Finished):
                    return
        finally:
            self.is_closed = True


async def watching(
    limits: WatchLimits = LIMITS,
) -> tuple[Clock, Source, asyncio.Task[tuple[list[ModelDelta], ProviderError | None]]]:
    clock, source = Clock(), Source()
    task = asyncio.create_task(pieces_of(watch_stream(source.stream(), limits, clock)))
    await clock.settle()
    return clock, source, task


async def test_a_stream_in_time_passes_unchanged():
    clock, source, task = await watching()
    for piece in (TextPiece("a"), Alive(), TextPiece("b"), Finished("stop")):
        await clock.advance(29)
        source.queue.put_nowait(piece)
    assert await task == ([TextPiece("a"), Alive(), TextPiece("b"), Finished("stop")], None)
    assert source.is_closed


async def outcome(task: asyncio.Task[tuple[list[ModelDelta], ProviderError | None]], source: Source) -> str:
    _, error = await task
    assert error is not None
    assert (error.kind, error.retryable) == ("cut", True)
    assert source.is_closed
    return error.message


async def test_REL_025_no_first_byte_in_time():
    clock, source, task = await watching()
    await clock.advance(99)
    assert not task.done()
    await clock.advance(2)
    assert await outcome(task, source) == "no answer within 100 s"


async def test_REL_025_silence_between_bytes_also_right_after_the_first():
    clock, source, task = await watching()
    source.queue.put_nowait(TextPiece("a"))
    await clock.advance(29)
    assert not task.done()
    await clock.advance(2)
    assert await outcome(task, source) == "the stream stalled: no bytes for 30 s"


async def test_REL_026_pings_keep_a_stream_alive_up_to_the_content_limit():
    clock, source, task = await watching()
    for _ in range(14):
        source.queue.put_nowait(Alive())
        await clock.advance(20)
    assert not task.done()
    for _ in range(2):
        source.queue.put_nowait(Alive())
        await clock.advance(20)
    assert await outcome(task, source) == "the stream stalled: signs of life but no content for 300 s"


async def test_a_reply_that_never_ends_is_ended():
    clock, source, task = await watching()
    while not task.done():
        source.queue.put_nowait(TextPiece("a"))
        await clock.advance(20)
    assert clock.now == pytest.approx(2_000, abs=21)
    assert await outcome(task, source) == "the reply took longer than 1000 s"


async def test_a_consumer_that_is_busy_is_no_stall():
    clock, source = Clock(), Source()
    stream = watch_stream(source.stream(), LIMITS, clock)
    source.queue.put_nowait(TextPiece("a"))
    assert await anext(stream) == TextPiece("a")
    await clock.advance(5_000)
    source.queue.put_nowait(TextPiece("b"))
    assert await anext(stream) == TextPiece("b")
    await stream.aclose()
    assert source.is_closed


async def test_the_timer_is_not_set_for_every_piece():
    clock, source, task = await watching()
    for _ in range(1_000):
        source.queue.put_nowait(TextPiece("a"))
        await clock.advance(0.01)
    source.queue.put_nowait(Finished("stop"))
    pieces, error = await task
    assert (len(pieces), error) == (1_001, None)
    assert clock.calls < 10


async def test_a_stall_after_the_consumer_was_busy_is_noticed():
    clock, source = Clock(), Source()
    stream = watch_stream(source.stream(), LIMITS, clock)
    source.queue.put_nowait(TextPiece("a"))
    await anext(stream)
    await clock.advance(5_000)
    task = asyncio.create_task(pieces_of(stream))
    await clock.advance(29)
    assert not task.done()
    await clock.advance(2)
    assert await outcome(task, source) == "the stream stalled: no bytes for 30 s"


async def test_what_came_while_the_whole_program_stood_still_is_read_before_it_is_judged():
    """As after Ctrl+Z and fg: the timer is long due, and so is what waits in the socket."""
    clock, source, task = await watching()
    source.queue.put_nowait(TextPiece("a"))
    await clock.settle()
    clock.now += 500
    source.queue.put_nowait(TextPiece("b"))
    clock.look()
    await clock.settle()
    assert not task.done()
    await clock.advance(1)
    source.queue.put_nowait(Finished("stop"))
    assert await task == ([TextPiece("a"), TextPiece("b"), Finished("stop")], None)


async def test_a_stall_is_noticed_soon_after_the_whole_program_stood_still():
    clock, source, task = await watching()
    source.queue.put_nowait(TextPiece("a"))
    await clock.settle()
    clock.now += 500
    clock.look()
    await clock.settle()
    assert not task.done()
    await clock.advance(1)
    assert await outcome(task, source) == "the stream stalled: no bytes for 30 s"


async def test_a_cancellation_from_outside_stays_one():
    clock, source, task = await watching()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.is_closed
    assert clock.now == 1_000


async def test_a_cancellation_from_outside_wins_over_the_watchdog():
    clock, source, task = await watching()
    clock.now += 100.2
    _, look, _ = clock.due.pop()
    look()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.is_closed


async def test_REL_025_a_server_that_stalls_is_noticed_over_real_http():
    limits = WatchLimits(first_s=20, idle_s=0.2, content_s=20, total_s=20)
    async with FakeLLM([reply("word " * 10, fault=Stall(after=1))]) as server:
        provider = lane("chat", server.url)
        watched_provider = WatchedProvider(provider, limits)
        assert watched_provider.lane == "chat"
        _, error = await pieces_of(watched_provider.stream(request()))
        (asked,) = await server.ended(1)
        await provider.aclose()
    assert error is not None
    assert (error.message, asked.outcome) == ("the stream stalled: no bytes for 0.2 s", "aborted")


async def test_REL_025_a_server_that_never_answers_is_noticed_over_real_http():
    async with FakeLLM([reply("word", fault=Stall(after=-1))]) as server:
        provider, clock = lane("chat", server.url), Clock()
        task = asyncio.create_task(pieces_of(watch_stream(provider.stream(request()), LIMITS, clock)))
        await server.arrived(1)
        await clock.advance(101)
        _, error = await task
        (asked,) = await server.ended(1)
        await provider.aclose()
    assert error is not None
    assert (error.message, asked.outcome) == ("no answer within 100 s", "aborted")


async def test_REL_026_a_server_that_only_pings_is_noticed_over_real_http():
    seen: list[ModelDelta] = []

    async def read(stream: AsyncGenerator[ModelDelta, None]) -> None:
        async for delta in stream:
            seen.append(delta)

    async with FakeLLM([reply("word " * 10, fault=Pings(after=1, every_s=0.005))]) as server:
        provider, clock = lane("chat", server.url), Clock()
        task = asyncio.create_task(read(watch_stream(provider.stream(request()), LIMITS, clock)))
        async with asyncio.timeout(60):
            while clock.now < 1_310 and not task.done():
                before = len(seen)
                while len(seen) == before and not task.done():
                    await asyncio.sleep(0.001)
                await clock.advance(20)
        with pytest.raises(ProviderError, match="signs of life but no content for 300 s"):
            await task
        (asked,) = await server.ended(1)
        await provider.aclose()
    assert asked.outcome == "aborted"
