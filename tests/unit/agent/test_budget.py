"""Tokens, money and limits; and what stays of a history that no longer fits."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.agent.budget import (
    Budget,
    BudgetLedger,
    DayBudget,
    TokenMeter,
    Window,
    message_tokens,
    text_tokens,
)
from buddy.agent.compaction import CompactedView, Compaction, apply_compaction, plan
from buddy.agent.events import Notice
from buddy.agent.loop import agent_loop
from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    Call,
    Image,
    Message,
    Text,
    ToolMessage,
    Usage,
    UserMessage,
    text_of,
)
from buddy.agent.provider import ModelRequest
from tests.support.laws import Bench, ScriptedLane, says
from tests.support.legal_history import is_legal


def price(usage: Usage) -> float:
    return usage.input_tokens / 1_000_000 + usage.output_tokens * 4 / 1_000_000


def meter(*, limit: int = 1_000, guessed: bool = False, **more: object) -> TokenMeter:
    return TokenMeter(window=Window(limit, guessed=guessed, reserve=200), price=price, **more)


def said(text: str, name: str = "u") -> UserMessage:
    return UserMessage(name, (Text(text),), "prompt")


def replied(*parts: Text | Call, usage: Usage = NO_USAGE, name: str = "a") -> AssistantMessage:
    finish = "calls" if any(isinstance(part, Call) for part in parts) else "stop"
    return AssistantMessage(name, parts, "m", "chat", finish, usage)


def used(given: int, out: int) -> Usage:
    return Usage(given, out, 0, 0, 0, estimated=False)


def asked(*history: Message) -> ModelRequest:
    return ModelRequest("m", "", history, ())


# --- counting ---------------------------------------------------------------------------------------------


def test_a_text_is_four_characters_a_token_and_a_wide_character_is_more() -> None:
    assert text_tokens("x" * 400) == 100
    assert text_tokens("日本語" * 100) == 225
    assert text_tokens("ä" * 400) == 100


def test_a_message_costs_its_text_and_what_surrounds_it() -> None:
    assert message_tokens(said("x" * 400)) == 104
    assert message_tokens(UserMessage("u", (Image("image/png", "A" * 9_000),), "prompt")) == 1_504


def test_an_estimate_counts_what_is_new_and_again_what_changed() -> None:
    counter = meter()
    history: list[Message] = [said("x" * 400)]
    assert counter.estimate(asked(*history)) == 104
    for _ in range(50):
        history += [replied(Text("y" * 40)), ToolMessage("t", "c", "f", "z" * 40, "ok")]
        assert counter.estimate(asked(*history)) == sum(map(message_tokens, history))
    stubbed = [*history[:2], ToolMessage("t", "c", "f", "", "ok"), *history[3:]]
    assert counter.estimate(asked(*stubbed)) == sum(map(message_tokens, stubbed)), "the id is the same"
    assert counter.estimate(asked(*stubbed[:5])) == sum(map(message_tokens, stubbed[:5]))


def test_estimates_are_calibrated_by_what_the_provider_says() -> None:
    counter = meter()
    request = asked(said("x" * 400))
    assert counter.estimate(request) == 104
    counter.settle(104, replied(Text("ok"), usage=used(208, 5)))
    assert counter.estimate(request) == 208
    counter.settle(208, replied(Text("ok"), usage=used(10_000, 5)))
    assert counter.estimate(request) == 312, "a calibration is at most threefold"
    counter.settle(312, replied(Text("ok"), usage=used(1, 5)))
    assert counter.estimate(request) == 52, "and at least a half"


def test_what_a_provider_does_not_say_is_estimated_and_marked() -> None:
    counter = meter()
    settled, event = counter.settle(100, replied(Text("x" * 40)))
    assert settled.usage == Usage(100, 14, 0, 0, 0, estimated=True)
    assert event.total.estimated
    assert event.context_tokens == 114


def test_totals_and_money_add_up() -> None:
    counter = meter()
    for _ in range(3):
        _, event = counter.settle(100, replied(Text("ok"), usage=used(1_000, 100)))
    assert (event.total, event.last) == (used(3_000, 300), used(1_000, 100))
    assert event.cost_usd == pytest.approx(3 * 0.0014)
    assert event.cost_known


def test_a_price_that_is_not_known_is_said() -> None:
    counter = TokenMeter(window=Window(1, guessed=True, reserve=0), price=lambda _usage: None)
    _, event = counter.settle(1, replied(Text("ok"), usage=used(1, 1)))
    assert (event.cost_usd, event.cost_known) == (0, False)
    again = TokenMeter(
        window=Window(1, guessed=True, reserve=0), price=lambda _usage: None, spent=used(1_000, 100)
    )
    assert not again.cost_known  # after a resume too: it is not nothing


def test_the_window_warns_at_80_percent_and_compacts_before_the_reserve() -> None:
    assert [meter().fit(tokens) for tokens in (800, 801)] == ["fits", "compact"]
    wide = TokenMeter(window=Window(1_000, guessed=False, reserve=50), price=price)
    assert [wide.fit(tokens) for tokens in (800, 801, 950, 951)] == ["fits", "warn", "warn", "compact"]


def test_a_guessed_window_warns_and_never_compacts() -> None:
    assert [meter(guessed=True).fit(tokens) for tokens in (800, 801, 5_000)] == ["fits", "warn", "warn"]


async def test_a_full_context_is_said_once_and_again_only_after_it_was_emptier() -> None:
    bench = Bench(ScriptedLane(says("one"), says("two"), says("three"), says("four"), says("five")))

    async def told(text: str) -> list[str]:
        bench.events.clear()
        await agent_loop([bench.said(text)], bench.agent, bench.history, bench.host())
        return [event.text for event in bench.events if isinstance(event, Notice)]

    bench.meter.window = Window(100, guessed=True, reserve=0, asked=True)
    assert await told("x" * 400) == [], "a guess, before the server that was asked has answered"
    bench.history.clear()
    bench.meter.window.asked = False
    said = (
        "The context is 104 % full (about 104 of 100 tokens, a guess: set context_limit): shorten the "
        "conversation soon, or start a new one."
    )
    assert await told("x" * 400) == [said]
    assert await told("more") == [], "another turn of the same conversation"
    bench.history.clear()
    assert await told("short") == []
    assert len(await told("x" * 400)) == 1


async def test_REL_041_a_budget_is_the_worst_case_of_the_next_request() -> None:
    counter = meter(budget=Budget(max_cost_usd=0.005))
    assert await counter.reserve(1_000, 1_000) is None
    stop = await counter.reserve(1_000, 1_001)
    assert stop is not None
    assert stop.reason == "the next request could cost $0.005, $0.005 of the budget is left"
    tokens = meter(budget=Budget(max_tokens=1_000))
    tokens.settle(0, replied(Text("ok"), usage=used(600, 100)))
    assert await tokens.reserve(300, 9_999) is None
    stop = await tokens.reserve(301, 9_999)
    assert stop is not None
    assert stop.reason == "the next request needs 301 tokens, 300 of the budget are left"


async def test_REL_041_the_sessions_budget_counts_what_all_tasks_spent() -> None:
    session = BudgetLedger("the session's budget", Budget(max_cost_usd=1), lambda: (0.9999, 10))
    counter = meter(session=session)
    assert await counter.reserve(10, 10) is None
    stop = await counter.reserve(1_000_000, 0)
    assert stop is not None
    assert stop.reason.endswith("$0.0001 of the session's budget is left")


async def test_RU_P5_the_providers_own_bill_counts_where_there_is_no_price_and_before_one() -> None:
    billed = msgspec.structs.replace(used(900, 100), cost_usd=0.5)
    unpriced = TokenMeter(
        window=Window(1, guessed=True, reserve=0), price=lambda _usage: None, budget=Budget(max_cost_usd=1)
    )
    assert unpriced.is_unpriced
    _, event = unpriced.settle(1, replied(Text("ok"), usage=billed))
    assert (event.cost_usd, event.cost_known) == (0.5, True)
    assert not unpriced.is_unpriced
    assert await unpriced.reserve(500, 500) is None
    stop = await unpriced.reserve(1_000, 500)
    assert stop is not None
    assert stop.reason == "the next request could cost $0.75, $0.50 of the budget is left"
    _, event = unpriced.settle(1, replied(Text("ok"), usage=used(900, 100)))
    assert (event.cost_usd, event.cost_known) == (0.5, False), "this one's bill is not known"
    priced = meter()
    assert priced.settle(1, replied(Text("ok"), usage=billed))[1].cost_usd == 0.5


# --- what stays -------------------------------------------------------------------------------------------


def exchange(number: int, chars: int) -> list[Message]:
    made = Call(f"c{number}", "read_file", f'{{"path": "f{number}.txt"}}')
    return [
        replied(made, name=f"a{number}"),
        ToolMessage(f"t{number}", made.id, "read_file", "x" * chars, "ok"),
    ]


def turn(number: int, *, exchanges: int = 2, chars: int = 1_000) -> list[Message]:
    found: list[Message] = [said(f"prompt {number}", f"u{number}")]
    for at in range(exchanges):
        found += exchange(number * 100 + at, chars)
    return [*found, replied(Text(f"answer {number}"), name=f"z{number}")]


def test_old_results_become_stubs_that_name_what_was_called() -> None:
    history = [message for number in range(4) for message in turn(number)]
    found = plan(history, 2_000)
    assert found is not None
    view = apply_compaction(found, history)
    assert text_of(view[2]) == (
        "[read_file f0.txt: result of 1,000 characters dropped to save room; call it again if you need it]"
    )
    assert [text_of(one) for one in view if isinstance(one, UserMessage)] == [f"prompt {n}" for n in range(4)]
    assert list(view[-12:]) == history[-12:], "the last two turns stay word for word"
    assert history[2] == exchange(0, 1_000)[1], "the history itself stays whole"


def test_a_call_with_arguments_that_no_tool_would_take_becomes_a_stub_too() -> None:
    history = [message for number in range(4) for message in turn(number)]
    history[1] = replied(Call("c0", "read_file", "[" * 100_000), name="a0")
    history[2] = ToolMessage("r0", "c0", "read_file", "x" * 1_000, "error")
    found = plan(history, 2_000)
    assert found is not None
    assert text_of(apply_compaction(found, history)[2]) == (
        "[read_file: result of 1,000 characters dropped to save room; call it again if you need it]"
    )


def test_one_long_turn_is_compacted_inside() -> None:
    history = turn(0, exchanges=20)
    found = plan(history, 2_000)
    assert found is not None
    assert 0 < found.through < len(history)
    assert sum(message_tokens(one) for one in apply_compaction(found, history)) <= 2_000


def test_where_nothing_can_be_dropped_there_is_no_plan() -> None:
    assert plan([], 10) is None
    assert plan([said("x" * 10_000)], 10) is None
    assert plan(turn(0, chars=10), 1) is None


def test_a_summary_stands_for_everything_but_what_the_person_said() -> None:
    history = [*turn(0), *turn(1)]
    view = apply_compaction(Compaction(6, "They read two files."), history)
    assert [text_of(one) for one in view[:2]] == ["prompt 0", "They read two files."]
    assert list(view[2:]) == history[6:]
    assert is_legal(view) == []


TURNS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3_000)), min_size=1, max_size=6)


@pytest.mark.parametrize("summary", ["", "They read files."])
def test_a_message_is_shortened_once_however_often_the_view_is_sent(summary: str) -> None:
    history: list[Message] = [said("go")]
    view, compaction = CompactedView(), Compaction(5, summary)
    for number in range(4):
        call = Call(f"c{number}", "read_file", '{"path": "a"}')
        history += [replied(call), ToolMessage(f"t{number}", call.id, "f", "z" * 4_000, "ok")]
    before = view.apply(compaction, history)
    history.append(said("more"))
    after = view.apply(compaction, history)
    assert list(after) == list(apply_compaction(compaction, history))
    assert all(one is other for one, other in zip(before, after, strict=False))
    assert view.apply(None, history) is history
    assert list(view.apply(Compaction(7, summary), history)) == list(
        apply_compaction(Compaction(7, summary), history)
    )


@settings(max_examples=200, deadline=None)
@given(TURNS, st.integers(0, 8_000))
def test_REL_021_a_compaction_never_splits_a_call_from_its_result(
    turns: list[tuple[int, int]], target: int
) -> None:
    history = [m for n, (count, chars) in enumerate(turns) for m in turn(n, exchanges=count, chars=chars)]
    found = plan(history, target)
    if found is None:
        return
    view = apply_compaction(found, history)
    assert is_legal(view) == []
    assert [one for one in view if isinstance(one, UserMessage)] == [
        one for one in history if isinstance(one, UserMessage)
    ]
    assert sum(map(message_tokens, view)) < sum(map(message_tokens, history))
    boundary = history[: found.through]
    assert is_legal(boundary) == []


def test_RU_6_a_broken_reply_counts_what_streamed_where_the_provider_stated_less() -> None:
    counter = meter()
    placeholder = Usage(100, 1, 0, 0, 0, estimated=False)
    cut = AssistantMessage("r", (Text("word " * 400),), "m", "anthropic", "cut", placeholder, {})
    counted, _ = counter.settle(100, cut)
    assert (counted.usage.input_tokens, counted.usage.output_tokens) == (100, 500)
    assert counted.usage.estimated
    whole = msgspec.structs.replace(cut, finish="stop")
    assert counter.settle(100, whole)[0].usage == placeholder


async def test_a_shared_budget_counts_the_running_requests_of_others() -> None:
    spent = [0.0]
    shared = BudgetLedger("the budget", Budget(max_cost_usd=1.0), lambda: (spent[0], 0))
    assert await shared.reserve(1, 0.6, 10) is None
    second = asyncio.ensure_future(shared.reserve(2, 0.6, 10))
    await asyncio.sleep(0)
    assert not second.done()  # 0.6 + 0.6 could exceed it, so the second waits for the first

    spent[0] = 0.1
    shared.release(1)
    assert await second is None
    shared.release(2)


async def test_a_shared_budget_is_refused_once_a_request_alone_exceeds_it() -> None:
    spent = [0.0]
    shared = BudgetLedger("the budget", Budget(max_cost_usd=1.0), lambda: (spent[0], 0))
    assert await shared.reserve(1, 0.6, 10) is None
    second = asyncio.ensure_future(shared.reserve(2, 0.6, 10))
    await asyncio.sleep(0)
    spent[0] = 0.6
    shared.release(1)
    reached = await second
    assert reached is not None
    assert reached.reason == "the next request could cost $0.60, $0.40 of the budget is left"


async def test_a_wait_for_a_shared_budget_that_is_cancelled_leaves_no_reservation() -> None:
    shared = BudgetLedger("the budget", Budget(max_tokens=100), lambda: (0.0, 0))
    assert await shared.reserve(1, 0, 60) is None
    second = asyncio.ensure_future(shared.reserve(2, 0, 60))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait({second})
    shared.release(1)
    assert await shared.reserve(3, 0, 100) is None


async def test_a_request_that_failed_waits_for_its_own_reservation_no_longer() -> None:
    shared = BudgetLedger("the budget", Budget(max_tokens=100), lambda: (0.0, 0))
    assert await shared.reserve(1, 0, 80) is None
    assert await shared.reserve(1, 0, 80) is None  # the next try takes the place of the first


async def test_without_a_limit_nobody_waits_for_a_shared_budget() -> None:
    shared = BudgetLedger("the budget", Budget(), lambda: (100.0, 10**9))
    for owner in range(8):
        assert await shared.reserve(owner, 10.0, 10**6) is None


async def test_expenses_of_one_task_wait_for_each_other() -> None:
    spender = meter(budget=Budget(max_cost_usd=1.0))

    async def spend(usd: float) -> str:
        async with spender.expense(usd) as reached:
            return reached.reason if reached is not None else ""

    async with spender.expense(0.6) as first:
        assert first is None
        assert await spend(0.4) == ""
        waiting = asyncio.ensure_future(spend(0.6))
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting == ""


async def test_expenses_of_tasks_with_one_budget_wait_for_each_other() -> None:
    one, other = meter(), meter()
    shared = BudgetLedger("the budget", Budget(max_cost_usd=1.0), lambda: (one.cost_usd + other.cost_usd, 0))
    one.shared = other.shared = shared

    async def spend() -> str:
        async with other.expense(0.6) as reached:
            return reached.reason if reached is not None else ""

    async with one.expense(0.6) as reached:
        assert reached is None
        waiting = asyncio.ensure_future(spend())
        await asyncio.sleep(0)
        assert not waiting.done()
        one.charge(0.6)
    assert await waiting == "the next request could cost $0.60, $0.40 of the budget is left"


async def test_an_expense_that_is_cancelled_leaves_no_reservation() -> None:
    one, other = meter(), meter()
    one.shared = other.shared = BudgetLedger("the budget", Budget(max_cost_usd=1.0), lambda: (0.0, 0))

    async def spend() -> None:
        async with other.expense(0.6):
            pass

    async with one.expense(0.6):
        waiting = asyncio.ensure_future(spend())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
    async with one.expense(1.0) as reached:
        assert reached is None


def two_of_one_session(limit: Budget) -> tuple[TokenMeter, TokenMeter, BudgetLedger]:
    """Return the meters of two tasks with nothing in common but their session, and its budget."""
    meters: list[TokenMeter] = []

    def spent() -> tuple[float, int]:
        return sum(one.cost_usd for one in meters), sum(one.total.input_tokens for one in meters)

    session = BudgetLedger("the session's budget", limit, spent)
    meters += [meter(session=session), meter(session=session)]
    return meters[0], meters[1], session


async def test_two_tasks_stay_within_the_budget_of_their_session_together() -> None:
    one, other, _session = two_of_one_session(Budget(max_cost_usd=1.0))
    remarks: list[str] = []
    assert await one.reserve(600_000, 0) is None
    second = asyncio.ensure_future(other.reserve(600_000, 0, remarks.append))
    await asyncio.sleep(0)
    assert not second.done()
    assert remarks == ["waiting for other requests: the session's budget has no room for all at once"]

    one.settle(600_000, replied(Text("ok"), usage=used(600_000, 0)))
    one.release()
    reached = await second
    assert reached is not None
    assert reached.reason == "the next request could cost $0.60, $0.40 of the session's budget is left"


async def test_a_request_that_costs_less_than_feared_makes_room_for_the_next() -> None:
    one, other, _session = two_of_one_session(Budget(max_cost_usd=1.0))
    assert await one.reserve(600_000, 0) is None
    second = asyncio.ensure_future(other.reserve(600_000, 0))
    await asyncio.sleep(0)
    one.settle(600_000, replied(Text("ok"), usage=used(100_000, 0)))
    one.release()
    assert await second is None


async def test_two_tasks_stay_within_the_budget_of_the_day_together() -> None:
    paid: list[float] = []
    day = DayBudget(1.0, lambda: sum(paid), paid.append)
    one, other = meter(day=day), meter(day=day)
    async with one.request_aside(600_000, 0) as reached:
        assert reached is None
        second = asyncio.ensure_future(other.reserve(600_000, 0))
        await asyncio.sleep(0)
        assert not second.done()
        one.charge(0.6)
    stop = await second
    assert stop is not None
    assert stop.reason == "the next request could cost $0.60, $0.40 of the day's budget is left"


async def test_a_higher_limit_has_room_for_those_that_wait() -> None:
    one, other, session = two_of_one_session(Budget(max_tokens=100))
    assert await one.reserve(60, 0) is None
    second = asyncio.ensure_future(other.reserve(60, 0))
    await asyncio.sleep(0)
    session.budget = Budget(max_tokens=200)
    assert await second is None


async def test_a_wait_for_one_budget_that_is_cancelled_leaves_no_reservation_in_another() -> None:
    one, other, _session = two_of_one_session(Budget(max_tokens=100))
    other.budget = Budget(max_tokens=1_000)
    assert await one.reserve(60, 0) is None
    second = asyncio.ensure_future(other.reserve(60, 0))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait({second})
    assert await other.reserve(40, 0) is None, "neither budget keeps the reservation that was cancelled"


async def test_a_side_request_leaves_the_reservation_of_the_conversation_alone() -> None:
    one, other, _session = two_of_one_session(Budget(max_tokens=100))
    assert await one.reserve(50, 0) is None
    async with one.request_aside(10, 0) as reached:
        assert reached is None
    second = asyncio.ensure_future(other.reserve(60, 0))
    await asyncio.sleep(0)
    assert not second.done()
    one.release()
    assert await second is None
