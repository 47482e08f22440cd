"""One governor per provider key and model, shared by all tasks: five tasks don't hammer one 429.

Open, it only keeps a crowd from starting at once: so many requests may be unconfirmed (no first piece yet) at
a time, more with every one that is confirmed. After a rate limit or an overload it is closed: nobody goes
before the provider's delay (or a growing one of its own) is over; then one request probes; when it is
confirmed, the others follow at intervals that shrink with every confirmation, until a refusal closes it again
or nobody waits. The foreground goes first. Waiting is a plain await: cancelling the task ends it. The person
may try earlier (`lift`), and a key that is another than the refused one tries at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from buddy.agent.provider import ErrorKind, ModelDelta, ModelRequest, Provider, ProviderError

CLOSING: frozenset[ErrorKind] = frozenset({"rate_limit", "overloaded"})
CROWD = 8
"""How many unconfirmed requests an open governor starts with."""

SPEED_UP = 1.5
AS_GOOD_AS_OPEN = 20
"""How many times faster than probing requests may follow each other before the governor counts as open."""

LONGEST_S = 60.0
"""The longest delay of our own; the provider may ask for more."""

LONGEST_HOLD_S = 120.0
"""A request the provider wants later than that has failed, and the person knows: whoever asks again means it,
or means another model of the same key."""

TOLD_FROM_S = 1.0
"""Shorter waits are not worth a word."""

Held = Callable[[float, ErrorKind], None]
"""Hears for how long a request waits for its turn, and what the provider refused an earlier one with."""


class Ticket:
    """Permission for one request. `epoch` counts the refusals that were known when it was given."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


class Account(Protocol):
    """The key requests go out with."""

    value: str
    """The one in use."""

    async def resolve(self) -> str:
        """Return the key for the next request. Raises `ProviderError`."""
        ...


def ignore_wait(wait_s: float, kind: ErrorKind) -> None:
    """Nobody wants to know."""


class _Waiter:
    __slots__ = ("held", "is_foreground", "told_until", "turn")

    def __init__(self, turn: asyncio.Future[Ticket], is_foreground: Callable[[], bool], held: Held) -> None:
        self.turn = turn
        self.is_foreground = is_foreground
        self.held = held
        self.told_until = 0.0


class Governor:
    """Admission to one provider key. `interval_s`: the least time between two probes, and the delay after a
    first refusal that names none. `account`: None where requests carry no key."""

    def __init__(self, *, interval_s: float = 1.0, account: Account | None = None) -> None:
        self._interval_s = interval_s
        self._account = account
        self._refused_key = ""
        self._room = CROWD
        self._epoch = 0
        self._refusals = 0
        self._is_closed = False
        self._is_probed = False
        self._refused_with: ErrorKind = "rate_limit"
        self._spacing_s = 0.0
        self._not_before = 0.0
        self._unconfirmed: set[Ticket] = set()
        self._waiting: list[_Waiter] = []
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def is_closed(self) -> bool:
        """Tell whether requests are spaced because the provider refused lately."""
        return self._is_closed

    @property
    def waiting(self) -> int:
        """Number of requests waiting for their turn."""
        return len(self._waiting)

    def lift(self) -> None:
        """Try now: whoever is next goes at once, as the one request that probes."""
        self._not_before = self._now()
        self._let_go()

    async def lift_for_another_key(self) -> None:
        """Try now if the next request has another key than the refused one. A key that can't be found is
        told by the request itself."""
        if self._account is None or not self._is_closed:
            return
        try:
            key = await self._account.resolve()
        except ProviderError:
            return
        if self._is_closed and key != self._refused_key:
            self._refused_key = key
            self.lift()

    async def admit(self, is_foreground: Callable[[], bool], held: Held = ignore_wait) -> Ticket:
        """Wait for a turn. The ticket has to be confirmed, refused or given back."""
        waiter = _Waiter(asyncio.get_running_loop().create_future(), is_foreground, held)
        self._waiting.append(waiter)
        self._let_go()
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.turn.cancelled():
                self.give_back(waiter.turn.result())  # cancelled in the moment the turn came
            raise

    def confirm(self, ticket: Ticket) -> None:
        """Note that the request got its first piece: there is room."""
        self._unconfirmed.discard(ticket)
        if not self._is_closed:
            self._room += 1
        elif ticket.epoch == self._epoch:
            self._is_probed = True
            self._refusals = 0
            self._spacing_s /= SPEED_UP
            if not self._waiting or self._spacing_s * AS_GOOD_AS_OPEN < self._interval_s:
                self._is_closed = False
        self._let_go()

    def refuse(self, ticket: Ticket, retry_after_s: float | None, kind: ErrorKind = "rate_limit") -> None:
        """Note a rate limit or an overload. Requests sent before a refusal was known don't increase the
        delay."""
        if retry_after_s is not None and retry_after_s > LONGEST_HOLD_S:
            retry_after_s = None
        self._refused_with = kind
        self._refused_key = self._account.value if self._account else ""
        self._unconfirmed.discard(ticket)
        now = self._now()
        if ticket.epoch == self._epoch:
            self._epoch += 1
            own = min(LONGEST_S, self._interval_s * 2**self._refusals)
            self._refusals += 1
            self._not_before = now + max(self._interval_s, own if retry_after_s is None else retry_after_s)
        elif retry_after_s is not None:
            self._not_before = max(self._not_before, now + retry_after_s)
        self._is_closed = True
        self._is_probed = False
        self._room = CROWD
        self._spacing_s = self._interval_s
        self._let_go()

    def give_back(self, ticket: Ticket) -> None:
        """Note that the request ended without telling about room: another error, a cancellation."""
        self._unconfirmed.discard(ticket)
        self._let_go()

    def _let_go(self) -> None:
        """Give every turn that can be given now; set the alarm for the next."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._waiting and self._has_room():
            wait_s = self._not_before - self._now() if self._is_closed else 0
            if wait_s > 0:
                self._alarm = asyncio.get_running_loop().call_later(wait_s, self._let_go)
                self._tell(wait_s)
                return
            self._give_turn(self._next_waiter())

    def _tell(self, wait_s: float) -> None:
        """Tell those that wait how long, once for each delay; spacing while others are let in is no news."""
        for waiter in self._waiting if wait_s >= TOLD_FROM_S and not self._is_probed else ():
            if waiter.told_until < self._not_before:
                waiter.told_until = self._not_before
                waiter.held(wait_s, self._refused_with)

    def _has_room(self) -> bool:
        """Tell whether there is room. Requests from before the last refusal don't count: their answers may
        take minutes."""
        current = sum(1 for ticket in self._unconfirmed if ticket.epoch == self._epoch)
        return current < (1 if self._is_closed and not self._is_probed else self._room)

    def _next_waiter(self) -> _Waiter:
        """Return the next waiter, foreground first, then by age."""
        waiter = next((one for one in self._waiting if one.is_foreground()), self._waiting[0])
        self._waiting.remove(waiter)
        return waiter

    def _give_turn(self, waiter: _Waiter) -> None:
        if waiter.turn.done():
            return  # cancelled, and about to leave
        ticket = Ticket(self._epoch)
        self._unconfirmed.add(ticket)
        if self._is_closed:
            self._not_before = self._now() + self._spacing_s
        waiter.turn.set_result(ticket)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class GovernedProvider:
    """A provider whose requests ask the governor first: one per task, with the governor of its key."""

    def __init__(
        self,
        provider: Provider,
        governor: Governor,
        is_foreground: Callable[[], bool],
        held: Held = ignore_wait,
    ) -> None:
        self._provider = provider
        self._governor = governor
        self._is_foreground = is_foreground
        self._held = held

    @property
    def lane(self) -> str:
        """The wire format of the provider inside."""
        return self._provider.lane

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Yield the reply in pieces, once it is this request's turn."""
        governor = self._governor
        if governor.is_closed:
            await governor.lift_for_another_key()
        ticket = await governor.admit(self._is_foreground, self._held)
        is_open = True
        stream = self._provider.stream(request)
        try:
            async for delta in stream:
                if is_open:
                    is_open = False
                    governor.confirm(ticket)
                yield delta
        except ProviderError as error:
            if error.kind in CLOSING:
                is_open = False
                governor.refuse(ticket, error.retry_after_s, error.kind)
            raise
        finally:
            if is_open:
                governor.give_back(ticket)
            await stream.aclose()
