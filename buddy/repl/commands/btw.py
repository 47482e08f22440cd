"""A side question, answered from a copy of a conversation without disturbing its turn or becoming part of
it."""

from __future__ import annotations

from buddy.agent.cancel import TurnCancelled, run_cancellable
from buddy.agent.compaction import apply_compaction
from buddy.agent.formatting import whole_number
from buddy.agent.messages import AssistantMessage, Message, Text, text_of
from buddy.agent.model_call import DEFAULT_MAX_OUTPUT
from buddy.agent.provider import ModelRequest, ProviderError
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.llm.rate_limiter import GovernedProvider
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.render.markdown import closed_blocks
from buddy.repl.view.blocks import NoteBlock
from buddy.tasks.dependencies import ModelAccess
from buddy.tasks.summarise import count_aside
from buddy.tasks.task import Task, copyable_length

_ASIDE = (
    "This is a side question while the work goes on. Answer it briefly from what you already know from this "
    "conversation. Do not call tools, and do not continue the work.\n\n"
)


@command(family="tasks", usage="[@N] QUESTION", aliases=("aside",))
async def btw(context: Context, argument: str) -> None:
    """Ask a side question: the turn goes on, the conversation does not grow"""
    first, _, rest = argument.partition(" ")
    named = whole_number(first[1:]) if first.startswith("@") else None
    task = context.board.task(context.focus if named is None else named)
    question = (argument if named is None else rest).strip()
    if not question:
        raise CommandError("expected a question: /btw why pytest?, /btw @2 which file was that?")
    with context.own.register(f"btw: {question}") as work:
        try:
            answer = await run_cancellable(_answer(context, task, question), work.cancelled)
        except TurnCancelled:
            context.screen.print(NoteBlock("info", f"btw: {question}: cancelled, not answered"))
            return
        except ProviderError as error:
            raise CommandError(f"the side question was not answered: {error.message}") from error
    context.screen.print(NoteBlock("info", f"btw: {question}"), *closed_blocks(answer))


async def _answer(context: Context, task: Task, question: str) -> str:
    board = context.board
    access = board.parts.model(task.model)
    history = apply_compaction(task.compaction, task.history[: copyable_length(task.history)])
    message = board.message(_ASIDE + question, "prompt")
    request = _request(context, access, (*history, message))
    tokens = task.meter.estimate(request)
    async with task.meter.request_aside(tokens, request.max_tokens or DEFAULT_MAX_OUTPUT) as reached:
        if reached is not None:
            raise CommandError(reached.reason)
        reply = await _reply(access, request, context)
        count_aside(board, task, tokens, reply)
    answer = text_of(reply).strip()
    if not answer:
        raise CommandError("the model did not answer the side question; send it as a prompt")
    redacted = board.parts.redact(board.message((Text(answer),), "prompt"))
    return text_of(redacted)


def _request(context: Context, access: ModelAccess, history: tuple[Message, ...]) -> ModelRequest:
    """Build the request as the task itself would, tools included: some servers refuse a history with calls
    without them, and the prompt's cached prefix stays the same."""
    sampling = access.sampling
    return ModelRequest(
        model=access.model,
        system=context.board.task(context.focus).system_prompt(context.board.parts),
        history=history,
        tools=context.board.tools_of(context.focus).list_definitions(),
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        effort=sampling.effort,
    )


async def _reply(access: ModelAccess, request: ModelRequest, context: Context) -> AssistantMessage:
    provider = GovernedProvider(access.provider, access.governor, lambda: True)
    assembler = ReplyAssembler(context.board.parts.clock.new_id(), access.model, access.provider.lane)
    stream = provider.stream(request)
    try:
        async for delta in stream:
            assembler.feed(delta)
    finally:
        await stream.aclose()
    return assembler.finish()
