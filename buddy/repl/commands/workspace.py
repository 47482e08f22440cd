"""Commands about the workspace: what changed, taking it back, tools, trust."""

from __future__ import annotations

import asyncio
import os

from buddy.agent.messages import Call
from buddy.agent.tool import ToolContext, ToolError
from buddy.repl.blocks import Note, PlainText, Table, ToolCall
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.commands.tasks import task_number
from buddy.repl.port import Context
from buddy.tools.git import git_diff


@command(family="workspace", usage="[PATH]", completes=("path",))
async def diff(context: Context, argument: str) -> None:
    """Show what changed in the working tree since the last commit"""
    task = context.board.task(context.focus)
    call_context = ToolContext(task.number, "", lambda _text: None, asyncio.Event(), task.services.services)
    try:
        result = await git_diff.run(call_context, git_diff.arguments(path=argument, ref="", staged=False))
    except ToolError as error:
        raise CommandError(str(error)) from error
    call = Call("", "git_diff", "{}")
    context.stage.print(
        ToolCall(
            call, "diff", "low", "ok", result.text, result.display, 0.0, cached=False, task_id=context.focus
        )
    )


@command(family="workspace", usage="[@N]")
async def undo(context: Context, argument: str) -> None:
    """Take back the last edit (of a task: /undo @3); your own changes are never touched"""
    number = task_number(context, argument) if argument else None
    log = context.desk.undo
    try:
        undone = await asyncio.to_thread(log.undo, context.desk.locks, number)
    except ToolError as error:
        raise CommandError(str(error)) from error
    paths = ", ".join(os.path.relpath(file.real, context.desk.boundary.cwd) for file in undone.files)
    said = f"taken back: {undone.tool} of task {undone.task_id} on {paths}; /redo applies it again"
    context.stage.print(Note("info", said))


@command(family="workspace")
async def redo(context: Context, argument: str) -> None:
    """Apply again what /undo took back"""
    try:
        redone = await asyncio.to_thread(context.desk.undo.redo, context.desk.locks)
    except ToolError as error:
        raise CommandError(str(error)) from error
    context.stage.print(Note("info", f"applied again: {redone.tool} of task {redone.task_id}"))


@command(family="workspace")
async def tools(context: Context, argument: str) -> None:
    """List the tools: risk, category, source"""
    rows = tuple(
        (tool.name, tool.risk, tool.category, tool.source, tool.description.split("\n")[0])
        for tool in context.board.parts.tools.list_all()
    )
    context.stage.print(Table(("tool", "risk", "category", "from", "what"), rows))


@command(family="workspace", usage="[off]", choices=("off",))
async def trust(context: Context, argument: str) -> None:
    """Trust this folder's configuration from now on (off: no longer)"""
    said = context.desk.trust(argument != "off")
    context.stage.print(PlainText(said))


@command(family="workspace")
async def jobs(context: Context, argument: str) -> None:
    """List the commands that run in the background"""
    found = context.desk.jobs.all()
    if not found:
        raise CommandError("no job is running")
    rows = tuple(
        (str(one.id), one.state, f"{one.seconds:.0f} s", f"{one.bytes_written:,} B", one.command)
        for one in found
    )
    context.stage.print(Table(("job", "state", "for", "output", "command"), rows))


@command(family="workspace")
async def memory(context: Context, argument: str) -> None:
    """Show the instruction files the model was given"""
    names = context.desk.instructions
    context.stage.print(PlainText("\n".join(names) if names else "no instruction files; AGENTS.md is read"))


COMMANDS = (diff, undo, redo, tools, trust, jobs, memory)
