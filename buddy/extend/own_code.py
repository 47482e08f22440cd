"""Running code that people added: what it prints is caught, and whatever it raises ends only itself."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from buddy.agent.tool import Tool, ToolContext, ToolResult
from buddy.extend.own_fitness import answered, careful
from buddy.extend.own_loop import OwnLoop, from_thread

IMPORT_LIMIT_S = 10.0
ASKED_LIMIT_S = 2.0
"""For what a call would touch and look like: until that is known nothing else goes on."""
MAX_PRINTED_CHARS = 8_000


class PluginOutput:
    """Stands for `sys.stdout` and `sys.stderr` while people's code runs: text goes to whoever called last,
    everything else (`buffer`, `fileno`) to what stood there."""

    def __init__(self, was: Any, hear: Callable[[str], None]) -> None:
        self.was = was
        self.ended = False
        self._hear = hear

    def write(self, text: str) -> int:
        """Take what is printed."""
        if self.ended:
            return self.was.write(text)
        self._hear(text)
        return len(text)

    def flush(self) -> None:
        """Nothing waits here."""

    def isatty(self) -> bool:
        """Nobody looks at it."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.was, name)


@contextmanager
def caught(hear: Callable[[str], None]) -> Generator[None]:
    """Give what is printed meanwhile to `hear`. Calls may overlap and end in any order."""
    mine = {name: PluginOutput(getattr(sys, name), hear) for name in ("stdout", "stderr")}
    for name, stand_in in mine.items():
        setattr(sys, name, stand_in)
    try:
        yield
    finally:
        for name, stand_in in mine.items():
            stand_in.ended = True
            _put_back(name)


def _put_back(name: str) -> None:
    """Take away those that have ended, from the last one on."""
    now = getattr(sys, name)
    while isinstance(now, PluginOutput) and now.ended:
        now = now.was
    setattr(sys, name, now)


def run_code(work: Callable[[], None], limit_s: float = IMPORT_LIMIT_S) -> BaseException | None:
    """Run code to its end in a thread of its own; what it raised, a `TimeoutError` when it does not end. Then
    it is left behind: a thread can't be stopped, but it doesn't keep the program from ending."""
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        # An extension's border: whatever its code raises, SystemExit and KeyboardInterrupt included, the
        # program goes on without it.
        except BaseException as error:  # noqa: BLE001 - see above
            raised.append(error)

    thread = threading.Thread(target=guarded, name="own tools", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        return TimeoutError(f"it was still running after {limit_s:g} s")
    return raised[0] if raised else None


def contained(tool: Tool, loop: OwnLoop) -> Tool:
    """The tool, so that it neither writes to the terminal nor ends the program nor keeps it waiting."""

    async def guarded(arguments: msgspec.Struct, ctx: ToolContext) -> object:
        try:
            return await tool.run(ctx, arguments)
        except (Exception, asyncio.CancelledError):
            raise
        except BaseException as error:
            # SystemExit or KeyboardInterrupt inside an event loop would end it, or the whole program.
            raise RuntimeError(f"the tool raised {type(error).__name__}: {error}") from error

    async def run(ctx: ToolContext, arguments: msgspec.Struct) -> ToolResult:
        printed: list[str] = []

        def hear(text: str) -> None:
            if sum(map(len, printed)) < MAX_PRINTED_CHARS:
                printed.append(text)
            show(text)

        show = from_thread(asyncio.get_running_loop(), ctx.progress)
        with caught(hear):
            result = await loop.run(tool.name, partial(guarded, arguments), ctx)
        return answered(result, "".join(printed)[:MAX_PRINTED_CHARS])

    asked = careful(tool, lambda work: run_code(work, ASKED_LIMIT_S))
    return msgspec.structs.replace(asked, run=run)
