"""Compaction on request: the model summarises the older part of a conversation; it can be undone."""

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
from buddy.tasks.hook_points import TaskHooks
from buddy.tasks.task import Task

KEEP_TURNS = 1
# Each attempt sends the whole older part again, which is paid for.
MAX_FAILURES = 2
ADVICE = "Change the model (/model), rewind to before the long part (/rewind), or start over (/new)."


async def compact_task(board: TaskBoard, task_id: int, focus: str) -> str:
    """Summarise everything before the last turn and return the summary.

    Raises `TaskError` and changes nothing when that fails. After two failures for the same part and model no
    third request is sent.
    """
    task = board.task(task_id)
    if task.running:
        raise TaskError(f"task {task_id} is running; compact it when it is done, or cancel it first")
    through = _boundary(task)
    if through == 0:
        raise TaskError("Nothing to compact yet: the last turn always stays, and there is no earlier one.")
    failures = _failures(task, through)
    if failures >= MAX_FAILURES:
        raise TaskError(f"The summary failed {failures} times and is not tried again. {ADVICE}")
    hooks = TaskHooks(board.parts, task, lambda notice: board.hub.emit(task_id, notice))
    if why := await hooks.before_compaction("manual", focus):
        raise TaskError(f"Not compacted: {why}")
    ids, view = [message.id for message in task.history[:through]], task.compaction
    try:
        summary = await _summary(board, task, through, focus)
    except TaskError as error:
        task.failed_summaries = (through, task.model, failures + 1)
        if failures + 1 < MAX_FAILURES:
            raise
        raise TaskError(f"{str(error).rstrip('.')}. That was the second attempt. {ADVICE}") from error
    task.failed_summaries = (0, "", 0)
    if [message.id for message in task.history[:through]] != ids or task.compaction is not view:
        raise TaskError("Not compacted: the conversation changed meanwhile. Try /compact again.")
    compaction = Compaction(through, summary)
    await board.parts.journal.record_compaction(task_id, compaction)
    task.compaction = compaction
    task.services.forget_shown()
    await hooks.after_compaction("manual")
    return summary


class CompactionFigures(msgspec.Struct, frozen=True):
    """The figures of a compaction: messages and tokens of the shortened part before and after, the messages
    kept word for word, and the summary ("" when only old results were dropped)."""

    messages: int
    tokens_before: int
    tokens_after: int
    kept: int
    summary: str


def compaction_figures(task: Task) -> CompactionFigures:
    """Return the figures of a task's compaction. Raises `TaskError` when nothing was compacted."""
    if task.compaction is None or task.compaction.through == 0:
        raise TaskError("nothing is compacted: the model gets the whole conversation")
    through = task.compaction.through
    old = task.history[:through]
    view = apply_compaction(task.compaction, old)
    return CompactionFigures(
        messages=through,
        tokens_before=round(sum(map(message_tokens, old))),
        tokens_after=round(sum(map(message_tokens, view))),
        kept=sum(message in old for message in view) + len(task.history) - through,
        summary=task.compaction.summary,
    )


async def uncompact_task(board: TaskBoard, task_id: int) -> None:
    """Send the whole conversation again. Raises `TaskError` when nothing was compacted."""
    task = board.task(task_id)
    if task.compaction is None:
        raise TaskError("nothing was compacted")
    await board.parts.journal.record_compaction(task_id, None)
    task.compaction = None


def _failures(task: Task, through: int) -> int:
    """Count the failed summaries of the same part by the same model."""
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
    old_chars = sum(len(text_of(message)) for message in task.history[:through])
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
    # Some providers refuse a history with calls unless the tools are declared.
    tools = board.tools_of(task.task_id).list_definitions()
    return ModelRequest(
        board.parts.model(task.model).model, task.system_prompt(board.parts), (*old, ask), tools
    )


async def _reply(board: TaskBoard, task: Task, request: ModelRequest) -> AssistantMessage:
    """Request the summary within the budgets and count its usage, also when it broke off. Raises
    `TaskError`."""
    tokens = task.meter.estimate(request)
    async with task.meter.request_aside(tokens, DEFAULT_MAX_OUTPUT) as reached:
        if reached is not None:
            raise TaskError(f"not compacted: {reached.reason}")
        return await _read_reply(board, task, request, tokens)


async def _read_reply(board: TaskBoard, task: Task, request: ModelRequest, tokens: int) -> AssistantMessage:
    access = board.parts.model(task.model)
    provider = GovernedProvider(access.provider, access.governor, lambda: board.focus == task.task_id)
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
    """Count the usage of a reply outside the conversation: it is paid for, but the task's context does not
    grow."""
    context_tokens = task.meter.context_tokens
    task.meter.settle(estimated, reply)
    task.meter.context_tokens = context_tokens
    usage = task.meter.report()
    board.parts.journal.record_usage(task.task_id, usage)
    board.hub.emit(task.task_id, usage)
