"""Commands that undo and redo changes of files, and bring back what `delete_file` removed.

A command's change is everything that changed while it ran, and the user may have saved a file meanwhile. So
the change of a long command is shown before it is undone, and files can be left out.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import time
from collections.abc import Sequence

import msgspec

from buddy.agent.display import Diff
from buddy.agent.formatting import format_count, format_size, name_first, whole_number
from buddy.agent.messages import Call
from buddy.agent.tool import ToolError
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.commands.tasks import task_id_of
from buddy.repl.context import Context
from buddy.repl.render.numbers import seconds, whole_units
from buddy.repl.view.blocks import NoteBlock, TableBlock, ToolCall
from buddy.safety.paths import is_beneath
from buddy.safety.sanitise import visible
from buddy.sessions.records import Note
from buddy.tools.files.task_diff import diff_of
from buddy.workspace.undo.entries import ChangedSinceError
from buddy.workspace.undo.log import UndoEntry, UndoLog
from buddy.workspace.undo.trash import Trash

SHOWN_FIRST_S = 3.0
"""Changes of a command that ran longer are shown first; nobody saves a file during a shorter one."""
MAX_NAMED = 8
_MAX_LISTED = 50
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")
DAY_S = 24 * 3600.0
NOT_COVERED = " Files git ignores are not covered."


class UndoSelection(msgspec.Struct, frozen=True):
    """The parameters of `/undo`: the task (None: any), whether to undo all its changes, the id of the change
    that was shown (0: none), and the files to leave out."""

    task_id: int | None
    everything: bool
    shown: int
    without: tuple[str, ...]

    @property
    def command(self) -> str:
        """Return the command as typed, as far as it selects the change."""
        return "/undo" + (f" @{self.task_id}" if self.task_id else "") + (" all" if self.everything else "")


@command(
    family="workspace", usage="[list] [@N [all]] [yes ID|without FILE…]", choices=("list",), essential=True
)
async def undo(context: Context, argument: str) -> None:
    """Undo the last change (of a task: /undo @3, all of it: /undo @3 all) or list them; your edits stay"""
    if argument.split()[:1] == ["list"]:
        await _list_changes(context, argument.partition("list")[2].strip())
        return
    selection = _parse_selection(context, argument)
    await _forget_lost(context)
    entries = await asyncio.to_thread(log_of(context, selection.task_id).entries, selection.task_id)
    last = entries if selection.everything else entries[-1:]
    if selection.shown and entries and entries[-1].id != selection.shown:
        raise CommandError(
            f"the last change is a different one now: {_describe(context, entries[-1])}. Nothing was undone; "
            f"{selection.command} shows it"
        )
    if not (selection.shown or selection.without) and any(entry.seconds >= SHOWN_FIRST_S for entry in last):
        await _offer(context, selection, last)
        return
    await _take_back(context, selection)
    while selection.everything and log_of(context, selection.task_id).entries(selection.task_id):
        await _take_back(context, selection)


async def _list_changes(context: Context, argument: str) -> None:
    """Print the changes that can be undone, the last first, with what tells two of one file apart."""
    task_id = task_id_of(context, argument) if argument else None
    await _forget_lost(context)
    log = log_of(context, task_id)
    cwd = context.boundary.cwd

    def read() -> tuple[tuple[UndoEntry, Diff], ...]:
        last = log.entries(task_id)[: -_MAX_LISTED - 1 : -1]
        return tuple((entry, diff_of(log, (entry,), cwd)) for entry in last)

    listed = await asyncio.to_thread(read)
    if not listed:
        raise CommandError("there is nothing to undo")
    rows = tuple(
        (
            str(entry.id),
            f"task {entry.task_id}",
            _kind_of_change(context, entry),
            f"+{sum(file.added for file in diff.files)} −{sum(file.removed for file in diff.files)}",
            ", ".join(_changed_lines(diff)),
            _names(context, entry),
        )
        for entry, diff in listed
    )
    context.screen.print(TableBlock(("id", "by", "what", "±", "at line", "files"), rows))
    context.screen.hint("/undo undoes the first; undoing it again goes on with the next")


def _changed_lines(diff: Diff) -> list[str]:
    """Return the first changed line of each hunk of a single file."""
    if len(diff.files) != 1:
        return []
    numbers: list[str] = []
    at = 0  # 0: the hunk's first change is known
    for line in diff.files[0].diff.splitlines():
        if header := _HUNK.match(line):
            at = int(header[1])
        elif at and line[:1] in ("+", "-"):
            numbers.append(str(at))
            at = 0
        elif at:
            at += 1
    return numbers[:MAX_NAMED]


def _parse_selection(context: Context, argument: str) -> UndoSelection:
    words = argument.split()
    task_id = task_id_of(context, words.pop(0)) if words and words[0].startswith("@") else None
    everything = words[:1] == ["all"] and task_id is not None
    words = words[1:] if everything else words
    if words[:1] == ["without"] and len(words) > 1 and not everything:
        return UndoSelection(task_id, False, 0, _files(context, argument.partition("without")[2]))
    shown = whole_number(words[1]) if len(words) == 2 and words[0] == "yes" else None
    if words and words != ["yes"] and shown is None:
        raise CommandError(
            "expected /undo [@N [all]], /undo list [@N], /undo [@N [all]] yes ID or "
            f"/undo [@N] without FILE…, found {argument!r}"
        )
    return UndoSelection(task_id, everything, shown or 0, ())


def _files(context: Context, text: str) -> tuple[str, ...]:
    try:
        names = shlex.split(text)
    except ValueError as error:
        raise CommandError(f"the file names can't be parsed: {error}") from error
    cwd = context.boundary.cwd
    return tuple(os.path.normpath(os.path.join(cwd, name)) for name in names)


def log_of(context: Context, task_id: int | None) -> UndoLog:
    """Return the undo log of the machine that a task works on; of the foreground task for None. Raises
    `CommandError`."""
    try:
        return context.session.undo_of(task_id or context.focus)
    except ToolError as error:
        raise CommandError(str(error)) from error


async def _offer(context: Context, selection: UndoSelection, entries: Sequence[UndoEntry]) -> None:
    """Show what would be undone, without doing it."""
    cwd = context.boundary.cwd
    machine = context.board.task(selection.task_id or context.focus).workspace.files_on
    diff = await asyncio.to_thread(diff_of, log_of(context, selection.task_id), entries, cwd, machine)
    title = f"To undo: {_describe_all(context, entries)}"
    call = Call("", "diff", "{}")
    context.screen.print(
        ToolCall(call, title, "low", "ok", "", diff, 0.0, cached=False, task_id=context.focus)
    )
    longest = max(entries, key=lambda entry: entry.seconds)
    leave_out = (
        "" if selection.everything else f" · {selection.command} without FILE … leaves files unchanged"
    )
    context.screen.print(
        NoteBlock(
            "info",
            f"Nothing is undone yet. The {_kind_of_change(context, longest)} ran for "
            f"{seconds(longest.seconds)}: files you "
            f"saved meanwhile count as its changes. {selection.command} yes {entries[-1].id} undoes it"
            f"{leave_out}",
        )
    )


async def _take_back(context: Context, selection: UndoSelection) -> None:
    log, locks, task_id = log_of(context, selection.task_id), context.session.locks, selection.task_id
    last = log.entries(task_id)
    _check_left_out(context, selection, last)
    try:
        undone = await asyncio.to_thread(
            log.undo, locks, task_id, merging=task_id is not None, without=selection.without
        )
    except ToolError as error:
        by_hunks = task_id is None and last and isinstance(error, ChangedSinceError)
        hint = f" /undo @{last[-1].task_id} undoes its lines alone." if by_hunks else ""
        raise CommandError(f"{error}{hint}") from error
    description = _describe(context, undone, selection.without)
    _tell_model(context, undone, "/undo", f"I took back {description} with /undo", "before")
    sentence = f"Undone: {description}. /redo brings it back."
    context.screen.print(NoteBlock("info", sentence + (NOT_COVERED if undone.effect else "")))


def _check_left_out(context: Context, wanted: UndoSelection, standing: Sequence[UndoEntry]) -> None:
    """Refuse a file to leave out that is not part of the change; nothing is undone then."""
    for path in wanted.without if standing else ():
        if path not in standing[-1].paths:
            name = visible(os.path.relpath(path, context.boundary.cwd))
            raise CommandError(
                f"{name} is not among the files of that change: {_describe(context, standing[-1])}"
            )


@command(family="workspace", usage="[@N]")
async def redo(context: Context, argument: str) -> None:
    """Redo what /undo undid"""
    task_id = task_id_of(context, argument) if argument else None
    await _forget_lost(context)
    log, locks = log_of(context, task_id), context.session.locks
    try:
        entry = await asyncio.to_thread(log.redo, locks, task_id, merging=task_id is not None)
    except ToolError as error:
        raise CommandError(str(error)) from error
    description = _describe(context, entry)
    _tell_model(context, entry, "/redo", f"I applied again {description} with /redo", "after")
    context.screen.print(NoteBlock("info", f"Redone: {description}."))


def _tell_model(context: Context, entry: UndoEntry, command_: str, heading: str, side: str) -> None:
    """Attach a note about the undo or redo to the next prompt; it replaces an earlier note about the same
    change."""
    title = f"your {command_} of {_names(context, entry)}"
    text = f"The files are as they were {side} it."
    context.board.notes.offer(Note(f"undo-{entry.id}", entry.task_id, title, text, heading))


async def _forget_lost(context: Context) -> None:
    for said in await asyncio.to_thread(context.board.workspaces.forget_missing):
        context.screen.print(NoteBlock("warning", said))


def _describe_all(context: Context, entries: Sequence[UndoEntry]) -> str:
    if len(entries) == 1:
        return _describe(context, entries[0])
    return f"{len(entries)} changes of task {entries[0].task_id}"


def _describe(context: Context, entry: UndoEntry, without: Sequence[str] = ()) -> str:
    by = f"task {entry.task_id}'s {_kind_of_change(context, entry)}{_elsewhere(context, entry)}"
    return f"{_names(context, entry, without)} ({by})"


def _names(context: Context, entry: UndoEntry, without: Sequence[str] = ()) -> str:
    cwd = context.boundary.cwd
    task = context.board.tasks.get(entry.task_id)
    target = task.workspace.files_on if task is not None else ""
    paths = [
        visible(f"{target}:{path}" if target else os.path.relpath(path, cwd))
        for path in entry.paths
        if path not in without
    ]
    return name_first(paths, MAX_NAMED)


def _kind_of_change(context: Context, entry: UndoEntry) -> str:
    """Return the name of a tool's changes; the tool's own where it has none."""
    tool = context.board.parts.tools.get(entry.tool)
    return (tool.change_name if tool is not None else "") or entry.tool


def _elsewhere(context: Context, entry: UndoEntry) -> str:
    """Name the changed tree unless it is the foreground task's."""
    here = context.boundary
    for tree in {task.workspace.worktree for task in context.board.tasks.values()}:
        if tree is not None and all(is_beneath(path, tree.path) for path in entry.paths):
            return "" if tree.path == here.root else f", in the worktree {tree.name}"
    is_main = bool(here.main) and all(is_beneath(path, here.main) for path in entry.paths)
    return ", in the main tree" if is_main else ""


@command(family="workspace", usage="[list|last|NAME|ID]", choices=("list", "last"))
async def restore(context: Context, argument: str) -> None:
    """List the deleted files in the trash, or restore one (or the last) to its place"""
    trash = context.session.trash
    name = argument.strip()
    if name in ("", "list"):
        await _list_trash(context, trash)
        return
    reference = "" if name == "last" else name
    if "/" in reference:
        reference = os.path.normpath(os.path.join(context.boundary.cwd, reference))
    try:
        deletion = await asyncio.to_thread(trash.restore, reference)
    except ToolError as error:
        raise CommandError(f"{error}; /restore lists what is there") from error
    except OSError as error:
        raise CommandError(f"could not restore it: {error.strerror or error}") from error
    context.board.parts.cache.clear()
    context.screen.print(NoteBlock("info", f"restored: {_display_path(context, deletion.real)}"))


async def _list_trash(context: Context, trash: Trash) -> None:
    found = await asyncio.to_thread(trash.list)
    if not found:
        raise CommandError("the trash is empty")
    rows = tuple(
        (
            one.id,
            _display_path(context, one.real),
            f"task {one.task_id}" if one.task_id else "",
            format_size(one.size_bytes),
            _age(one.deleted_at, time.time()),
        )
        for one in found[:_MAX_LISTED]
    )
    context.screen.print(TableBlock(("id", "what", "by", "size", "when"), rows))


def _display_path(context: Context, real: str) -> str:
    return os.path.relpath(real, context.boundary.cwd)


def _age(at: float, now: float) -> str:
    age_s = max(0.0, now - at)
    ago = whole_units(age_s) if age_s < DAY_S else format_count(int(age_s / DAY_S), "day")
    return f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(at))} ({ago} ago)"
