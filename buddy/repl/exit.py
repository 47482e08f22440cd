"""Leaving: signals, crashes, and the restored terminal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal

from buddy.repl.screen.external_programs import Modes, set_terminal_modes
from buddy.repl.screen.output import RESET_MODES, Terminal

Ending = Literal["left", "terminated", "hangup", "gone"]
"""The reason for the end: the user left, SIGTERM or SIGQUIT, SIGHUP, the terminal is gone."""

TWICE_S = 2.0
"""Two Ctrl+C within this time exit when nothing runs."""
CONFIRM_S = 10.0
"""A second Ctrl+D or /quit within this time exits even while something runs."""

PUSH_TITLE = "\x1b[22;2t"
POP_TITLE = "\x1b[23;2t"


NAMED_TASKS = 3
"""Number of running tasks and commands that are named when the user leaves."""


def ask_before_leaving(running: Sequence[str], key: str, within_s: float = CONFIRM_S) -> str:
    """Return the question before leaving while something runs; `key` is what to press or type again in
    time."""
    listed = list(running)
    if len(listed) > NAMED_TASKS:
        listed[NAMED_TASKS:] = [f"{len(listed) - NAMED_TASKS} more"]
    *others, last = listed
    names = f"{', '.join(others)} and {last}" if others else last
    ends = "are running. {} again {} ends them" if others else "is running. {} again {} ends it"
    return f"{names[0].upper()}{names[1:]} {ends.format(key, f'within {within_s:.0f} s')} and exits."


@contextlib.contextmanager
def restore_terminal(
    terminal: Terminal, fd: int, modes: Modes | None, *, title: bool, also: str = ""
) -> Generator[None]:
    """Restore modes, colours, cursor, title and line discipline at the end; write `also` with them."""
    if title:
        terminal.write(PUSH_TITLE.encode())
    try:
        yield
    finally:
        terminal.write((RESET_MODES + also + (POP_TITLE if title else "")).encode())
        set_terminal_modes(fd, modes)


@contextlib.contextmanager
def hold_interrupts(handle: Callable[[], object] = lambda: None) -> Generator[None]:
    """Handle SIGINT as a key while the screen is up (`handle`), else ignore it, so that it can't break the
    cleanup. SIG_IGN would be inherited by child processes."""
    previous = signal.signal(signal.SIGINT, lambda _number, _frame: handle())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextlib.contextmanager
def end_on_signals(
    loop: asyncio.AbstractEventLoop,
    end: Callable[[Ending], None],
    suspend: Callable[[], None] | None,
    repaint: Callable[[], None],
) -> Generator[None]:
    """Let SIGTERM, SIGQUIT and SIGHUP end the screen in order; SIGTSTP suspends like Ctrl+Z (with None it
    only stops the process); SIGCONT repaints after a stop from outside."""
    handlers: list[tuple[signal.Signals, Callable[[], None]]] = [
        (signal.SIGTERM, lambda: end("terminated")),
        (signal.SIGQUIT, lambda: end("terminated")),
        (signal.SIGHUP, lambda: end("hangup")),
        (signal.SIGCONT, repaint),
    ]
    if suspend is not None:
        handlers.append((signal.SIGTSTP, suspend))
    for number, handler in handlers:
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number, _handler in handlers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def end_on_crash(
    loop: asyncio.AbstractEventLoop, crashed: Callable[[BaseException], None]
) -> Generator[None]:
    """End the screen on an error in a key handler or a frame, so that the terminal is restored. Other errors
    go to the previous handler."""
    before = loop.get_exception_handler()

    def handle(inside: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException) and "handle" in context:
            crashed(error)
        elif before is not None:
            before(inside, context)
        else:
            inside.default_exception_handler(context)

    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        loop.set_exception_handler(before)
