"""The REPL on the terminal this program was started from."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TextIO

from prompt_toolkit.completion import Completer
from prompt_toolkit.input.vt100 import Vt100Input, raw_mode
from prompt_toolkit.key_binding.key_processor import KeyPress

from buddy.repl.app import AppSettings, Repl
from buddy.repl.input.bursts import FAR_QUIET_S, QUIET_S
from buddy.repl.input.keys import KeyParser, is_far
from buddy.repl.intents import Intent
from buddy.repl.screen.background import GroundQuestion
from buddy.repl.screen.external_programs import Modes
from buddy.repl.screen.graphics import GraphicsQuestion
from buddy.repl.screen.output import FrameOutput, TerminalWriter, encode, terminal_size
from buddy.repl.screen.screen import Countdown
from buddy.repl.view.state import SessionFacts

READ_BYTES = 65536
_UNBRACKETED = ("linux", "vt", "ansi", "cons", "sun", "screen")
"""Beginnings of TERM for terminals that do not bracket pastes; inside tmux, `screen` is tmux."""


def brackets_pastes(environ: Mapping[str, str]) -> bool:
    """Tell whether this terminal brackets pastes."""
    if environ.get("TMUX"):
        return True
    return not environ.get("STY") and not environ.get("TERM", "").startswith(_UNBRACKETED)


class Keyboard(Vt100Input):
    """The keyboard. It restores the terminal modes from before buddy, not those from before the screen. Input
    the parser holds back is delivered after a quiet moment."""

    def __init__(self, stdin: TextIO, modes: Modes | None, environ: Mapping[str, str]) -> None:
        super().__init__(stdin)
        self._modes = modes
        self.parser = KeyParser(lambda key: self._buffer.append(key), brackets=brackets_pastes(environ))
        self.vt100_parser = self.parser
        self._quiet_s = FAR_QUIET_S if is_far(environ) else QUIET_S
        self._ready: Callable[[], None] = lambda: None
        self._quiet = Countdown(lambda: self._ready())
        self._is_away = False

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        """Start reading keys."""
        self._ready = input_ready_callback
        return super().attach(input_ready_callback)

    @contextmanager
    def detach(self) -> Generator[None]:
        """Leave the keys to another program."""
        self._quiet.stop()
        self._is_away = True
        try:
            with super().detach():
                yield
        finally:
            self._is_away = False

    def read_keys(self) -> list[KeyPress]:
        """Read what has arrived; nothing when the countdown is over."""
        data = self.stdin_reader.read(READ_BYTES)
        if data:
            self.parser.feed(data)
        elif not self._quiet.is_on:
            self.parser.quiet()
        if self.parser.is_waiting and not self._is_away:
            self._quiet.start(asyncio.get_running_loop(), self._quiet_s)
        pressed, self._buffer = self._buffer, []
        return pressed

    def raw_mode(self) -> AbstractContextManager[None]:
        """Deliver every key as it is typed."""
        mode = raw_mode(self.fileno())
        if self._modes is not None:
            mode.attrs_before = self._modes
        return mode


def open_repl(
    *,
    settings: AppSettings,
    facts: Callable[[], SessionFacts],
    act: Callable[[Intent], None],
    log: Callable[[str], None],
    completer: Completer | None = None,
    modes: Modes | None = None,
) -> Repl:
    """Return the REPL on standard input and output, which must be terminals. Nothing is written before it
    runs. `modes` are the modes to restore, None for the current ones."""
    fd = sys.stdout.fileno()
    encoding = sys.stdout.encoding or "ascii"
    terminal = TerminalWriter(fd, lambda: repl.end("gone"))
    output = FrameOutput(
        lambda text: terminal.write(encode(text, encoding)),
        lambda: terminal_size(fd),
        fd=fd,
        encoding=encoding,
    )
    keyboard = Keyboard(sys.stdin, modes, settings.environ)
    graphics = None
    if settings.may_ask_for_graphics:
        graphics = GraphicsQuestion(lambda text: terminal.write(text.encode()), settings.pictures)
        keyboard.parser.keys_of = graphics.keys_of
    repl = Repl(
        settings=settings,
        terminal=terminal,
        keyboard=keyboard,
        output=output,
        facts=facts,
        act=act,
        log=log,
        completer=completer,
        modes=modes,
        graphics=graphics,
    )
    if (look_on := settings.look_on) is not None:
        ground_query = GroundQuestion(
            lambda text: terminal.write(text.encode()),
            lambda ground: repl.restyle(look_on(ground)),
            inside_tmux="TMUX" in settings.environ,
        )
        keyboard.parser.keys_of = _both(ground_query.keys_of, keyboard.parser.keys_of)
        repl.ground = ground_query
    return repl


def _both(first: Callable[[str], str], second: Callable[[str], str]) -> Callable[[str], str]:
    """Return the input without the answers that each takes out."""
    return lambda data: second(first(data))
