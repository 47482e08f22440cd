"""Commands about the screen."""

from __future__ import annotations

import os
import re

from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.view.blocks import NoteBlock, PlainText

MAX_COPIED_BYTES = 70_000
"""Terminals and tmux drop longer clipboard sequences (OSC 52), most of them silently."""
THEMES = ("auto", "dark", "light", "plain")
_FENCE = re.compile(r"^ {0,3}```[^\n]*\n(.*?)^ {0,3}```", re.DOTALL | re.MULTILINE)


@command(family="screen")
async def clear(context: Context, argument: str) -> None:
    """Clear the screen; the conversation stays"""
    context.screen.clear()


@command(family="screen")
async def redraw(context: Context, argument: str) -> None:
    """Redraw the screen"""
    context.screen.redraw()


@command(family="screen")
async def more(context: Context, argument: str) -> None:
    """Show the last folded output in full, as Ctrl+O does"""
    context.screen.expand()


@command(family="screen", usage="[code]", choices=("code",), essential=True)
async def copy(context: Context, argument: str) -> None:
    """Copy the last answer to the clipboard, or (code) its last block of code"""
    if argument not in ("", "code"):
        raise CommandError(f"expected /copy or /copy code, found {argument!r}")
    text = context.board.task(context.focus).last_answer()
    if not text:
        raise CommandError("there is no answer to copy yet")
    if argument:
        blocks = _FENCE.findall(text)
        if not blocks:
            raise CommandError("there is no code in the last answer; /copy copies all of it")
        text = blocks[-1]
    if len(text.encode()) > MAX_COPIED_BYTES:
        raise CommandError(
            f"{len(text):,} characters are too many for a terminal's clipboard; /export FILE.md writes them"
        )
    if not context.screen.copy(text):
        raise CommandError("this terminal has no clipboard; /export FILE.md writes a file")
    context.screen.hint(f"sent {len(text):,} characters to the clipboard (some terminals refuse)")


@command(family="screen")
async def editor(context: Context, argument: str) -> None:
    """Write the next prompt in $VISUAL or $EDITOR (Ctrl+G opens it with the current line)"""
    context.screen.edit()


@command(family="screen", usage="[auto|dark|light|plain]", choices=THEMES)
async def theme(context: Context, argument: str) -> None:
    """Choose the colours: for a dark or light background, by the background (auto), or none (plain)"""
    if argument in THEMES:
        context.screen.print(NoteBlock("info", await context.screen.theme(argument)))
        return
    if argument:
        raise CommandError(f"expected {', '.join(THEMES[:-1])} or {THEMES[-1]}, found {argument[:40]!r}")
    context.screen.print(NoteBlock("info", f"{await context.screen.theme('')}; themes: {', '.join(THEMES)}"))


@command(family="screen")
async def log(context: Context, argument: str) -> None:
    """Show the path and the end of the log"""
    path = context.log_path
    if not path:
        raise CommandError("there is no log")
    context.screen.print(PlainText("\n".join([path, *(await _tail(path) or ["(empty)"])])))


async def _tail(path: str) -> list[str]:
    import aiofiles  # imported here: few sessions look at their log

    async with aiofiles.open(path, "rb") as file:
        size = await file.seek(0, os.SEEK_END)
        await file.seek(max(0, size - 4_000))
        return (await file.read()).decode("utf-8", "replace").splitlines()[-20:]
