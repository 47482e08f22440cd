"""Taking changes of files back, and applying them again.

A command's change is what became different while it ran, and the person may have saved something meanwhile:
where it ran for a while, what would be taken back is shown first, and files can be left out.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Sequence

import msgspec

from buddy.agent.formatting import whole_number
from buddy.agent.messages import Call
from buddy.agent.tool import ToolError
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.commands.tasks import task_number
from buddy.repl.context import Context
from buddy.repl.render.numbers import seconds
from buddy.repl.view.blocks import NoteBlock, ToolCall
from buddy.safety.paths import is_beneath
from buddy.safety.sanitise import visible
from buddy.sessions.records import Note
from buddy.tools.files.task_diff import diff_of
from buddy.workspace.undo.log import UndoEntry

SHOWN_FIRST_S = 3.0
"""Nobody edits a file in the time a short command takes; what a longer one changed is shown first."""
MAX_NAMED = 8
NOT_COVERED = " Files git ignores are not covered."
_DEEDS = {
    "run_shell": "command",
    "edit_file": "edit",
    "write_file": "edit",
    "apply_patch": "patch",
    "delete_file": "deletion",
    "move_file": "move",
}
"""What people call a tool's change; others have the name of the tool."""


class _Wanted(msgspec.Struct, frozen=True):
    """Parameters of `/undo`: the task (None: any), whether to take back all of it, the number of the change
    that was shown (0: none was), and the files to leave out."""

    task_id: int | None
    everything: bool
    shown: int
    without: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command as typed, as far as it selects the change."""
        return "/undo" + (f" @{self.task_id}" if self.task_id else "") + (" all" if self.everything else "")


@command(family="workspace", usage="[@N [all]] [yes NUMBER|without FILE]", essential=True)
async def undo(context: Context, argument: str) -> None:
    """Take back the last change (of a task: /undo @3, all of it: /undo @3 all); yours are never touched"""
    wanted = _wanted(context, argument)
    await _forget_lost(context)
    standing = await asyncio.to_thread(context.session.undo.entries, wanted.task_id)
    last = standing if wanted.everything else standing[-1:]
    if wanted.shown and standing and standing[-1].id != wanted.shown:
        raise CommandError(
            f"the last change is another one now: {_named(context, standing[-1])}. Nothing was undone; "
            f"{wanted.command} shows it"
        )
    if not (wanted.shown or wanted.without) and any(entry.seconds >= SHOWN_FIRST_S for entry in last):
        await _offer(context, wanted, last)
        return
    await _take_back(context, wanted)
    while wanted.everything and context.session.undo.entries(wanted.task_id):
        await _take_back(context, wanted)


def _wanted(context: Context, argument: str) -> _Wanted:
    words = argument.split()
    number = task_number(context, words.pop(0)) if words and words[0].startswith("@") else None
    everything = words[:1] == ["all"] and number is not None
    words = words[1:] if everything else words
    if words[:1] == ["without"] and len(words) > 1 and not everything:
        return _Wanted(number, False, 0, _files(context, argument.partition("without")[2]))
    shown = whole_number(words[1]) if len(words) == 2 and words[0] == "yes" else None
    if words and words != ["yes"] and shown is None:
        raise CommandError(
            "expected /undo, /undo @3 or /undo @3 all, then nothing, yes and the number that was shown, or "
            f"(not after all) without and the files that stay as they are, found {argument!r}"
        )
    return _Wanted(number, everything, shown or 0, ())


def _files(context: Context, text: str) -> tuple[str, ...]:
    try:
        names = shlex.split(text)
    except ValueError as error:
        raise CommandError(f"the names of the files can't be read: {error}") from error
    cwd = context.boundary.cwd
    return tuple(os.path.normpath(os.path.join(cwd, name)) for name in names)


async def _offer(context: Context, wanted: _Wanted, entries: Sequence[UndoEntry]) -> None:
    """Nothing is done yet: the person sees what would be."""
    cwd = context.boundary.cwd
    shown = await asyncio.to_thread(diff_of, context.session.undo, entries, cwd)
    title = f"To undo: {_said(context, entries)}"
    call = Call("", "diff", "{}")
    context.screen.print(
        ToolCall(call, title, "low", "ok", "", shown, 0.0, cached=False, task_id=context.focus)
    )
    longest = max(entries, key=lambda entry: entry.seconds)
    leave_out = "" if wanted.everything else f" · {wanted.command} without FILE … keeps files as they are"
    context.screen.print(
        NoteBlock(
            "info",
            f"Nothing is undone yet. The {_deed(longest)} ran for {seconds(longest.seconds)}: files you "
            f"saved meanwhile count as its changes. {wanted.command} yes {entries[-1].id} undoes it"
            f"{leave_out}",
        )
    )


async def _take_back(context: Context, wanted: _Wanted) -> None:
    log, locks, number = context.session.undo, context.session.locks, wanted.task_id
    last = log.entries(number)
    _refuse_strangers(context, wanted, last)
    try:
        undone = await asyncio.to_thread(
            log.undo, locks, number, merging=number is not None, without=wanted.without
        )
    except ToolError as error:
        by_hunks = number is None and last and "after that edit" in str(error)
        hint = f" /undo @{last[-1].task_id} undoes its lines alone." if by_hunks else ""
        raise CommandError(f"{error}{hint}") from error
    named = _named(context, undone, wanted.without)
    _tell_model(context, undone, "/undo", f"I took back {named} with /undo", "before")
    said = f"Undone: {named}. /redo brings it back."
    context.screen.print(NoteBlock("info", said + (NOT_COVERED if undone.effect else "")))


def _refuse_strangers(context: Context, wanted: _Wanted, standing: Sequence[UndoEntry]) -> None:
    """A file to leave out that isn't among the changed ones is a mistake, and the rest is not taken back."""
    for path in wanted.without if standing else ():
        if path not in standing[-1].paths:
            name = visible(os.path.relpath(path, context.boundary.cwd))
            raise CommandError(
                f"{name} is not among the files of that change: {_named(context, standing[-1])}"
            )


@command(family="workspace", usage="[@N]")
async def redo(context: Context, argument: str) -> None:
    """Apply again what /undo took back"""
    number = task_number(context, argument) if argument else None
    await _forget_lost(context)
    log, locks = context.session.undo, context.session.locks
    try:
        redone = await asyncio.to_thread(log.redo, locks, number, merging=number is not None)
    except ToolError as error:
        raise CommandError(str(error)) from error
    named = _named(context, redone)
    _tell_model(context, redone, "/redo", f"I applied again {named} with /redo", "after")
    context.screen.print(NoteBlock("info", f"Redone: {named}."))


def _tell_model(context: Context, entry: UndoEntry, command_: str, heading: str, side: str) -> None:
    """Attach to the next prompt that the person took an edit back or applied it again; the newest word about
    an edit replaces the one before."""
    title = f"your {command_} of {_names(context, entry)}"
    text = f"The files are as they were {side} it."
    context.board.notes.offer(Note(f"undo-{entry.id}", entry.task_id, title, text, heading))


async def _forget_lost(context: Context) -> None:
    for said in await asyncio.to_thread(context.board.workspaces.forget_missing):
        context.screen.print(NoteBlock("warning", said))


def _said(context: Context, entries: Sequence[UndoEntry]) -> str:
    if len(entries) == 1:
        return _named(context, entries[0])
    return f"{len(entries)} changes of task {entries[0].task_id}"


def _named(context: Context, entry: UndoEntry, without: Sequence[str] = ()) -> str:
    by = f"task {entry.task_id}'s {_deed(entry)}{_elsewhere(context, entry)}"
    return f"{_names(context, entry, without)} ({by})"


def _names(context: Context, entry: UndoEntry, without: Sequence[str] = ()) -> str:
    cwd = context.boundary.cwd
    paths = [visible(os.path.relpath(path, cwd)) for path in entry.paths if path not in without]
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    return ", ".join(paths[:MAX_NAMED]) + more


def _deed(entry: UndoEntry) -> str:
    return _DEEDS.get(entry.tool, entry.tool)


def _elsewhere(context: Context, entry: UndoEntry) -> str:
    """Name the tree that was changed when it is not the foreground task's; "" otherwise."""
    here = context.boundary
    for tree in {task.workspace.worktree for task in context.board.tasks.values()}:
        if tree is not None and all(is_beneath(path, tree.path) for path in entry.paths):
            return "" if tree.path == here.root else f", in the worktree {tree.name}"
    is_main = bool(here.main) and all(is_beneath(path, here.main) for path in entry.paths)
    return ", in the main tree" if is_main else ""
