"""One turn, from prompt to quiet, as a story: an answer, a tool, several tools, trouble."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.agent.compaction import Compaction
from buddy.agent.events import (
    Notice,
    ReplyFinished,
    RetryScheduled,
    SteeringAccepted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from buddy.agent.host import Allowed, Decision, Denied, Limits, ReplyQuota, Withdrawn
from buddy.agent.loop import agent_loop, agent_loop_continue
from buddy.agent.messages import CANCELLED_TEXT, SKIPPED_TEXT, AssistantMessage, ToolMessage, text_of
from buddy.agent.provider import CallPiece, Finished, ProviderError, TextPiece, ThinkingPiece
from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, tool
from tests.support.laws import Bench, ScriptedLane, calls, says
from tests.support.legal_history import is_legal


@tool(risk="low")
async def look(ctx: ToolContext, path: str) -> str:
    """Look at something."""
    await asyncio.sleep(0)
    return f"seen {path}"


@tool(risk="medium", access=lambda arguments: Access(writes=(arguments.path,)))
async def change(ctx: ToolContext, path: str) -> str:
    """Change something."""
    ctx.progress("changing")
    return f"changed {path}"


@tool(risk="high")
async def broken(ctx: ToolContext) -> str:
    """Break."""
    raise SystemExit(3)


@tool(risk="high")
async def refuses(ctx: ToolContext) -> str:
    """Refuse."""
    raise ToolError("expected a moon, found none; wait for night")


@tool(risk="high")
async def fails(ctx: ToolContext) -> ToolResult:
    """Answer with a failure."""
    return ToolResult("exit code 1", ok=False)


def results(bench: Bench) -> list[tuple[str, str, str]]:
    return [(m.call_id, m.status, m.text) for m in bench.history if isinstance(m, ToolMessage)]


def ended(bench: Bench) -> TurnFinished:
    last = bench.events[-1]
    assert isinstance(last, TurnFinished)
    return last


async def test_a_prompt_is_answered() -> None:
    bench = Bench(ScriptedLane(says("hello")), system="be kind")

    outcome = await agent_loop([bench.said("hi")], bench.agent, bench.history, bench.host())

    bench.check()
    assert [text_of(message) for message in bench.history] == ["hi", "hello"]
    assert outcome.outcome == "completed"
    assert outcome.messages == tuple(bench.history)
    request = bench.provider.requests[0]
    assert (request.system, request.tools, [text_of(m) for m in request.history]) == ("be kind", (), ["hi"])


async def test_a_turn_without_prompts_is_refused() -> None:
    bench = Bench(ScriptedLane())
    with pytest.raises(ValueError, match="needs at least one prompt"):
        await agent_loop([], bench.agent, bench.history, bench.host())
    with pytest.raises(ValueError, match="history is empty"):
        await agent_loop_continue(bench.agent, bench.history, bench.host())


async def test_there_is_nothing_to_continue_after_the_model_spoke() -> None:
    bench = Bench(ScriptedLane(says("hello")))
    await agent_loop([bench.said("hi")], bench.agent, bench.history, bench.host())
    with pytest.raises(ValueError, match="spoke last"):
        await agent_loop_continue(bench.agent, bench.history, bench.host())


async def test_a_history_that_waits_for_the_model_is_continued() -> None:
    bench = Bench(ScriptedLane(says("again")))
    bench.history.append(bench.said("hi"))
    outcome = await agent_loop_continue(bench.agent, bench.history, bench.host())
    bench.check()
    assert [text_of(message) for message in outcome.messages] == ["again"]


async def test_results_go_back_to_the_model_until_it_makes_no_more_calls() -> None:
    bench = Bench(ScriptedLane(calls(("a", "look", '{"path": "x"}')), says("done")), look)

    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())

    bench.check()
    assert results(bench) == [("a", "ok", "seen x")]
    assert bench.provider.requests[1].history == tuple(bench.history[:-1])
    assert [type(event).__name__ for event in bench.events] == [
        "TurnStarted", "ReplyStarted", "ToolCallDelta", "ReplyFinished", "TokenUsage", "ToolStarted",
        "ToolFinished", "ReplyStarted", "TextDelta", "ReplyFinished", "TokenUsage", "TurnFinished",
    ]  # fmt: skip


async def test_the_time_of_a_call_is_without_the_time_the_person_took() -> None:
    bench = Bench(ScriptedLane(calls(("a", "look", '{"path": "x"}')), says("done")), look)

    def after_a_minute(_name: str) -> Decision:
        bench.time += 60
        return Allowed()

    bench.decide = after_a_minute
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert [event.seconds for event in bench.events if isinstance(event, ToolFinished)] == [0]


async def test_reads_of_one_reply_run_together_and_are_recorded_in_order() -> None:
    gate = asyncio.Event()
    order: list[str] = []

    @tool(risk="low")
    async def slow(ctx: ToolContext, path: str) -> str:
        """Wait for the other."""
        if path == "first":
            await gate.wait()
        else:
            gate.set()
        order.append(path)
        return path

    made = calls(("a", "slow", '{"path": "first"}'), ("b", "slow", '{"path": "second"}'))
    bench = Bench(ScriptedLane(made, says("done")), slow)
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())

    bench.check()
    assert order == ["second", "first"]
    assert results(bench) == [("a", "ok", "first"), ("b", "ok", "second")]


async def test_writers_run_one_after_the_other_and_reads_after_them_wait() -> None:
    made = calls(
        ("a", "look", '{"path": "x"}'), ("b", "change", '{"path": "x"}'), ("c", "look", '{"path": "x"}')
    )
    bench = Bench(ScriptedLane(made, says("done")), look, change)
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    ids = [
        (type(event).__name__, event.call.id if isinstance(event, ToolStarted) else event.call_id)
        for event in bench.events
        if isinstance(event, ToolStarted | ToolFinished)
    ]
    assert ids == [
        ("ToolStarted", "a"), ("ToolFinished", "a"), ("ToolStarted", "b"), ("ToolFinished", "b"),
        ("ToolStarted", "c"), ("ToolFinished", "c"),
    ]  # fmt: skip
    assert ToolProgress("b", "changing") in bench.events


async def test_whatever_a_tool_does_its_call_gets_an_answer_and_the_turn_goes_on() -> None:
    made = calls(
        ("a", "nothing", "{}"), ("b", "look", '{"path": 5'), ("c", "look", '{"way": "x"}'),
        ("d", "refuses", ""), ("e", "broken", "{}"), ("f", "fails", "{}"), ("g", "look", '{"path": ["x"]}'),
    )  # fmt: skip
    bench = Bench(ScriptedLane(made, says("done")), look, refuses, broken, fails)
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    found = {call: (status, text) for call, status, text in results(bench)}
    assert found["a"][1].startswith("there is no tool named 'nothing'")
    assert "not valid JSON" in found["b"][1]
    assert found["c"][1] == "look was not run: unknown argument 'way'; expected path (required)"
    assert found["d"] == ("error", "expected a moon, found none; wait for night")
    assert found["e"] == ("error", "broken crashed: SystemExit: 3")
    assert found["f"] == ("error", "exit code 1")
    assert "Expected `str`" in found["g"][1]
    assert any(isinstance(event, Notice) and "This is a bug" in event.text for event in bench.events)


async def test_a_denied_call_is_answered_with_the_reason() -> None:
    bench = Bench(ScriptedLane(calls(("a", "change", '{"path": "x"}')), says("ok")), change)
    bench.decide = lambda _name: Denied("use pnpm instead")
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert results(bench) == [("a", "denied", "denied: use pnpm instead")]


async def test_steering_skips_the_remaining_calls_and_comes_next() -> None:
    made = calls(
        ("a", "change", '{"path": "x"}'), ("b", "change", '{"path": "y"}'), ("c", "look", '{"path": "z"}')
    )
    bench = Bench(ScriptedLane(made, says("ok")), look, change)

    def decide(_name: str) -> Allowed:
        bench.steer.append(bench.said("stop that", "steer"))
        return Allowed()

    bench.decide = decide
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert results(bench) == [
        ("a", "ok", "changed x"),
        ("b", "skipped", SKIPPED_TEXT),
        ("c", "skipped", SKIPPED_TEXT),
    ]
    assert [text_of(m) for m in bench.provider.requests[1].history][-1] == "stop that"
    assert sum(isinstance(event, SteeringAccepted) for event in bench.events) == 1


async def test_steering_while_an_approval_waits_skips_its_call() -> None:
    made = calls(("a", "change", '{"path": "x"}'), ("b", "change", '{"path": "y"}'))
    bench = Bench(ScriptedLane(made, says("ok")), change)

    def decide(_name: str) -> Withdrawn:
        bench.steer.append(bench.said("never mind", "steer"))
        return Withdrawn()

    bench.decide = decide
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert [status for _, status, _ in results(bench)] == ["skipped", "skipped"]


async def test_steering_after_the_last_reply_opens_the_next_and_follow_ups_come_after() -> None:
    def steer() -> None:
        bench.steer.append(bench.said("more", "steer"))

    first = [TextPiece("one"), steer, Finished("stop")]
    bench = Bench(ScriptedLane(first, says("two"), says("three")))
    bench.queue.append(bench.said("then this", "follow_up"))
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert [text_of(m) for m in bench.history] == ["go", "one", "more", "two", "then this", "three"]


async def test_the_limit_of_replies_pauses_the_turn() -> None:
    made = [calls((f"c{n}", "look", f'{{"path": "{n}"}}')) for n in range(3)]
    bench = Bench(ScriptedLane(*made, says("end")), look, limits=Limits(max_replies=3))
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert (outcome.outcome, outcome.error, outcome.replies) == ("limit", "replies", 3)
    assert outcome.reason == "the limit of 3 replies a turn is reached"
    bench.events.clear()
    outcome = await agent_loop_continue(bench.agent, bench.history, bench.host())
    assert outcome.outcome == "completed"


async def test_turns_that_share_a_limit_of_replies_end_together() -> None:
    limits = Limits(max_replies=3, quota=ReplyQuota(3))
    looks = [calls((f"c{n}", "look", f'{{"path": "{n}"}}')) for n in range(2)]
    first = Bench(ScriptedLane(*looks, says("end")), look, limits=limits)
    second = Bench(ScriptedLane(says("never asked for")), look, limits=limits)
    outcome = await agent_loop([first.said("go")], first.agent, first.history, first.host())
    assert outcome.outcome == "completed"
    outcome = await agent_loop([second.said("go")], second.agent, second.history, second.host())
    assert (outcome.outcome, outcome.error, outcome.replies) == ("limit", "replies", 0)
    assert outcome.reason == "the limit of 3 replies a run is reached"


async def test_a_new_text_does_not_renew_the_limit_of_the_run() -> None:
    limits = Limits(max_replies=1, quota=ReplyQuota(1))
    bench = Bench(ScriptedLane(says("one"), says("two")), look, limits=limits)
    bench.queue.append(bench.said("more", "follow_up"))
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    assert (outcome.outcome, outcome.error, outcome.replies) == ("limit", "replies", 1)


async def test_a_limit_of_one_is_told_in_the_singular() -> None:
    bench = Bench(ScriptedLane(calls(("c", "look", '{"path": "x"}'))), look, limits=Limits(max_replies=1))
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    assert outcome.reason == "the limit of 1 reply a turn is reached"


async def test_an_empty_reply_is_asked_again_once_then_the_turn_fails() -> None:
    bench = Bench(ScriptedLane([Finished("stop")], says("here")))
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert [text_of(m) for m in bench.history] == ["go", "here"]

    bench = Bench(ScriptedLane([ThinkingPiece("hm"), Finished("stop")], [TextPiece("  "), Finished("stop")]))
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert (outcome.outcome, outcome.error) == ("failed", "empty_response")


@pytest.mark.parametrize(
    ("asked_s", "slept"), [(None, [0.75, 1.5, 3.0]), (5.0, [5.0, 5.0, 5.0]), (0.0, [0.0, 0.0, 0.0])]
)
async def test_what_is_worth_retrying_is_retried_with_patience(
    asked_s: float | None, slept: list[float]
) -> None:
    busy = ProviderError("rate_limit", "busy", retry_after_s=asked_s)
    bench = Bench(ScriptedLane([busy], [busy], [busy], says("done")))
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert bench.slept == slept
    assert [event.attempt for event in bench.events if isinstance(event, RetryScheduled)] == [1, 2, 3]


async def test_a_provider_that_asks_for_a_day_is_not_waited_for() -> None:
    bench = Bench(ScriptedLane([ProviderError("rate_limit", "busy", retry_after_s=86_400)]))
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert outcome.reason == "busy. The provider asks to wait 86,400 s; retry then, or use another model."
    assert bench.slept == []


async def test_six_tries_then_the_turn_fails() -> None:
    bench = Bench(ScriptedLane(*[[ProviderError("server", "down")]] * 6))
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert (outcome.outcome, outcome.error, len(bench.slept)) == ("failed", "server", 5)


@pytest.mark.parametrize("kind", ["auth", "bad_request", "not_found", "quota", "content_filter"])
async def test_what_is_not_worth_retrying_is_told_at_once(kind: str) -> None:
    bench = Bench(ScriptedLane([ProviderError(kind, "no")]))
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert (outcome.outcome, outcome.error, bench.slept) == ("failed", kind, [])


async def test_RU_A9_a_reply_that_breaks_off_is_asked_for_again() -> None:
    broken = [TextPiece("half of"), ProviderError("cut", "the connection was reset")]
    bench = Bench(ScriptedLane(broken, broken, says("half of it, and the rest")))
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert outcome.outcome == "completed"
    assert [text_of(m) for m in bench.history] == ["go", "half of it, and the rest"]
    finished = [event.message for event in bench.events if isinstance(event, ReplyFinished)]
    assert [one.finish for one in finished] == ["cut", "cut", "stop"]
    assert [event.attempt for event in bench.events if isinstance(event, RetryScheduled)] == [1, 2]


async def test_RU_A9_what_arrived_is_kept_when_no_whole_reply_comes() -> None:
    broken = [TextPiece("half of"), ProviderError("cut", "the connection was reset")]
    bench = Bench(ScriptedLane(broken, *[[ProviderError("server", "down", status=500)]] * 5))
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    kept = bench.history[-1]
    assert isinstance(kept, AssistantMessage)
    assert (kept.finish, text_of(kept)) == ("cut", "half of")
    assert outcome.reason == ("the answer broke off: down. What arrived is kept.")


async def test_RU_A9_a_cancelled_wait_keeps_what_arrived() -> None:
    bench = Bench(ScriptedLane([TextPiece("half of"), ProviderError("cut", "reset", retry_after_s=60)]))
    host = bench.host()

    async def cancel_instead(_: float) -> None:
        host.cancelled.set()
        await asyncio.Event().wait()

    outcome = await agent_loop(
        [bench.said("go")], bench.agent, bench.history, msgspec.structs.replace(host, sleep=cancel_instead)
    )
    assert outcome.outcome == "cancelled"
    assert text_of(bench.history[-1]) == "half of"


async def test_RU_A9_calls_of_a_cut_stream_are_never_run() -> None:
    cut = [TextPiece("let me"), CallPiece(0, "a", "change", '{"path": "x"}')]
    bench = Bench(ScriptedLane(*[cut] * 6), change)
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert (outcome.outcome, outcome.error) == ("failed", "cut")
    assert outcome.reason.count("broke off") == 1
    assert not any(isinstance(event, ToolStarted) for event in bench.events)


async def test_RU_A9_servers_that_answer_are_tried_longer_where_nobody_is_there() -> None:
    limits = Limits(tries=2, outage_tries=4)
    bench = Bench(ScriptedLane(*[[ProviderError("server", "oops", status=500)]] * 4), limits=limits)
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    assert len(bench.slept) == 3
    bench = Bench(ScriptedLane(*[[ProviderError("server", "refused")]] * 4), limits=limits)
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    assert len(bench.slept) == 1


async def test_thinking_alone_is_no_reason_to_give_up() -> None:
    bench = Bench(ScriptedLane([ThinkingPiece("hm"), ProviderError("cut", "reset")], says("done")))
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert [text_of(m) for m in bench.history] == ["go", "done"]


async def test_an_overflow_is_answered_by_one_compaction() -> None:
    too_long = ProviderError("context_overflow", "too long.")
    bench = Bench(ScriptedLane([too_long], says("done")))
    bench.compaction = Compaction(1)
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    bench = Bench(ScriptedLane([too_long], [too_long]))
    bench.compaction = Compaction(1)
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert (outcome.error, "larger context" in outcome.reason) == ("context_overflow", True)


async def test_a_turn_cancelled_before_it_starts_asks_nobody() -> None:
    bench = Bench(ScriptedLane())
    bench.cancelled.set()
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert (outcome.outcome, bench.provider.requests) == ("cancelled", [])


async def test_cancelling_a_stream_closes_it_and_keeps_what_was_shown() -> None:
    async def fire() -> None:
        bench.cancelled.set()
        await asyncio.sleep(60)

    bench = Bench(ScriptedLane([TextPiece("half"), fire]))
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert (outcome.outcome, bench.provider.closed) == ("cancelled", 1)
    assert text_of(bench.history[-1]) == "half"


async def test_cancelling_a_tool_answers_every_outstanding_call() -> None:
    @tool(risk="high")
    async def hang(ctx: ToolContext) -> str:
        """Hang."""
        bench.cancelled.set()
        await asyncio.sleep(60)
        return ""

    made = calls(("a", "look", '{"path": "x"}'), ("b", "hang", "{}"), ("c", "look", '{"path": "y"}'))
    bench = Bench(ScriptedLane(made), look, hang)
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert outcome.outcome == "cancelled"
    assert results(bench) == [
        ("a", "ok", "seen x"), ("b", "cancelled", CANCELLED_TEXT), ("c", "cancelled", CANCELLED_TEXT),
    ]  # fmt: skip
    begun = [one.begun for one in bench.events if isinstance(one, ToolStarted)]
    assert begun == [True, True, False]


async def test_cancelling_from_outside_takes_the_same_path() -> None:
    started = asyncio.Event()

    @tool(risk="high")
    async def hang(ctx: ToolContext) -> str:
        """Hang."""
        started.set()
        await asyncio.sleep(60)
        return ""

    bench = Bench(ScriptedLane(calls(("a", "hang", "{}"))), hang)
    task = asyncio.ensure_future(agent_loop([bench.said("go")], bench.agent, bench.history, bench.host()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    bench.check()
    assert results(bench) == [("a", "cancelled", CANCELLED_TEXT)]


async def test_partial_replies_are_kept_while_they_stream() -> None:
    async def wait() -> None:
        while not bench.partials:
            await asyncio.sleep(0.001)

    bench = Bench(ScriptedLane([TextPiece("first "), wait, TextPiece("second"), Finished("stop")]),
                  limits=Limits(partial_every_s=0.01))  # fmt: skip
    await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert text_of(bench.partials[0]) == "first "


async def test_REL_029_calls_nobody_can_take_end_the_turn_after_three() -> None:
    made = [calls((f"c{n}", "look", '{"path": ')) for n in range(6)]
    bench = Bench(ScriptedLane(*made), look)
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert (outcome.outcome, outcome.error, outcome.replies) == ("limit", "loop", 4)


async def test_part_4_several_malformed_calls_of_one_reply_count_once_and_the_model_reads_why() -> None:
    wrong = [("c1", "nosuch", "{}"), ("c2", "look", "{"), ("c3", "nosuch", "{}"), ("c4", "look", "[]")]
    made = [calls(*wrong), calls(("c5", "look", '{"path": "x"}')), says("better")]
    bench = Bench(ScriptedLane(*made), look)
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert (outcome.outcome, outcome.replies) == ("completed", 3)
    assert [status for _, status, _ in results(bench)] == ["error"] * 4 + ["ok"]
    assert all(text for _, _, text in results(bench))


async def test_REL_039_the_same_call_with_the_same_result_is_noticed_and_stopped() -> None:
    made = [calls((f"c{n}", "look", '{"path": "x"}')) for n in range(9)]
    bench = Bench(ScriptedLane(*made), look)
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert (outcome.outcome, outcome.error) == ("limit", "loop")
    noticed = [
        "3 times in a row" in text or "4 times" in text or "5 times" in text for _, _, text in results(bench)
    ]
    assert noticed == [False, False, True, True, True]


async def test_REL_040_alternation_is_detected_and_polling_is_allowed() -> None:
    made = [calls((f"c{n}", "look", f'{{"path": "{n % 2}"}}')) for n in range(12)]
    bench = Bench(ScriptedLane(*made), look)
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    assert (outcome.error, outcome.replies) == ("loop", 8)

    ticks = iter(range(100))

    @tool(risk="low")
    async def poll(ctx: ToolContext) -> str:
        """Poll."""
        return str(next(ticks))

    made = [calls((f"c{n}", "poll", "{}")) for n in range(12)]
    bench = Bench(ScriptedLane(*made, says("done")), poll)
    outcome = await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    bench.check()
    assert outcome.outcome == "completed"


async def test_REL_031_odd_endings_are_handled_and_told() -> None:
    bench = Bench(ScriptedLane([TextPiece("cut sho"), Finished("length")]))
    assert (
        await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    ).outcome == "completed"
    assert any(isinstance(event, Notice) and "output limit" in event.text for event in bench.events)
    bench = Bench(ScriptedLane([TextPiece("I can't"), Finished("filter")]))
    assert (
        await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())
    ).error == "content_filter"
    bench = Bench(
        ScriptedLane([CallPiece(0, "a", "look", '{"path": "x"}'), Finished("stop")], says("done")), look
    )
    assert (await agent_loop([bench.said("go")], bench.agent, bench.history, bench.host())).replies == 2
    bench.check()


_steps = st.lists(
    st.sampled_from(
        ["text", "think", "look", "change", "broken", "refuses", "badargs", "error", "overflow", "cut"]
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(script=_steps, cancel_after=st.integers(0, 60), outside=st.booleans())
async def test_the_history_is_legal_wherever_a_turn_is_interrupted(
    script: list[str], cancel_after: int, *, outside: bool
) -> None:
    replies = []
    for at, kind in enumerate(script):
        match kind:
            case "text":
                replies.append([TextPiece("a"), TextPiece("b"), Finished("stop")])
            case "think":
                replies.append(
                    [ThinkingPiece("hm"), CallPiece(0, f"t{at}", "look", '{"path":"x"}'), Finished("calls")]
                )
            case "error":
                replies.append([ProviderError("server", "down")])
            case "overflow":
                replies.append([ProviderError("context_overflow", "long")])
            case "cut":
                replies.append([TextPiece("half"), CallPiece(0, f"t{at}", "look", '{"pa')])
            case "badargs":
                replies.append(calls((f"b{at}", "look", "[")))
            case name:
                both = [(f"x{at}", name, '{"path": "p"}'), (f"y{at}", "look", f'{{"path": "{at}"}}')]
                replies.append(calls(*both))
    bench = Bench(
        ScriptedLane(*replies, says("end"), says("end"), says("end")), look, change, broken, refuses
    )
    task = asyncio.ensure_future(agent_loop([bench.said("go")], bench.agent, bench.history, bench.host()))
    for _ in range(cancel_after):
        await asyncio.sleep(0)
    if outside:
        task.cancel()
    else:
        bench.cancelled.set()
    await asyncio.wait({task})
    if bench.events:
        bench.check()
    assert is_legal(bench.history) == []


async def test_a_reply_is_announced_after_it_is_recorded() -> None:
    bench = Bench(ScriptedLane(says("hello")))
    host = bench.host()
    seen: list[int] = []
    original = bench.events.append

    def emit(event: object) -> None:
        if isinstance(event, ReplyFinished):
            seen.append(len(bench.history))
        original(event)

    import msgspec

    await agent_loop([bench.said("hi")], bench.agent, bench.history, msgspec.structs.replace(host, emit=emit))
    assert seen == [2]
    assert [event.text for event in bench.events if isinstance(event, TextDelta)] == ["hello"]
