"""Commands about tasks and their jobs: listing, showing, ending, and asking one aside: from a copy of its
conversation, without disturbing its turn or becoming part of it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence

from buddy.agent.cancel import TurnCancelled, run_cancellable
from buddy.agent.compaction import apply_compaction
from buddy.agent.formatting import whole_number
from buddy.agent.messages import AssistantMessage, Message, Text, UserMessage, text_of
from buddy.agent.model_call import DEFAULT_MAX_OUTPUT
from buddy.agent.provider import ModelRequest, ProviderError
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.app.session import Session
from buddy.config.settings import LONGEST_S
from buddy.llm.rate_limiter import GovernedProvider
from buddy.repl.commands.registry import CommandError, command, quote_start
from buddy.repl.context import Context
from buddy.repl.render import numbers as words
from buddy.repl.render.markdown import closed_blocks
from buddy.repl.view.blocks import NoteBlock, TableBlock
from buddy.repl.view.replay import blocks_of
from buddy.safety.sanitise import one_line, visible
from buddy.tasks.dependencies import ModelAccess
from buddy.tasks.summarise import count_aside
from buddy.tasks.task import Task, copyable_length
from buddy.workspace.processes.jobs import Jobs, JobStatus
from buddy.workspace.processes.process_tree import LeftCommand

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)?", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "h": 3600, None: 1}
INSIDE_ONLY = (
    "only commands inside the sandbox reach a port there, your browser does not; an allow rule with "
    'sandbox = "off" runs its command outside'
)
MAX_REASON_CHARS = 20
"""Of why a task stopped, in the list: a row stays one line."""
_ASIDE = (
    "This is a side question while the work goes on. Answer it briefly from what you already know from this "
    "conversation. Do not call tools, and do not continue the work.\n\n"
)


def duration_s(text: str) -> float:
    """Return "90", "10m" or "1.5h" in seconds: above 0, at most a year. Raises `CommandError`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"expected a time like 90s, 10m or 1h, found {quote_start(text)}")
    seconds = float(match[1]) * _UNITS[match[2].lower() if match[2] else None]
    if not 0 < seconds <= LONGEST_S:
        raise CommandError(f"expected a time above 0 and up to a year, found {quote_start(text)}")
    return seconds


def task_id_of(context: Context, text: str) -> int:
    """Return the id of the task a command names, by default the foreground task. Raises `CommandError`."""
    word = text.strip().removeprefix("@")
    if not word:
        return context.focus
    task_id = whole_number(word)
    if task_id is None:
        raise CommandError(f"expected the number of a task, found {quote_start(word)}; /ps lists them")
    return context.board.task(task_id).task_id


@command(family="tasks", aliases=("tasks",), usage="[-a|N]", completes=("task",), essential=True)
async def ps(context: Context, argument: str) -> None:
    """List the tasks and running jobs; -a includes closed tasks, N prints all about one"""
    board = context.board
    if whole_number(argument.removeprefix("@")) is not None:
        _describe_task(context, board.task(task_id_of(context, argument)))
        return
    if argument not in ("", "-a", "a", "all"):
        raise CommandError(f"expected nothing, -a or a task's number, found {quote_start(argument)}")
    now = board.parts.clock.now()
    rows = [_row(context, task, now) for task in board.tasks.values() if argument or not task.closed]
    context.screen.print(TableBlock(("task", "state", "tokens", "cost", "what"), tuple(rows)))
    running = [job for job in context.session.jobs.all() if job.state != "ended"]
    if running:
        context.screen.print(*await asyncio.to_thread(job_blocks, context.session.jobs, running))


def _row(context: Context, task: Task, now: float) -> tuple[str, ...]:
    where = "▸" if task.task_id == context.focus else "&" if task.background else " "
    state = words.state(task.state, has_worked=bool(task.history))
    if task.running:
        state = f"{_waits_for(context, task) or task.state} {words.seconds(now - task.started_at)}"
    if task.reason and not task.running and task.reason != task.state:
        reason = one_line(task.reason, MAX_REASON_CHARS)
        state += f" ({reason}{'' if reason == task.reason else f' /ps {task.task_id}'})"
    total = task.meter.total
    tokens = words.tokens(total.input_tokens + total.output_tokens)
    cost = words.cost(task.meter.cost_usd, known=task.meter.cost_known)
    what = " · ".join((task.title, *_distinctions(context.session, task)))
    return (f"{where} {task.task_id}", state, tokens, cost, what)


def _describe_task(context: Context, task: Task) -> None:
    """Print a task with the whole reason of its state."""
    _, state, tokens, cost, what = _row(context, task, context.board.parts.clock.now())
    if task.reason and not task.running:
        state = f"{words.state(task.state, has_worked=bool(task.history))}: {visible(task.reason)}"
    context.screen.print(NoteBlock("info", f"task {task.task_id}: {what}\n{state}\n{tokens} tokens, {cost}"))


def _waits_for(context: Context, task: Task) -> str:
    """Return what a running task waits for, "" when it works."""
    asked = {request.task_id for request in context.board.inbox.waiting()}
    asked |= {question.task_id for question in context.session.questions.waiting()}
    if task.task_id in asked:
        return "waiting for you"
    below = [
        child.task_id
        for child in context.board.tasks.values()
        if child.parent == task.task_id and child.running
    ]
    if task.state != "waiting" or not below:
        return ""
    return f"waiting for task {', '.join(map(str, below))}"


def _distinctions(session: Session, task: Task) -> list[str]:
    """Describe how a task differs from one the user started in the project's own tree."""
    tree = task.workspace.worktree
    apart = [f"subagent of {task.parent}"] if task.parent else []
    apart += [f"variant {task.variant.number}"] if task.variant is not None else []
    apart += [f"on {visible(session.target_words(task))}"] if task.workspace.target else []
    if tree is None:
        return apart
    suffix = "" if os.path.isdir(tree.path) else " (removed)"
    return [*apart, f"worktree {tree.name}{suffix}"]


@command(family="tasks", usage="N", completes=("task",), essential=True)
async def fg(context: Context, argument: str) -> None:
    """Bring a task to the foreground"""
    board = context.board
    others = [
        task.task_id for task in board.tasks.values() if task.task_id != board.focus and not task.closed
    ]
    if not argument and not others:
        raise CommandError("there is only this task")
    task_id = task_id_of(context, argument) if argument else others[-1]
    if task_id == board.focus:
        context.screen.hint(f"task {task_id} is already in the foreground")
        return
    task = board.task(task_id)
    if task.closed:
        raise CommandError(f"task {task_id} is closed; /ps lists the open ones")
    previous = board.task(board.focus)
    if previous.running:
        board.to_background(previous.task_id)
    board.set_focus(task_id)
    context.screen.redraw()
    if not task.running:  # the screen has kept the output of a running task
        start = _start_of_last_turn(task.history)
        copied = max(task.copied - start, 0)
        context.screen.print(
            *blocks_of(task.history[start:], task_id, task.receipt, copied=copied, copy_of=task.copy_of)
        )


def _start_of_last_turn(history: list[Message]) -> int:
    starts = [
        at
        for at, message in enumerate(history)
        if isinstance(message, UserMessage) and message.origin in ("prompt", "follow_up")
    ]
    return starts[-1] if starts else 0


@command(family="tasks", usage="[TEXT]", sends=True, essential=True)
async def bg(context: Context, argument: str) -> None:
    """Move the foreground task to the background; with text, start a new task there"""
    board = context.board
    named = whole_number(argument.removeprefix("@"))
    if named is not None and board.task(named).task_id != board.focus:
        raise CommandError(f"task {named} is not in the foreground; /fg {named} brings it there")
    if argument and named is None:
        task = board.open(copy_of=board.focus)
        board.to_background(task.task_id)
        expanded = await context.session.expand(task.task_id, argument)
        board.submit(task.task_id, expanded.parts)
        context.screen.print(
            NoteBlock("info", f"task {task.task_id} started in the background: {task.title}")
        )
        return
    previous = board.task(board.focus)
    if not previous.running:
        raise CommandError(f"task {previous.task_id} is not running; /fg N switches to another one")
    fresh = board.open(copy_of=previous.task_id)
    board.to_background(previous.task_id)
    board.set_focus(fresh.task_id)
    context.screen.print(
        NoteBlock(
            "info", f"task {previous.task_id} continues in the background; this is task {fresh.task_id}"
        )
    )


@command(family="tasks", usage="[N]", destructive=True, completes=("task",), essential=True)
async def kill(context: Context, argument: str) -> None:
    """Cancel a task's turn and close the task; without N the foreground task, if it runs"""
    board = context.board
    task_id = task_id_of(context, argument)
    if not argument and not board.task(task_id).running:
        raise CommandError(_which_to_kill(context, task_id))
    if board.task(task_id).closed:
        raise CommandError(f"task {task_id} is already closed")
    if task_id == board.focus:
        others = [
            task.task_id for task in board.tasks.values() if task.task_id != task_id and not task.closed
        ]
        board.set_focus(others[-1] if others else board.open().task_id)
    await board.kill(task_id)
    task = board.task(task_id)
    notice = await board.workspaces.clean_up_after(task)
    left = f"; {task.worktree_state or notice}" if task.worktree_state or notice else ""
    context.screen.print(NoteBlock("info", f"task {task_id} is closed{left}"))


def _which_to_kill(context: Context, task_id: int) -> str:
    """Explain that the foreground task does not run, and name those that do."""
    title = context.board.task(task_id).title
    named = f" ({title})" if title else ""
    running = [f"{task.task_id}" for task in context.board.tasks.values() if task.running]
    others = f"; running: {', '.join(running)}" if running else ""
    return f"Task {task_id}{named} is not running. /kill {task_id} closes it{others}"


@command(family="tasks", usage="[N] TIME|off", completes=("task",))
async def timeout(context: Context, argument: str) -> None:
    """Cancel a task's turn after a time"""
    first, _, rest = argument.partition(" ")
    task_id, text = (task_id_of(context, first), rest) if rest else (context.focus, first)
    if not text:
        raise CommandError("expected a time: /timeout 10m, /timeout 3 90s, /timeout off")
    seconds = 0.0 if text.strip() in ("off", "0") else duration_s(text)
    context.board.set_timeout(task_id, seconds)
    effect = f"will be cancelled after {words.seconds(seconds)}" if seconds else "has no time limit"
    context.screen.hint(f"task {task_id} {effect}")


@command(family="tasks", usage="[N]", completes=("task",))
async def wait(context: Context, argument: str) -> None:
    """Report when a task is done (the prompt stays free)"""
    task_id = task_id_of(context, argument)
    outcome = await context.board.wait(task_id)
    state = words.state(outcome.outcome) if outcome is not None else "not running"
    context.screen.print(NoteBlock("info", f"task {task_id}: {state}"))


@command(family="tasks", usage="TEXT", sends=True)
async def queue(context: Context, argument: str) -> None:
    """Send text to the foreground task after its turn"""
    if not argument:
        raise CommandError("expected the text to queue: /queue then run the tests")
    expanded = await context.session.expand(context.focus, argument)
    await context.board.queue(context.focus, expanded.parts)


@command(family="tasks", usage="[N] TEXT", completes=("task",), sends=True)
async def steer(context: Context, argument: str) -> None:
    """Send text to a running task at its next step"""
    first, _, rest = argument.partition(" ")
    named = whole_number(first) if rest else None
    task_id, text = (context.focus, argument) if named is None else (named, rest)
    if not text:
        raise CommandError("expected the text: /steer use pytest, /steer 2 use pytest")
    expanded = await context.session.expand(task_id, text)
    await context.board.prompt(task_id, expanded.parts)


@command(family="tasks", name="continue", usage="[N]", aliases=("cont",), completes=("task",))
async def continue_(context: Context, argument: str) -> None:
    """Continue a task that was paused, cut off or cancelled"""
    context.board.continue_task(task_id_of(context, argument))


@command(family="tasks", usage="[N] [now]", completes=("task",))
async def retry(context: Context, argument: str) -> None:
    """Repeat the request after a failure; now: without waiting for the rate limit"""
    words = argument.split()
    now = "now" in words
    task_id = task_id_of(context, " ".join(word for word in words if word != "now"))
    task = context.board.task(task_id)
    was_waiting = now and context.board.retry_now(task_id)
    if now and task.running:
        if not was_waiting:
            raise CommandError(f"task {task_id} is not waiting to retry")
        context.screen.hint("retrying now")
        return
    if task.state not in ("failed", "paused", "cancelled"):
        raise CommandError(f"task {task_id} did not fail; there is nothing to retry")
    context.board.continue_task(task_id)


def job_blocks(
    jobs: Jobs, statuses: Sequence[JobStatus], left: Sequence[LeftCommand] = ()
) -> tuple[TableBlock | NoteBlock, ...]:
    """Return tables about jobs and the commands an earlier run left. Blocks: it walks over all processes for
    their ports."""
    rows: list[tuple[str, ...]] = []
    inside_only = False
    for status in statuses:
        child = jobs.get(status.id).child
        ports = ", ".join(map(str, child.ports()))
        hidden = bool(ports and child.ports_inside)
        inside_only = inside_only or hidden
        serves = f"{ports} inside" if hidden else ports
        rows.append(
            (
                str(status.id),
                status.state,
                f"{status.seconds:.0f} s",
                f"{status.bytes_written:,} B",
                serves,
                status.command,
            )
        )
    for number, entry in enumerate(left, 1):
        rows.append(
            (f"left{number}", "left by an earlier run", "", "", "", f"{entry.command} ({entry.pids})")
        )
    table = TableBlock(("job", "state", "for", "output", "serves", "command"), tuple(rows))
    return (table, NoteBlock("info", INSIDE_ONLY)) if inside_only else (table,)


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
