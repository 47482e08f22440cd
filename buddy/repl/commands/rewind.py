"""Rewinding to before an earlier prompt: the conversation, the files, or both. The journal keeps the
messages, and /redo redoes undone changes; the user's own edits are never touched."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence

from buddy.agent.display import Diff
from buddy.agent.formatting import format_count, name_first
from buddy.agent.messages import Call, UserMessage, typed_text
from buddy.agent.tool import ToolError
from buddy.repl.commands.changes import log_of
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.view.blocks import NoteBlock, TableBlock, ToolCall
from buddy.safety.sanitise import one_line, visible
from buddy.tasks.task import Task, changed_paths, changes_since
from buddy.tools.files.task_diff import diff_of
from buddy.workspace.undo.log import UndoEntry

SHOWN = 20
MAX_NAMED = 8
_ARGUMENT = re.compile(r"(?P<number>\d{1,30})(?:\s+(?P<what>conversation|files|both))?")


@command(
    family="session",
    usage="[N [conversation|files|both]]",
    completes=("prompt",),
    then=("conversation", "files", "both"),
    essential=True,
)
async def rewind(context: Context, argument: str) -> None:
    """Go back to before an earlier prompt: the conversation, the files changed since, or both"""
    task = context.board.task(context.focus)
    points = prompts_of(task)
    if not points:
        raise CommandError("there is no earlier prompt to go back to")
    entries = await asyncio.to_thread(log_of(context, task.task_id).entries, task.task_id)
    if not argument:
        _list(context, task, points, entries)
        return
    match = _ARGUMENT.fullmatch(argument)
    if match is None or not 1 <= int(match["number"]) <= len(points):
        raise CommandError(
            f"expected the number of a prompt, 1 to {len(points)}, and conversation, files or both; "
            f"found {argument!r}"
        )
    if task.running:
        raise CommandError(f"task {task.task_id} is running; cancel it first (Esc)")
    length = len(task.history)
    number, part = int(match["number"]), match["what"] or ""
    at = points[number - 1]
    changed = changes_since(task, at, entries)
    if not part and changed:
        await _offer(context, number, changed)
        return
    if part in ("files", "both"):
        await _take_back(context, task, number, changed)
    if part != "files":
        if task.running or len(task.history) != length:
            raise CommandError(f"task {task.task_id} got new text meanwhile; the conversation stays")
        text = prompt_text(task, at)
        await context.board.rewind(task.task_id, at)
        context.screen.put(text)
        stay = "; files stay as they are" if part == "conversation" and changed else ""
        context.screen.print(NoteBlock("info", f"back to before prompt {number}{stay}"))


def _list(context: Context, task: Task, points: Sequence[int], entries: Sequence[UndoEntry]) -> None:
    rows = [
        (
            str(number),
            one_line(prompt_text(task, at), 100),
            format_count(len(changed_paths(changes_since(task, at, entries))), "file"),
        )
        for number, at in enumerate(points, 1)
    ]
    context.screen.print(TableBlock(("", "prompt", "changed since"), tuple(rows[-SHOWN:])))
    context.screen.hint("/rewind N goes back to before that prompt and puts it into the line")


async def _offer(context: Context, number: int, changed: tuple[UndoEntry, ...]) -> None:
    """Show the changes that would be undone, without doing it."""
    cwd = context.boundary.cwd
    machine = context.board.task(context.focus).workspace.files_on
    log = log_of(context, context.focus)
    diff = await asyncio.to_thread(diff_of, log, changed, cwd, machine)
    context.screen.print(_block(context, diff, f"changed since prompt {number}"))
    count = format_count(len(changed_paths(changed)), "file")
    context.screen.print(
        NoteBlock(
            "info",
            f"{count} changed since prompt {number}. Nothing is undone yet. /rewind {number} both · "
            f"/rewind {number} conversation (files stay) · /rewind {number} files (the conversation stays)",
        )
    )


def _block(context: Context, diff: Diff, title: str) -> ToolCall:
    call = Call("", "diff", "{}")
    return ToolCall(call, title, "low", "ok", "", diff, 0.0, cached=False, task_id=context.focus)


async def _take_back(context: Context, task: Task, number: int, changed: tuple[UndoEntry, ...]) -> None:
    """Undo the changes, newest first. If one fails, the newer ones stay undone and the error says so."""
    if not changed:
        raise CommandError(f"task {task.task_id} has no changes since prompt {number} that could be undone")
    undone: list[UndoEntry] = []
    log, locks = log_of(context, task.task_id), context.session.locks
    for _ in changed:
        try:
            undone.append(await asyncio.to_thread(log.undo, locks, task.task_id, merging=True))
        except ToolError as error:
            left = format_count(len(changed) - len(undone), "change")
            done = format_count(len(undone), "change")
            raise CommandError(f"{error} {done} undone, {left} not. The conversation stays.") from error
    target, cwd = task.workspace.files_on, context.boundary.cwd
    paths = [
        visible(f"{target}:{path}" if target else os.path.relpath(path, cwd))
        for path in changed_paths(undone)
    ]
    named = name_first(paths, MAX_NAMED)
    times = "/redo" if len(undone) == 1 else f"/redo, {len(undone)} times,"
    context.screen.print(NoteBlock("info", f"Undone since prompt {number}: {named}. {times} brings it back."))


def prompts_of(task: Task) -> list[int]:
    """Return the positions of the user's own prompts in the history."""
    return [
        at
        for at, message in enumerate(task.history)
        if isinstance(message, UserMessage) and message.origin in ("prompt", "follow_up")
    ]


def prompt_text(task: Task, at: int) -> str:
    """Return a prompt as typed, without attached notes and files."""
    message = task.history[at]
    return typed_text(message).strip() if isinstance(message, UserMessage) else ""
