"""Compaction on request: the model summarises the older part of a conversation, and it can be taken back."""

from __future__ import annotations

from typing import cast

import msgspec

from buddy.agent.budget import message_tokens
from buddy.agent.compaction import Compaction, apply_compaction
from buddy.agent.messages import AssistantMessage, UserMessage, text_of
from buddy.agent.model_call import DEFAULT_MAX_OUTPUT
from buddy.agent.provider import ModelRequest, ProviderError
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.extend.system_prompt import read_template, render_template
from buddy.llm.rate_limiter import GovernedProvider
from buddy.tasks.board import TaskBoard, TaskError
from buddy.tasks.task import Task

KEEP_TURNS = 1
MAX_FAILURES = 2
ADVICE = "Change the model (/model), rewind to before the long part (/rewind), or start over (/new)."


async def compact_task(board: TaskBoard, number: int, focus: str) -> str:
    """Summarise everything but the last turn; the summary. Raises `TaskError`; the old view then stays. What
    failed twice is not asked a third time of the same model."""
    task = board.task(number)
    if task.running:
        raise TaskError(f"task {number} is running; compact it when it is done, or cancel it first")
    through = _boundary(task)
    if through == 0:
        raise TaskError("Nothing to compact yet: the conversation has only its last turn, which stays.")
    failures = _failures(task, through)
    if failures >= MAX_FAILURES:
        raise TaskError(f"The summary failed {failures} times and is not tried again. {ADVICE}")
    ids, view = [message.id for message in task.history[:through]], task.compaction
    try:
        summary = await _summary(board, task, through, focus)
    except TaskError as error:
        task.failed_summaries = (through, task.model, failures + 1)
        if failures + 1 < MAX_FAILURES:
            raise
        raise TaskError(f"{str(error).rstrip('.')}. That was the second time. {ADVICE}") from error
    task.failed_summaries = (0, "", 0)
    if [message.id for message in task.history[:through]] != ids or task.compaction is not view:
        raise TaskError("Not compacted: the conversation changed meanwhile. /compact tries again.")
    compaction = Compaction(through, summary)
    await board.parts.memory.record_compaction(number, compaction)
    task.compaction = compaction
    task.services.forget_shown()
    return summary


class Shortened(msgspec.Struct, frozen=True):
    """A compaction as the person is shown it: messages and tokens of the part that is shortened, before and
    after, the messages that stay word for word, and the summary ("" where only old results were dropped)."""

    messages: int
    tokens_before: int
    tokens_after: int
    kept: int
    summary: str


def shortened(task: Task) -> Shortened:
    """Describe what the compaction of a task keeps and drops. Raises `TaskError` where nothing was
    compacted."""
    if task.compaction is None or task.compaction.through == 0:
        raise TaskError("nothing is compacted: the model reads the whole conversation")
    through = task.compaction.through
    old = task.history[:through]
    view = apply_compaction(task.compaction, old)
    return Shortened(
        messages=through,
        tokens_before=round(sum(map(message_tokens, old))),
        tokens_after=round(sum(map(message_tokens, view))),
        kept=sum(one in old for one in view) + len(task.history) - through,
        summary=task.compaction.summary,
    )


async def uncompact_task(board: TaskBoard, number: int) -> None:
    """Send the whole conversation again. Raises `TaskError` when nothing was compacted."""
    task = board.task(number)
    if task.compaction is None:
        raise TaskError("nothing was compacted")
    await board.parts.memory.record_compaction(number, None)
    task.compaction = None


def _failures(task: Task, through: int) -> int:
    """Count how often a summary of the same part by the same model has failed."""
    part, model, count = task.failed_summaries
    return count if (part, model) == (through, task.model) else 0


def _boundary(task: Task) -> int:
    starts = [
        at
        for at, message in enumerate(task.history)
        if isinstance(message, UserMessage) and message.origin in ("prompt", "follow_up")
    ]
    return starts[-KEEP_TURNS] if len(starts) > KEEP_TURNS else 0


async def _summary(board: TaskBoard, task: Task, through: int, focus: str) -> str:
    old_chars = sum(len(text_of(one)) for one in task.history[:through])
    message = await _reply(board, task, await _request(board, task, through, focus))
    summary = text_of(cast(AssistantMessage, board.parts.redact(message))).strip()
    if not summary:
        raise TaskError("Not compacted: the model's summary is empty.")
    if len(summary) > old_chars:
        raise TaskError("Not compacted: the model's summary is longer than the conversation.")
    return summary


async def _request(board: TaskBoard, task: Task, through: int, focus: str) -> ModelRequest:
    wanted = f"\n\nPay special attention to: {focus}" if focus else ""
    ask = board.message(render_template(await read_template("compaction.md"), {"focus": wanted}), "prompt")
    old = apply_compaction(task.compaction, task.history[:through])
    # The tools go along although none is to be called: some providers refuse a history with calls without
    # them.
    tools = board.parts.tools.list_definitions()
    return ModelRequest(board.parts.model(task.model).model, task.workspace.system, (*old, ask), tools)


async def _reply(board: TaskBoard, task: Task, request: ModelRequest) -> AssistantMessage:
    """Ask within the budgets, and count what arrived, whole or not. Raises `TaskError`."""
    access = board.parts.model(task.model)
    tokens = task.meter.estimate(request)
    reached = task.meter.reserve(tokens, DEFAULT_MAX_OUTPUT)
    if reached is not None:
        raise TaskError(f"not compacted: {reached.reason}")
    provider = GovernedProvider(access.provider, access.governor, lambda: board.focus == task.number)
    assembler = ReplyAssembler(board.parts.clock.new_id(), access.model, access.provider.lane)
    stream = provider.stream(request)
    has_begun = False
    message: AssistantMessage | None = None
    try:
        async for delta in stream:
            has_begun = True
            assembler.feed(delta)
        message = assembler.finish()
        return message
    except ProviderError as error:
        raise TaskError(f"not compacted: {error.message}") from error
    finally:
        await stream.aclose()
        if has_begun:
            count_aside(board, task, tokens, message or assembler.partial())


def count_aside(board: TaskBoard, task: Task, estimated: int, reply: AssistantMessage) -> None:
    """Count a reply that is no part of the conversation: paid like any other, but the task's context is as
    full as before."""
    filled = task.meter.context_tokens
    task.meter.settle(estimated, reply)
    task.meter.context_tokens = filled
    usage = task.meter.report()
    board.parts.memory.record_usage(task.number, usage)
    board.hub.emit(task.number, usage)
