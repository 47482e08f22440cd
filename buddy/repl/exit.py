"""Every way out: signals, crashes, and a terminal that is as it was before."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal

from buddy.repl.screen.external_programs import Modes, set_terminal_modes
from buddy.repl.screen.output import RESET_MODES, Terminal

Ending = Literal["left", "terminated", "hangup", "gone"]
"""Why the screen ended: the person left, SIGTERM or SIGQUIT, SIGHUP, the terminal went away."""

TWICE_S = 2.0
"""Two Ctrl+C within this time exit, where nothing runs."""
CONFIRM_S = 10.0
"""A second Ctrl+D or /quit within this time exits, whatever runs."""

PUSH_TITLE = "\x1b[22;2t"
POP_TITLE = "\x1b[23;2t"


NAMED_TASKS = 3
"""As many running tasks and commands are named when the person leaves."""


def leaving_ends(running: Sequence[str], key: str) -> str:
    """The question before leaving while something runs; `key` is what to press or type again."""
    named = list(running)
    if len(named) > NAMED_TASKS:
        named[NAMED_TASKS:] = [f"{len(named) - NAMED_TASKS} more"]
    *others, last = named
    names = f"{', '.join(others)} and {last}" if others else last
    ends = "are running. {} again ends them" if others else "is running. {} again ends it"
    return f"{names[0].upper()}{names[1:]} {ends.format(key)} and exits."


@contextlib.contextmanager
def terminal_restored(
    terminal: Terminal, fd: int, modes: Modes | None, *, title: bool, also: str = ""
) -> Generator[None]:
    """Modes, colours, cursor, title and line discipline are put back, whatever happens inside; `also` is
    written with them."""
    if title:
        terminal.write(PUSH_TITLE.encode())
    try:
        yield
    finally:
        terminal.write((RESET_MODES + also + (POP_TITLE if title else "")).encode())
        set_terminal_modes(fd, modes)


@contextlib.contextmanager
def interrupts_held(heard: Callable[[], object] = lambda: None) -> Generator[None]:
    """An interrupt is a key while the screen is up (`heard`), and nothing while it is put away: it must not
    break the way out. A handler rather than SIG_IGN, because children would inherit that."""
    previous = signal.signal(signal.SIGINT, lambda _number, _frame: heard())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextlib.contextmanager
def signals_end(
    loop: asyncio.AbstractEventLoop,
    end: Callable[[Ending], None],
    suspend: Callable[[], None] | None,
    continued: Callable[[], None],
) -> Generator[None]:
    """SIGTERM, SIGQUIT and SIGHUP leave through the front door; SIGTSTP suspends as Ctrl+Z does (None: it
    just stops the process); after a stop nobody announced, SIGCONT repaints."""
    handlers: list[tuple[signal.Signals, Callable[[], None]]] = [
        (signal.SIGTERM, lambda: end("terminated")),
        (signal.SIGQUIT, lambda: end("terminated")),
        (signal.SIGHUP, lambda: end("hangup")),
        (signal.SIGCONT, continued),
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
def crashes_end(loop: asyncio.AbstractEventLoop, crashed: Callable[[BaseException], None]) -> Generator[None]:
    """An error in a key handler or a frame ends the screen, so that the terminal is restored; the loop's own
    handler gets everything else."""
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
