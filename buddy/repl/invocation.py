"""Sending a skill or command file that the person called by `/name`."""

from __future__ import annotations

import asyncio
from functools import partial

from buddy.agent.tool import ToolError
from buddy.app.invocations import Invocation, invoke
from buddy.extend.agent_profiles import profile_of
from buddy.extend.definitions import ExtensionFile
from buddy.repl.commands.registry import CommandError
from buddy.repl.context import Context
from buddy.repl.view.blocks import NoteBlock
from buddy.tasks.task import TaskError


async def prepare(context: Context, definition: ExtensionFile, words: str) -> Invocation:
    """Make a definition ready to be sent to the task in front. Raises `CommandError`."""
    try:
        ready = await invoke(context.session, context.focus, definition, words)
    except ToolError as error:
        context.board.forget_allowed(context.focus)
        raise CommandError(str(error)) from error
    for note in ready.notes:
        context.screen.print(NoteBlock("warning", note))
    return ready


async def send(context: Context, task_id: int, ready: Invocation) -> None:
    """Send what is ready: to the task, or to one of its own. Raises `CommandError`, `TaskError`."""
    if ready.fork or ready.agent:
        await _fork(context, ready)
        return
    board = context.board
    task = board.task(task_id)
    if task.running or not ready.model or ready.model == task.model:
        await board.prompt(task_id, ready.parts)
        return
    before = task.model
    board.change_model(task_id, ready.model)
    try:
        runner = board.submit(task_id, ready.parts)
    except TaskError:
        board.change_model(task_id, before)
        raise
    runner.add_done_callback(partial(_change_back, context, task_id, before, ready.model))


def _change_back(context: Context, task_id: int, before: str, used: str, _runner: asyncio.Task[None]) -> None:
    task = context.board.tasks.get(task_id)
    if task is not None and task.model == used and not task.running and not task.closed:
        context.board.change_model(task_id, before)


async def _fork(context: Context, ready: Invocation) -> None:
    """Give it to a task of its own in the background; its answer becomes a note, like that of `TEXT &`."""
    board = context.board
    profile = None
    if ready.agent:
        try:
            profile = await asyncio.to_thread(profile_of, context.session.extensions.catalogue, ready.agent)
        except ToolError as error:
            raise CommandError(str(error)) from error
    model = ready.model or (
        profile.model if profile is not None and profile.model in board.parts.profiles else ""
    )
    task = board.open(model=model or board.task(context.focus).model)
    board.to_background(task.task_id)
    if profile is not None:
        board.work_by(task.task_id, profile)
    board.submit(task.task_id, ready.parts)
    who = f" as {ready.agent}" if ready.agent else ""
    text = f"task {task.task_id} started in the background{who}: {task.title}"
    context.screen.print(NoteBlock("info", text))
