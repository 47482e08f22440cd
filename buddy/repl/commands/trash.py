"""The command that brings back what `delete_file` removed."""

from __future__ import annotations

import asyncio
import os
import time

from buddy.agent.formatting import format_count, format_size
from buddy.agent.tool import ToolError
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.render.numbers import whole_units
from buddy.repl.view.blocks import NoteBlock, TableBlock
from buddy.workspace.undo.trash import Trash

_MAX_LISTED = 50
DAY_S = 24 * 3600.0


@command(family="workspace", usage="[list|last|NAME|ID]", choices=("list", "last"))
async def restore(context: Context, argument: str) -> None:
    """List the deleted files in the trash, or restore one (or the last) to its place"""
    trash = context.board.task(context.focus).services.services.get(Trash)
    if not isinstance(trash, Trash):
        raise CommandError("there is no trash here")
    name = argument.strip()
    if name in ("", "list"):
        await _list(context, trash)
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


async def _list(context: Context, trash: Trash) -> None:
    found = await asyncio.to_thread(trash.list)
    if not found:
        raise CommandError("the trash is empty")
    rows = tuple(
        (
            one.id,
            _display_path(context, one.real),
            f"task {one.task_id}" if one.task_id else "",
            format_size(one.size_bytes),
            _when(one.deleted_at, time.time()),
        )
        for one in found[:_MAX_LISTED]
    )
    context.screen.print(TableBlock(("id", "what", "by", "size", "when"), rows))


def _display_path(context: Context, real: str) -> str:
    return os.path.relpath(real, context.boundary.cwd)


def _when(at: float, now: float) -> str:
    age_s = max(0.0, now - at)
    ago = whole_units(age_s) if age_s < DAY_S else format_count(int(age_s / DAY_S), "day")
    return f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(at))} ({ago} ago)"
