"""A REPL on the terminal this program was started from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO

from prompt_toolkit.completion import Completer
from prompt_toolkit.input.vt100 import Vt100Input, raw_mode

from buddy.repl.app import Repl, Settings
from buddy.repl.ground import GroundQuestion
from buddy.repl.intents import Intent
from buddy.repl.key_parser import KeyParser
from buddy.repl.output import FrameOutput, TerminalWriter, encoded, terminal_size
from buddy.repl.outside import Modes
from buddy.repl.view_state import DeskFacts


class Keyboard(Vt100Input):
    """Keys. The terminal is left as it was before buddy came, which is not how it was when the screen did."""

    def __init__(self, stdin: TextIO, modes: Modes | None) -> None:
        super().__init__(stdin)
        self._modes = modes
        self.vt100_parser = self.parser = KeyParser(lambda key: self._buffer.append(key))

    def raw_mode(self) -> AbstractContextManager[None]:
        """Every key as it is typed."""
        mode = raw_mode(self.fileno())
        if self._modes is not None:
            mode.attrs_before = self._modes
        return mode


def open_repl(
    *,
    settings: Settings,
    desk: Callable[[], DeskFacts],
    act: Callable[[Intent], None],
    log: Callable[[str], None],
    completer: Completer | None = None,
    modes: Modes | None = None,
) -> Repl:
    """The REPL over standard input and output, which both have to be terminals. Nothing is written before it
    runs. `modes`: how the terminal is to be left, None for how it is now."""
    fd = sys.stdout.fileno()
    encoding = sys.stdout.encoding or "ascii"
    terminal = TerminalWriter(fd, lambda: repl.end("gone"))
    output = FrameOutput(
        lambda text: terminal.write(encoded(text, encoding)),
        lambda: terminal_size(fd),
        fd=fd,
        encoding=encoding,
    )
    keyboard = Keyboard(sys.stdin, modes)
    repl = Repl(
        settings=settings,
        terminal=terminal,
        keyboard=keyboard,
        output=output,
        desk=desk,
        act=act,
        log=log,
        completer=completer,
        modes=modes,
    )
    if (look_on := settings.look_on) is not None:
        asked = GroundQuestion(
            lambda text: terminal.write(text.encode()),
            lambda ground: repl.restyle(look_on(ground)),
            inside_tmux="TMUX" in settings.environ,
        )
        keyboard.parser.keys_of = asked.keys_of
        repl.ground = asked
    return repl
