"""Keys typed before the screen is ready: they wait in the terminal for the input line and are not echoed into
the scrollback.

This module imports almost nothing, so that it runs before the slow imports.
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
def hold_keys(fd: int) -> Generator[list[Any] | None]:
    """Inside, the terminal neither echoes nor edits typed keys; Ctrl-C still interrupts. Yield the previous
    modes, None when they can't be read.

    Every exit, also by a signal, restores the terminal. Interrupts are ignored afterwards: the program is
    leaving, and one would only break that.
    """
    _wait_for_foreground(fd)
    try:
        modes = termios.tcgetattr(fd)
    except termios.error:
        yield None
        return

    def restore() -> None:
        with contextlib.suppress(termios.error):  # a terminal that is gone needs no restoring
            termios.tcsetattr(fd, termios.TCSANOW, modes)

    def handle_end(number: int, _frame: FrameType | None) -> None:
        restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    handlers = {**dict.fromkeys(_ENDS, handle_end), signal.SIGINT: _interrupt_once}
    heard = [number for number in handlers if signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, handlers[number]) for number in heard}
    try:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSANOW, _silence(modes))
        yield modes
    finally:
        signal.signal(signal.SIGINT, _ignore_signal)
        restore()
        for number in _ENDS:
            if number in previous:
                signal.signal(number, previous[number])


def _wait_for_foreground(fd: int) -> None:
    """Stop while this is a background job, as programs that set the terminal do.

    Until the job is in the foreground, the modes are those of the shell's line editor, and restoring them
    later would break the terminal.
    """
    with contextlib.suppress(OSError):  # not this session's terminal: no job control here
        if os.tcgetpgrp(fd) != os.getpgrp():
            os.kill(0, signal.SIGTTOU)


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    """Interrupt once: a second interrupt would break the cleanup of the first."""
    signal.signal(signal.SIGINT, _ignore_signal)
    signal.default_int_handler(number, frame)


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. SIG_IGN would be inherited by child processes."""


def _silence(modes: list[Any]) -> list[Any]:
    r"""Return modes without echo and line editing, with Enter unchanged.

    Ctrl-Z and Ctrl-\ become keys: they would stop or kill the program before anything restores the terminal.
    """
    silent = list(modes)
    silent[_INPUT] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
    silent[_LOCAL] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    silent[_CHARACTERS] = list(modes[_CHARACTERS])
    for key in (termios.VSUSP, termios.VQUIT):
        silent[_CHARACTERS][key] = b"\0"
    silent[_CHARACTERS][termios.VMIN], silent[_CHARACTERS][termios.VTIME] = 1, 0
    return silent
