"""Handing the terminal over: to the shell on Ctrl+Z, to the person's editor on Ctrl+G."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import tempfile
import termios
from collections.abc import Mapping
from typing import Any

from buddy.repl.screen.screen import Screen

Modes = list[Any]
"""What `termios.tcgetattr` gives."""


def terminal_modes(fd: int) -> Modes | None:
    """Return the line discipline's settings, None where there is no terminal."""
    try:
        return termios.tcgetattr(fd)
    except termios.error:
        return None


def set_terminal_modes(fd: int, modes: Modes | None) -> None:
    """Put settings back; a terminal that is gone needs none."""
    if modes is not None:
        try:
            termios.tcsetattr(fd, termios.TCSANOW, modes)
        except termios.error:
            return


async def suspend(screen: Screen, fd: int, modes: Modes | None) -> None:
    """Stop the whole process group as the shell expects it, with the terminal as it was before we came."""
    async with screen.lent():
        set_terminal_modes(fd, modes)
        previous = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            os.kill(0, signal.SIGTSTP)
        finally:
            signal.signal(signal.SIGTSTP, previous)
    screen.repair()


async def edit(
    screen: Screen, text: str, environ: Mapping[str, str], terminal: tuple[int, Modes | None]
) -> str | None:
    """Return the text as the person's editor left it; None when there is no editor, it failed, or there is no
    file for it or from it. `terminal`: its descriptor, and the settings the editor finds."""
    try:
        command = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "") or ["vi"]
        path = _write_draft(text)
    except (OSError, ValueError):  # no room for a file; quotes of the command that do not close
        return None
    try:
        async with screen.lent():
            set_terminal_modes(*terminal)
            code = await _run([*command, path], without_keys(environ))
        if code != 0:
            screen.repair()  # what it said last may stand in the row of the prompt
            return None
        return _read(path)
    finally:
        with contextlib.suppress(OSError):  # the editor may have removed it
            os.unlink(path)


def without_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the person's editor: all of theirs but keys and passwords."""
    from buddy.workspace.processes.environment import SECRET_NAME  # here: most runs open no editor

    return {name: value for name, value in environ.items() if not SECRET_NAME().search(name)}


def _write_draft(text: str) -> str:
    fd, path = tempfile.mkstemp(prefix="buddy-", suffix=".md")
    try:
        with open(fd, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError:
        os.unlink(path)
        raise
    return path


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return None


async def _run(argv: list[str], environ: Mapping[str, str]) -> int:
    try:
        process = await asyncio.create_subprocess_exec(*argv, stdin=0, stdout=1, stderr=2, env=environ)
    except (OSError, ValueError):
        return 127
    return await process.wait()
