"""One request to the model: its stream, its retries, and the kept part of a broken reply."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from buddy.agent.cancel import TurnCancelled, finish_uninterruptibly
from buddy.agent.events import (
    ReplyFinished,
    ReplyStarted,
    ReplyTiming,
    RetryScheduled,
    ThinkingDelta,
    TokenUsage,
)
from buddy.agent.messages import AssistantMessage, Call, Message, Text, Thinking
from buddy.agent.provider import ModelRequest, ProviderError
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.agent.turn import Turn

DEFAULT_MAX_OUTPUT = 8_192
"""Tokens of output assumed for the worst case of a request that states no limit."""


class BudgetStop(Exception):
    """The next request could exceed a limit the person set."""


class _SizedRequest(msgspec.Struct, frozen=True):
    request: ModelRequest
    tokens: int


class _Stream:
    """One attempt at a reply: the part assembled so far, saved at intervals."""

    def __init__(self, turn: Turn, asked: _SizedRequest) -> None:
        self.turn = turn
        self.asked = asked
        host = turn.host
        self.reply_id = host.new_id()
        self.assembler = ReplyAssembler(
            self.reply_id,
            model=turn.agent.model,
            lane=turn.agent.provider.lane,
            new_id=host.new_id,
            taken=host.call_ids,
        )
        self.started_at = host.now()
        self.first_content_s = 0.0
        self.shown = False
        self.answered = False
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> AssistantMessage:
        """Read the stream to its end. Raises `ProviderError` where it is cut."""
        turn, feed, emit = self.turn, self.assembler.feed, self.turn.host.emit
        turn.emit(ReplyStarted(self.reply_id, turn.agent.model))
        try:
            async with aclosing(turn.agent.provider.stream(self.asked.request)) as stream:
                async for delta in stream:
                    event = feed(delta)
                    if event is not None:
                        if not self.shown:
                            self.shown = True
                            self.first_content_s = self.turn.host.now() - self.started_at
                        if not self.answered and not isinstance(event, ThinkingDelta):
                            self.answered = True
                        if self._timer is None:
                            every_s = self.turn.agent.limits.partial_every_s
                            self._timer = asyncio.get_running_loop().call_later(every_s, self._keep)
                        emit(event)
            return self.assembler.finish()
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _keep(self) -> None:
        self._timer = None
        self.turn.host.partial(self.assembler.partial())

    async def finish(self, message: AssistantMessage) -> AssistantMessage:
        """Count, record and announce a reply. The caller shields it from cancellation."""
        counted, usage = self._count(message)
        if worth_keeping(counted):
            await self.turn.host.record(counted)
        await self.turn.flush_results()
        self._announce(counted, usage)
        return counted

    def cut_reply(self) -> AssistantMessage:
        """Return the received part of the reply, without its calls: unanswered calls would make the history
        illegal."""
        return without_calls(self.assembler.partial())

    async def announce_cut(self) -> AssistantMessage | None:
        """Count and announce the received part of a broken reply; return the message, unrecorded, if it is
        worth keeping."""
        if not self.shown:
            return None
        counted, usage = self._count(self.assembler.partial())
        counted = without_calls(counted)
        self._announce(counted, usage)
        return counted if worth_keeping(counted) else None

    def _count(self, message: AssistantMessage) -> tuple[AssistantMessage, TokenUsage]:
        return self.turn.host.meter.settle(self.asked.tokens, message)

    def _announce(self, message: AssistantMessage, usage: TokenUsage) -> None:
        host = self.turn.host
        total_s = host.now() - self.started_at
        host.emit(ReplyFinished(message, ReplyTiming(self.first_content_s, total_s)))
        host.emit(usage)


def without_calls(message: AssistantMessage) -> AssistantMessage:
    """Return a cut reply without its calls."""
    parts = tuple(part for part in message.parts if not isinstance(part, Call))
    return msgspec.structs.replace(message, parts=parts)


def worth_keeping(message: AssistantMessage) -> bool:
    """Tell whether a reply has content that can be sent again: most providers refuse an empty one."""
    if message.finish == "cut":
        return any(isinstance(part, Text) and part.text.strip() for part in message.parts)
    return not is_empty(message)


def is_empty(message: AssistantMessage) -> bool:
    """Tell whether a reply has neither text nor calls."""
    return all(
        isinstance(part, Thinking) or (isinstance(part, Text) and not part.text.strip())
        for part in message.parts
    )


async def ask(turn: Turn) -> AssistantMessage:
    """Request one reply and record it. Retries where the error allows; raises `ProviderError`,
    `TurnCancelled`, `BudgetStop`.

    A broken reply is requested again from its beginning: with half an answer in the history, models continue
    it as often as they repeat it. The half is recorded only when no complete reply follows.
    """
    attempt = 1
    cut: AssistantMessage | None = None
    try:
        while True:
            stream = _Stream(turn, await _prepare_request(turn))
            try:
                message = await turn.beside.run(stream.run())
            except (TurnCancelled, asyncio.CancelledError):
                if stream.shown:
                    kept = await finish_uninterruptibly(stream.finish(stream.cut_reply()))
                    cut = None if worth_keeping(kept) else cut
                raise
            except ProviderError as error:
                turn.host.meter.release()  # others may ask while this one waits for its next try
                cut = await finish_uninterruptibly(stream.announce_cut()) or cut
                if error.kind == "context_overflow" and not stream.answered:
                    await _make_room(turn, error)
                    continue
                try:
                    await _wait_before_retry(turn, error, attempt)
                except ProviderError as final:
                    if cut is None and not stream.answered:
                        raise
                    raise _broke_off(final) from error
                attempt += 1
            else:
                cut = None
                return await finish_uninterruptibly(stream.finish(message))
    finally:
        turn.host.meter.release()
        if cut is not None:
            await finish_uninterruptibly(_record(turn, cut))


async def _record(turn: Turn, message: AssistantMessage) -> None:
    await turn.host.record(message)
    await turn.flush_results()


def _broke_off(error: ProviderError) -> ProviderError:
    return ProviderError(
        error.kind,
        f"the answer broke off: {_sentence(error)} What arrived is kept.",
        status=error.status,
        retry_after_s=error.retry_after_s,
        retryable=error.retryable,
    )


def _sentence(error: ProviderError) -> str:
    """Return the error's text, ready for another sentence to follow."""
    return error.message if error.message.endswith((".", "!", "?")) else f"{error.message}."


async def _prepare_request(turn: Turn) -> _SizedRequest:
    asked = await _request(turn)
    meter = turn.host.meter
    fit = meter.fit(asked.tokens)
    if fit == "compact" and await _try_to_compact(turn):
        asked = await _request(turn)
    elif fit == "fits":
        meter.warned = False
    elif not meter.warned and not (meter.window.guessed and meter.window.asked):
        meter.warned = True
        guessed = ", a guess: set context_limit" if meter.window.guessed else ""
        share = asked.tokens * 100 // max(1, meter.window.limit)
        turn.warn(
            f"The context is {share} % full (about {asked.tokens:,} of {meter.window.limit:,} tokens"
            f"{guessed}): shorten the conversation soon, or start a new one."
        )
    most = turn.agent.sampling.max_tokens or DEFAULT_MAX_OUTPUT
    stop = await turn.beside.run(meter.reserve(asked.tokens, most, turn.inform))
    if stop is not None:
        raise BudgetStop(stop.reason)
    return asked


async def _request(turn: Turn) -> _SizedRequest:
    agent, sampling = turn.agent, turn.agent.sampling
    view: Sequence[Message] = turn.view.apply(turn.compaction, turn.history)
    for transform in (agent.transform_context, agent.convert_to_model):
        changed = transform(view)
        view = await changed if inspect.isawaitable(changed) else changed
    request = ModelRequest(
        model=agent.model,
        system=agent.system,
        history=tuple(view),
        tools=agent.tools.list_definitions(),
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        effort=sampling.effort,
    )
    return _SizedRequest(request, turn.host.meter.estimate(request))


async def _try_to_compact(turn: Turn) -> bool:
    found = await turn.host.compact(turn.history)
    if found is None or found == turn.compaction:
        return False
    turn.compaction = found
    return True


async def _make_room(turn: Turn, error: ProviderError) -> None:
    """Compact after the provider found the request too long, once a turn."""
    if turn.compacted_for_overflow or not await _try_to_compact(turn):
        advice = "Shorten the conversation, start a new one, or choose a model with a larger context."
        raise ProviderError(
            "context_overflow", f"{_sentence(error)} {advice}", status=error.status
        ) from error
    turn.compacted_for_overflow = True


async def _wait_before_retry(turn: Turn, error: ProviderError, attempt: int) -> None:
    limits = turn.agent.limits
    has_answered = bool(error.status) or error.kind == "cut"
    tries = max(limits.tries, limits.outage_tries) if has_answered else limits.tries
    if not error.retryable or attempt >= tries:
        raise error
    delay_s = error.retry_after_s
    if delay_s is None:
        ceiling = min(limits.longest_delay_s, limits.first_delay_s * 2 ** (attempt - 1))
        delay_s = ceiling * (0.5 + turn.host.random() / 2)
    if delay_s > limits.longest_wait_s:
        raise ProviderError(
            error.kind,
            f"{_sentence(error)} The provider asks to wait {delay_s:,.0f} s; "
            "retry then, or use another model.",
            status=error.status,
            retry_after_s=delay_s,
            retryable=False,
        ) from error
    turn.emit(RetryScheduled(attempt, tries, delay_s, error.kind, error.message))
    await turn.beside.run(_sleep(turn, delay_s))


async def _sleep(turn: Turn, delay_s: float) -> None:
    await turn.host.sleep(delay_s)
