"""Tasks that share a key share one patience: no storm after a rate limit, the foreground first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from buddy.agent.provider import ErrorKind, Finished, ModelDelta, ModelRequest, ProviderError, TextPiece
from buddy.llm.rate_limiter import CROWD, GovernedProvider, Governor, Ticket
from tests.fake_llm.script import HttpError, Reply, reply
from tests.fake_llm.server import FakeLLM
from tests.support.lanes import lane, pieces_of, request


def background() -> bool:
    return False


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_open_governor_lets_pass_and_keeps_a_crowd_from_starting_at_once():
    governor = Governor()
    tickets = [await governor.admit(background) for _ in range(CROWD)]
    late = asyncio.create_task(governor.admit(background))
    await settle()
    assert not late.done()
    governor.confirm(tickets[0])
    await late
    assert not governor.is_closed


async def test_after_a_refusal_one_probe_goes_and_the_others_wait_for_its_answer():
    governor = Governor(interval_s=0.05)
    first = await governor.admit(background)
    governor.refuse(first, None)
    assert governor.is_closed
    waiting = [asyncio.create_task(governor.admit(background)) for _ in range(3)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0.1)
    assert [task.done() for task in waiting] == [True, False, False]
    governor.confirm(waiting[0].result())
    await asyncio.wait_for(asyncio.gather(*waiting), 20)
    for task in waiting:
        governor.confirm(task.result())
    assert not governor.is_closed


async def test_the_delay_the_provider_asks_for_is_kept():
    governor = Governor(interval_s=0.01)
    ticket = await governor.admit(background)
    loop = asyncio.get_running_loop()
    started = loop.time()
    governor.refuse(ticket, 0.2)
    await governor.admit(background)
    assert loop.time() - started >= 0.19


async def test_a_delay_nobody_would_wait_for_does_not_hold_who_asks_again():
    governor = Governor(interval_s=0.01)
    governor.refuse(await governor.admit(background), 86_400)
    async with asyncio.timeout(60):
        probe = await governor.admit(background)
    governor.confirm(probe)
    assert not governor.is_closed


async def test_who_waits_for_a_turn_hears_how_long_once_for_each_delay():
    governor = Governor(interval_s=0.01)
    heard: list[tuple[bool, str]] = []

    def held(wait_s: float, kind: ErrorKind) -> None:
        heard.append((wait_s > 60, kind))

    first, second = [await governor.admit(background, held) for _ in range(2)]
    governor.refuse(first, 50, "overloaded")
    waiting = asyncio.create_task(governor.admit(background, held))
    await settle()
    governor.give_back(second)
    assert heard == [(False, "overloaded")]
    governor.refuse(second, 100)
    await settle()
    waiting.cancel()
    assert heard == [(False, "overloaded"), (True, "rate_limit")]


async def test_refusals_of_requests_sent_before_the_first_do_not_make_the_delay_grow():
    governor = Governor(interval_s=10)
    heard: list[float] = []
    tickets = [await governor.admit(background) for _ in range(5)]
    for ticket in tickets:
        governor.refuse(ticket, None)
    waiting = asyncio.create_task(governor.admit(background, lambda wait_s, _kind: heard.append(wait_s)))
    await settle()
    waiting.cancel()
    (wait_s,) = heard
    assert wait_s <= 10  # doubled five times it would be a minute


async def test_the_refusal_of_a_probe_doubles_the_delay():
    governor = Governor(interval_s=0.05)
    governor.refuse(await governor.admit(background), None)
    probe = await governor.admit(background)
    loop = asyncio.get_running_loop()
    started = loop.time()
    governor.refuse(probe, None)
    await governor.admit(background)
    assert loop.time() - started >= 0.09


async def probed(governor: Governor) -> Ticket:
    """The probe of a governor that was closed: nobody else goes before it is answered."""
    governor.refuse(await governor.admit(background), None)
    return await governor.admit(background)


async def test_the_foreground_goes_first_also_when_it_becomes_so_while_waiting():
    governor = Governor(interval_s=0.02)
    probe = await probed(governor)
    focus = "none"
    order: list[str] = []

    async def take(name: str) -> None:
        ticket = await governor.admit(lambda: focus == name)
        order.append(name)
        governor.confirm(ticket)

    tasks = [asyncio.create_task(take(name)) for name in ("a", "b", "c")]
    await settle()
    focus = "c"
    governor.confirm(probe)
    await asyncio.gather(*tasks)
    assert order == ["c", "a", "b"]


async def test_a_cancelled_wait_leaves_no_trace():
    governor = Governor(interval_s=0.05)
    probe = await probed(governor)
    waiting = [asyncio.create_task(governor.admit(background)) for _ in range(2)]
    await settle()
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    assert governor.waiting == 1
    governor.confirm(probe)
    await waiting[1]


async def test_a_turn_that_comes_in_the_moment_of_a_cancellation_is_passed_on():
    governor = Governor()
    tickets = [await governor.admit(background) for _ in range(CROWD)]
    first, second = (asyncio.create_task(governor.admit(background)) for _ in range(2))
    await settle()
    governor.give_back(tickets[0])
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second


async def test_other_errors_and_cancelled_streams_give_their_turn_back():
    class Failing:
        lane = "chat"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
            if request.model == "bad":
                raise ProviderError("bad_request", "no")
            yield TextPiece("a")
            yield Finished("stop")

    governor = Governor()
    provider = GovernedProvider(Failing(), governor, background)
    assert provider.lane == "chat"
    for _ in range(CROWD * 2):
        _, error = await pieces_of(provider.stream(request(model="bad")))
        assert error is not None
    for _ in range(CROWD * 2):
        async with aclosing(provider.stream(request())) as stream:
            assert await anext(stream) == TextPiece("a")
    assert not governor.is_closed


async def run_tasks(server: FakeLLM, count: int, governor: Governor) -> list[str]:
    """So many tasks, each asking until it is answered, as the loop does."""
    provider = lane("chat", server.url)

    async def one() -> str:
        governed = GovernedProvider(provider, governor, background)
        while True:
            pieces, error = await pieces_of(governed.stream(request()))
            if error is None:
                return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))

    answers = await asyncio.gather(*(one() for _ in range(count)))
    await provider.aclose()
    return answers


async def test_REL_036_fifty_tasks_that_meet_a_rate_limit_make_no_storm():
    loop = asyncio.get_running_loop()
    started = loop.time()

    def answer(_asked: object) -> Reply:
        if loop.time() - started < 0.5:
            return reply("", fault=HttpError(429, {"retry-after": "0.2"}))
        return reply("ok")

    async with FakeLLM({"": answer}) as server:
        answers = await run_tasks(server, 50, Governor(interval_s=0.05))
        assert answers == ["ok"] * 50
        assert len(server.requests) <= 100
        assert sum(1 for asked in server.requests if asked.at - started < 0.5) <= CROWD + 4


async def test_REL_036_a_server_that_takes_so_many_per_second_is_not_asked_twice_as_often():
    loop = asyncio.get_running_loop()
    taken: list[float] = []

    def answer(_asked: object) -> Reply:
        now = loop.time()
        if sum(1 for at in taken if now - at < 0.2) >= 5:
            return reply("", fault=HttpError(429, {"retry-after": "0.1"}))
        taken.append(now)
        return reply("ok")

    async with FakeLLM({"": answer}) as server:
        answers = await run_tasks(server, 50, Governor(interval_s=0.05))
        assert answers == ["ok"] * 50
        assert len(server.requests) <= 100


class Keys:
    """An account whose key somebody changes. "" can't be found."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.found = value

    async def resolve(self) -> str:
        if not self.found:
            raise ProviderError("auth", "no key")
        self.value = self.found
        return self.value


async def test_RU_A12_lifting_lets_one_probe_go_at_once():
    governor = Governor()
    governor.refuse(await governor.admit(background), 100)
    waiting = [asyncio.create_task(governor.admit(background)) for _ in range(2)]
    await settle()
    governor.lift()
    await settle()
    assert [one.done() for one in waiting] == [True, False]
    assert governor.is_closed
    await cancelled(waiting[1])


async def test_RU_A12_another_key_does_not_wait_for_the_limit_of_the_refused_one():
    keys = Keys("one")
    governor = Governor(account=keys)
    governor.refuse(await governor.admit(background), 100)
    for found, goes in (("one", False), ("", False), ("other", True)):
        keys.found = found
        await governor.lift_for_another_key()
        asked = asyncio.create_task(governor.admit(background))
        await settle()
        assert asked.done() is goes, found
        await cancelled(asked)


async def cancelled(task: asyncio.Task[Ticket]) -> None:
    task.cancel()
    await asyncio.wait({task})
