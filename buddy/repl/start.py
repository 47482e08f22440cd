"""A REPL on the terminal this program was started from."""

from __future__ import annotations

import sys
from collections.abc import Callable

from prompt_toolkit.completion import Completer
from prompt_toolkit.input.vt100 import Vt100Input

from buddy.repl.app import Repl, Settings
from buddy.repl.intents import Intent
from buddy.repl.output import FrameOutput, TerminalWriter, terminal_size
from buddy.repl.view_state import DeskFacts


def open_repl(
    *,
    settings: Settings,
    desk: Callable[[], DeskFacts],
    act: Callable[[Intent], None],
    log: Callable[[str], None],
    completer: Completer | None = None,
) -> Repl:
    """The REPL over standard input and output, which both have to be terminals. Nothing is written before it
    runs."""
    fd = sys.stdout.fileno()
    encoding = sys.stdout.encoding or "ascii"
    terminal = TerminalWriter(fd, lambda: repl.end("gone"))
    output = FrameOutput(
        lambda text: terminal.write(text.encode(encoding, "replace")),
        lambda: terminal_size(fd),
        fd=fd,
        encoding=encoding,
    )
    repl = Repl(
        settings=settings,
        terminal=terminal,
        keyboard=Vt100Input(sys.stdin),
        output=output,
        desk=desk,
        act=act,
        log=log,
        completer=completer,
    )
    return repl
