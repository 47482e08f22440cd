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
    """List what was deleted and is in the trash; put one thing (or the last) back where it was"""
    trash = context.board.task(context.focus).services.services.get(Trash)
    if not isinstance(trash, Trash):
        raise CommandError("there is no trash here")
    wanted = argument.strip()
    if wanted in ("", "list"):
        await _listed(context, trash)
        return
    which = "" if wanted == "last" else wanted
    if "/" in which:
        which = os.path.normpath(os.path.join(context.boundary.cwd, which))
    try:
        found = await asyncio.to_thread(trash.restore, which)
    except ToolError as error:
        raise CommandError(f"{error}; /restore lists what is there") from error
    except OSError as error:
        raise CommandError(f"could not put it back: {error.strerror or error}") from error
    context.board.parts.cache.clear()
    context.screen.print(NoteBlock("info", f"put back: {_shown(context, found.real)}"))


async def _listed(context: Context, trash: Trash) -> None:
    found = await asyncio.to_thread(trash.list)
    if not found:
        raise CommandError("the trash is empty")
    rows = tuple(
        (
            one.id,
            _shown(context, one.real),
            f"task {one.task_id}" if one.task_id else "",
            format_size(one.size_bytes),
            _when(one.deleted_at, time.time()),
        )
        for one in found[:_MAX_LISTED]
    )
    context.screen.print(TableBlock(("id", "what", "by", "size", "when"), rows))


def _shown(context: Context, real: str) -> str:
    return os.path.relpath(real, context.boundary.cwd)


def _when(at: float, now: float) -> str:
    age_s = max(0.0, now - at)
    ago = whole_units(age_s) if age_s < DAY_S else format_count(int(age_s / DAY_S), "day")
    return f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(at))} ({ago} ago)"
