"""Keys typed before the screen is there: they wait in the terminal, for the input line, and are not echoed
into the scrollback meanwhile.

Imports next to nothing: it is to be there before everything that takes time is imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import termios
from collections.abc import Generator
from types import FrameType
from typing import Any

_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_INPUT, _LOCAL, _CHARACTERS = 0, 3, 6


@contextlib.contextmanager
def keys_wait(fd: int) -> Generator[list[Any] | None]:
    """Inside, the terminal neither echoes nor edits what is typed; Ctrl-C interrupts as ever. Whatever ends
    this, signals included, puts the terminal back. Yields how it was, None where it can't be had.

    Afterwards the program leaves, and a further interrupt would only break that: none is heard."""
    _wait_for_the_terminal(fd)
    try:
        modes = termios.tcgetattr(fd)
    except termios.error:
        yield None
        return

    def put_back() -> None:
        with contextlib.suppress(termios.error):  # a terminal that is gone needs nothing
            termios.tcsetattr(fd, termios.TCSANOW, modes)

    def ended(number: int, _frame: FrameType | None) -> None:
        put_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    handlers = {**dict.fromkeys(_ENDS, ended), signal.SIGINT: _interrupted}
    heard = [number for number in handlers if signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, handlers[number]) for number in heard}
    try:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSANOW, _silent(modes))
        yield modes
    finally:
        signal.signal(signal.SIGINT, _ignored)
        put_back()
        for number in _ENDS:
            if number in previous:
                signal.signal(number, previous[number])


def _wait_for_the_terminal(fd: int) -> None:
    """A job of the background stops here, as any that sets the terminal does. What the terminal is set to
    before it comes to the front is the shell's line editing: it would be what is put back."""
    with contextlib.suppress(OSError):  # not the terminal of this session: nobody else's job has it
        if os.tcgetpgrp(fd) != os.getpgrp():
            os.kill(0, signal.SIGTTOU)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Interrupt once: a second one would break what the first one has to put back."""
    signal.signal(signal.SIGINT, _ignored)
    signal.default_int_handler(number, frame)


def _ignored(_number: int, _frame: FrameType | None) -> None:
    """Nothing. A handler rather than SIG_IGN, because children would inherit that."""


def _silent(modes: list[Any]) -> list[Any]:
    """No echo, no line editing, Enter stays Enter. Ctrl-Z and Ctrl-\\ are keys: nobody would put the terminal
    back for a program that is stopped, or dead of them."""
    silent = list(modes)
    silent[_INPUT] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
    silent[_LOCAL] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    silent[_CHARACTERS] = list(modes[_CHARACTERS])
    for key in (termios.VSUSP, termios.VQUIT):
        silent[_CHARACTERS][key] = b"\0"
    silent[_CHARACTERS][termios.VMIN], silent[_CHARACTERS][termios.VTIME] = 1, 0
    return silent
