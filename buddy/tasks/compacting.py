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
MAX_FAILURES = 2
ADVICE = "Take another model (/model), go back to before the long part (/rewind), or begin anew (/new)."


async def compact_task(board: TaskBoard, number: int, focus: str) -> str:
    """Summarise everything but the last turn; the summary. Raises `TaskError`; the old view then stays. What
    failed twice is not asked a third time of the same model."""
    task = board.task(number)
    if task.running:
        raise TaskError(f"task {number} is running; compact it when it is done, or cancel it first")
    through = _boundary(task)
    if through == 0:
        raise TaskError("there is nothing to summarise yet: only the last turn is there, and it is kept")
    failures = _failures(task, through)
    if failures >= MAX_FAILURES:
        raise TaskError(f"the summary failed {failures} times; it is not asked for again. {ADVICE}")
    try:
        summary = await _summary(board, task, through, focus)
    except TaskError as error:
        task.failed_summaries = (through, task.model, failures + 1)
        if failures + 1 < MAX_FAILURES:
            raise
        raise TaskError(f"{error}. That was the second time. {ADVICE}") from error
    task.failed_summaries = (0, "", 0)
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


def _failures(task: Task, through: int) -> int:
    """How often a summary of the same part by the same model has failed."""
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
    access = board.parts.model(task.model)
    wanted = f"\n\nPay special attention to: {focus}" if focus else ""
    ask = board.message(rendered(template_text("compaction.md"), {"focus": wanted}), "prompt")
    old = applied(task.compaction, task.history[:through])
    # The tools go along although none is to be called: some providers refuse a history with calls without
    # them.
    tools = board.parts.tools.list_definitions()
    request = ModelRequest(access.model, task.workspace.system, (*old, ask), tools)
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
