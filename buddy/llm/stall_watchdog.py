"""The idle watchdog: a stream that stalls is cut, and the error says what stalled.

Bytes and content are watched separately: an upstream can be healthy and silent for minutes while it prepares
tool arguments, and a dead one can go on pinging. One timer serves a whole stream: a delta only notes the
time, and the timer, when it fires, looks how much later it should have fired. Time in which the consumer was
busy does not count; nor does time in which the whole program stood still (Ctrl+Z and fg, a machine that gave
the processor to others): what came meanwhile is read before anything is judged.

It has to stand inside the governor (`GovernedProvider(WatchedProvider(lane, …), …)`): waiting for a turn is
no stall.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

import msgspec

from buddy.agent.provider import Alive, ModelDelta, ModelRequest, Provider, ProviderError

LATE_S = 0.5
"""A timer that fires so much too late: the event loop stood still."""
GRACE_S = 0.5
"""For reading what came while it did."""


class WatchLimits(msgspec.Struct, frozen=True):
    """Seconds until a stream counts as stalled: before its first bytes, between bytes, between pieces of
    content, and in all."""

    first_s: float
    idle_s: float
    content_s: float
    total_s: float


class Timer(Protocol):
    """The part of an event loop the watchdog needs; tests bring their own."""

    def time(self) -> float:
        """Return seconds of a monotonic clock."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call back at a time of that clock."""
        ...


class WatchedProvider:
    """A provider whose streams are watched."""

    def __init__(self, provider: Provider, limits: WatchLimits) -> None:
        self._provider = provider
        self._limits = limits

    @property
    def lane(self) -> str:
        """The wire format of the provider inside."""
        return self._provider.lane

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Yield the reply in pieces."""
        return watch_stream(self._provider.stream(request), self._limits)


async def watch_stream(
    stream: AsyncGenerator[ModelDelta, None], limits: WatchLimits, timer: Timer | None = None
) -> AsyncGenerator[ModelDelta, None]:
    """Yield the same pieces. Raises `ProviderError` of kind `cut` when a limit is exceeded; closes the stream
    inside, however it ends."""
    loop = asyncio.get_running_loop()
    watch = _StreamWatch(limits, timer or loop, loop)
    try:
        while True:
            watch.resume()
            try:
                delta = await anext(stream)
            except StopAsyncIteration:
                return
            except asyncio.CancelledError:
                if watch.claims_cancellation():
                    raise watch.error() from None
                raise
            watch.note(delta)
            yield delta
    finally:
        watch.stop()
        await stream.aclose()


class _StreamWatch:
    """Times of one stream. The timer interrupts the waiting task by cancelling it, as `asyncio.timeout`
    does."""

    __slots__ = (
        "_cancelling",
        "_content_at",
        "_due",
        "_fired",
        "_handle",
        "_has_bytes",
        "_is_asleep",
        "_limits",
        "_loop",
        "_noted_at",
        "_started_at",
        "_task",
        "_timer",
        "_waiting",
    )

    def __init__(self, limits: WatchLimits, timer: Timer, loop: asyncio.AbstractEventLoop) -> None:
        now = timer.time()
        self._loop = loop
        self._limits = limits
        self._timer = timer
        self._started_at = self._noted_at = self._content_at = now
        self._has_bytes = False
        self._waiting = False
        self._is_asleep = False
        self._fired = ""
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._look_at(self._deadline()[0])

    def resume(self) -> None:
        """Continue when the consumer wants the next piece: the time it was busy is not a stall."""
        away = self._timer.time() - self._noted_at
        self._noted_at += away
        self._content_at += away
        self._started_at += away
        task = asyncio.current_task(self._loop)  # without the loop it costs a system call, for every delta
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._waiting = True
        if self._is_asleep:
            self._is_asleep = False
            self._look_at(self._deadline()[0])

    def note(self, delta: ModelDelta) -> None:
        """Note that a piece arrived."""
        self._waiting = False
        self._noted_at = self._timer.time()
        if type(delta) is not Alive:
            self._content_at = self._noted_at
        if not self._has_bytes:
            self._has_bytes = True  # the only moment in which the deadline may come nearer
            self._handle.cancel()
            self._is_asleep = True

    def stop(self) -> None:
        """Note that the stream is over."""
        self._waiting = False
        self._handle.cancel()

    def claims_cancellation(self) -> bool:
        """Tell whether a cancellation came from the watchdog alone."""
        if not self._fired or self._task is None:
            return False
        return self._task.uncancel() <= self._cancelling

    def error(self) -> ProviderError:
        """Return the error for the stall."""
        return ProviderError("cut", self._fired)

    def _deadline(self) -> tuple[float, str]:
        limits = self._limits
        if self._has_bytes:
            silence = (
                self._noted_at + limits.idle_s,
                f"the stream stalled: no bytes for {limits.idle_s:g} s",
            )
        else:
            silence = (self._noted_at + limits.first_s, f"no answer within {limits.first_s:g} s")
        content = (
            self._content_at + max(limits.content_s, limits.first_s),
            f"the stream stalled: signs of life but no content for {limits.content_s:g} s",
        )
        total = (self._started_at + limits.total_s, f"the reply took longer than {limits.total_s:g} s")
        return min(silence, content, total)

    def _look_at(self, when: float) -> None:
        self._due = when
        self._handle = self._timer.call_at(when, self._look)

    def _look(self) -> None:
        when, what = self._deadline()
        now = self._timer.time()
        if not self._waiting:
            self._is_asleep = True  # the consumer is busy: `resume` sets the timer again
        elif now < when:
            self._look_at(when)
        elif now - self._due > LATE_S:
            self._look_at(now + GRACE_S)
        elif self._task is not None:
            self._fired = what
            self._task.cancel()
