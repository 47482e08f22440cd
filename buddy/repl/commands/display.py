"""Commands about the screen."""

from __future__ import annotations

import asyncio

from buddy.repl.blocks import PlainText
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.port import Context


@command(family="screen")
async def clear(context: Context, argument: str) -> None:
    """Empty the screen; the conversation stays"""
    context.stage.clear()


@command(family="screen")
async def redraw(context: Context, argument: str) -> None:
    """Draw the screen again"""
    context.stage.redraw()


@command(family="screen")
async def copy(context: Context, argument: str) -> None:
    """Copy the last answer to the clipboard"""
    answer = context.board.task(context.focus).last_answer()
    if not answer:
        raise CommandError("there is no answer to copy yet")
    context.stage.copy(answer)
    context.stage.hint(f"copied {len(answer)} characters")


@command(family="screen")
async def log(context: Context, argument: str) -> None:
    """Show where the log is and how it ends"""
    path = context.desk.log_path
    if not path:
        raise CommandError("there is no log")
    context.stage.print(PlainText("\n".join([path, *await asyncio.to_thread(_tail, path)])))


def _tail(path: str) -> list[str]:
    with open(path, "rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 4_000))
        return file.read().decode("utf-8", "replace").splitlines()[-20:]


COMMANDS = (clear, redraw, copy, log)
