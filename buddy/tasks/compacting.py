"""Compaction on request: the model summarises the older part of a conversation, and it can be taken back."""

from __future__ import annotations

from buddy.agent.compaction import Compaction, applied
from buddy.agent.messages import UserMessage, text_of
from buddy.agent.provider import ModelRequest, ProviderError
from buddy.agent.reply import ReplyAssembler
from buddy.extend.prompt import rendered
from buddy.extend.templates import template_text
from buddy.tasks.board import TaskBoard, TaskError
from buddy.tasks.task import Task

KEEP_TURNS = 1


async def compact_task(board: TaskBoard, number: int, focus: str) -> str:
    """Summarise everything but the last turn; the summary. Raises `TaskError`; the old view then stays."""
    task = board.task(number)
    if task.running:
        raise TaskError(f"task {number} is running; compact it when it is done, or cancel it first")
    through = _boundary(task)
    if through == 0:
        raise TaskError("there is nothing to summarise yet: only the last turn is there, and it is kept")
    summary = await _summary(board, task, through, focus)
    compaction = Compaction(through, summary)
    await board.parts.memory.record_compaction(number, compaction)
    task.compaction = compaction
    task.services.forget_shown()
    return summary


async def uncompact_task(board: TaskBoard, number: int) -> None:
    """Send the whole conversation again. Raises `TaskError` when nothing was compacted."""
    task = board.task(number)
    if task.compaction is None:
        raise TaskError("nothing was compacted")
    await board.parts.memory.record_compaction(number, None)
    task.compaction = None


def _boundary(task: Task) -> int:
    starts = [
        at
        for at, message in enumerate(task.history)
        if isinstance(message, UserMessage) and message.origin in ("prompt", "follow_up")
    ]
    return starts[-KEEP_TURNS] if len(starts) > KEEP_TURNS else 0


async def _summary(board: TaskBoard, task: Task, through: int, focus: str) -> str:
    access = board.parts.model(task.model)
    wanted = f"\n\nPay special attention to: {focus}" if focus else ""
    ask = board.message(rendered(template_text("compaction.md"), {"focus": wanted}), "prompt")
    old = applied(task.compaction, task.history[:through])
    # The tools go along although none is to be called: some providers refuse a history with calls without
    # them.
    tools = board.parts.tools.list_definitions()
    request = ModelRequest(access.model, board.parts.system, (*old, ask), tools)
    assembler = ReplyAssembler(board.parts.clock.new_id(), access.model, access.provider.lane)
    stream = access.provider.stream(request)
    try:
        async for delta in stream:
            assembler.feed(delta)
        message = assembler.finish()
    except ProviderError as error:
        raise TaskError(f"no summary, the conversation stays whole: {error.message}") from error
    finally:
        await stream.aclose()
    summary = text_of(message).strip()
    if not summary:
        raise TaskError("the model's summary is empty; the conversation stays whole")
    if len(summary) > sum(len(text_of(one)) for one in task.history[:through]):
        raise TaskError("the model's summary is longer than what it stands for; the conversation stays whole")
    return summary
