"""One turn, from prompt to quiet: ask the model, run the calls it makes, feed the results back, repeat.

Call `agent_loop(prompts, agent, history, host)`. All its effects are functions of `host`; the history changes
only through `host.record`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from buddy.agent.cancel import TurnCancelled, finish_uninterruptibly
from buddy.agent.events import SteeringAccepted, TurnFinished, TurnStarted
from buddy.agent.formatting import format_count
from buddy.agent.host import Agent, Outcome, TurnHost
from buddy.agent.messages import AssistantMessage, Message, UserMessage, calls_of, unanswered_calls
from buddy.agent.model_call import BudgetStop, ask, is_empty
from buddy.agent.provider import ProviderError
from buddy.agent.tool_calls import run_calls
from buddy.agent.turn import End, Turn

CANCELLED = End("cancelled", "cancelled")


async def agent_loop(
    prompts: Sequence[UserMessage], agent: Agent, history: Sequence[Message], host: TurnHost
) -> Outcome:
    """Run one turn that starts with `prompts`.

    `history` is read as it grows; `host.record` is what makes it grow. Whatever happens (cancelled by event
    or from outside, a provider that fails, a tool that crashes), the history is legal afterwards and
    `TurnFinished` was emitted once. Raises `ValueError` without prompts; `asyncio.CancelledError` when
    cancelled from outside.
    """
    if not prompts:
        raise ValueError("a turn needs at least one prompt; use agent_loop_continue to go on without one")
    turn = Turn(agent, history, host)
    for message in prompts:
        await turn.record(message)
    return await _run(turn, tuple(prompts))


async def agent_loop_continue(agent: Agent, history: Sequence[Message], host: TurnHost) -> Outcome:
    """Continue a history that waits for the model: after a retry, a limit, or on resume.

    Calls that have no result yet (their approval was pending when the program ended) are taken up first.
    Raises `ValueError` when the history is empty or ends with the assistant and no open call: there is
    nothing to answer.
    """
    if not history:
        raise ValueError("there is nothing to continue: the history is empty")
    if isinstance(history[-1], AssistantMessage) and not unanswered_calls(history):
        raise ValueError("there is nothing to continue: the model spoke last")
    return await _run(Turn(agent, history, host), ())


async def _run(turn: Turn, prompts: tuple[UserMessage, ...]) -> Outcome:
    turn.emit(TurnStarted(prompts))
    end = CANCELLED
    try:
        end = await _run_until_quiet(turn)
    except TurnCancelled:
        pass
    except ProviderError as error:
        end = End("failed", error.message, error.kind)
    except BudgetStop as stop:
        end = End("limit", str(stop), "budget")
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        end = End("failed", f"{type(error).__name__}: {error}", "crash")
        raise
    finally:
        await finish_uninterruptibly(_close_turn(turn, end))
    return Outcome(
        end.outcome,
        end.reason,
        end.error,
        turn.replies,
        tuple(turn.history[turn.first_new :]),
        turn.refused,
        turn.failed,
        turn.receipt,
    )


async def _close_turn(turn: Turn, end: End) -> None:
    try:
        await turn.beside.close()
        await turn.answer_outstanding()
        await turn.flush_results()
        turn.receipt = await turn.host.receipt()
    finally:
        seconds = turn.host.now() - turn.started_at
        turn.emit(
            TurnFinished(
                end.outcome,
                end.reason,
                end.error,
                turn.replies,
                seconds,
                turn.refused,
                turn.failed,
                turn.receipt,
            )
        )


async def _run_until_quiet(turn: Turn) -> End:
    asked_again = False
    pending = unanswered_calls(turn.history)
    end = await run_calls(turn, pending) if pending else None
    while end is None:
        if turn.host.cancelled.is_set():
            return CANCELLED
        if not turn.took_in:  # where texts come one at a time, one a request
            await turn.take_in(await turn.host.steering())
        turn.took_in = False
        if turn.replies_since_prompt >= turn.agent.limits.max_replies:
            limit = format_count(turn.agent.limits.max_replies, "reply", "replies")
            return End("limit", f"the limit of {limit} a turn is reached", "replies")
        quota = turn.agent.limits.quota
        if quota is not None and not quota.take():
            limit = format_count(quota.replies, "reply", "replies")
            return End("limit", f"the limit of {limit} a run is reached", "replies")
        for message in await turn.host.instructions():
            await turn.record(message)
            turn.emit(SteeringAccepted(message))
        reply = await ask(turn)
        turn.replies += 1
        turn.replies_since_prompt += 1
        if is_empty(reply) and not asked_again and reply.finish != "filter":
            asked_again = True
            continue
        end = await _after_reply(turn, reply)
        asked_again = False
    return end


async def _after_reply(turn: Turn, reply: AssistantMessage) -> End | None:
    if reply.finish == "filter":
        return End("failed", "the provider's content filter stopped the reply", "content_filter")
    if is_empty(reply):
        return End("failed", "the model answered with nothing, twice", "empty_response")
    if reply.finish == "length":
        turn.warn("the reply reached its output limit and may be incomplete")
    calls = calls_of(reply)
    if calls:
        return await run_calls(turn, calls)
    return await _take_follow_ups(turn)


async def _take_follow_ups(turn: Turn) -> End | None:
    """Add waiting messages after the last reply; without any the turn is complete."""
    texts = await turn.host.steering() or await turn.host.follow_ups()
    if not texts:
        return End("completed")
    turn.replies_since_prompt = 0
    await turn.take_in(texts)
    return None
