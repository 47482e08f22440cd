"""Validation and isolation of plug-in tools: captured output and errors, refused imports, an event loop of
their own. A mistake of a tool costs one call."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, TypeVar, cast, get_args

import msgspec

from buddy.agent.display import NOTHING, Display, Plain
from buddy.agent.formatting import keep_ends
from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import Image
from buddy.agent.tool import Access, Category, Risk, Tool, ToolContext, ToolError, ToolResult
from buddy.safety.paths import is_beneath

MAX_RESULT_CHARS = 100_000
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Tool names every provider accepts: with one other name in the list, a provider refuses each request."""
_Told = tuple[str, tuple[str, ...], dict[str, str], float]
_ANYTHING = Access(anything=True)
_log = logging.getLogger(__name__)
T = TypeVar("T")

Run = Callable[[Callable[[], None]], BaseException | None]
"""Runs code that may raise anything or never end; returns what it raised."""


def unfit(tool: Tool) -> str:
    """Return the reason a tool can't be offered, "" when it can."""
    if _NAME().fullmatch(str(tool.name)) is None:
        return (
            f"providers refuse the name {tool.name!r}; expected at most 64 letters (a to z), digits, _ and "
            "-, with a letter first"
        )
    for field, allowed in (("risk", get_args(Risk)), ("category", get_args(Category))):
        if (found := getattr(tool, field)) not in allowed:
            return f"{tool.name}: expected as {field} one of {', '.join(allowed)}, found {found!r}"
    try:
        json.dumps(msgspec.to_builtins(tool.definition()), allow_nan=False)
        msgspec.convert((tool.name, tool.aliases, tool.argument_aliases, tool.cache_s), _Told)
    except (TypeError, ValueError) as error:
        return f"{tool.name}: {error}"
    return ""


def careful(tool: Tool, run: Run) -> Tool:
    """Return the tool, so that what it says of its access and its preview holds up nobody. One that fails to
    say what it touches may touch anything. The commands it starts are confined."""

    def access(arguments: Any) -> Access:
        found, error = _ask(run, lambda: msgspec.convert(msgspec.to_builtins(tool.access(arguments)), Access))
        if error is not None:
            _log.warning("%s does not say what it touches", tool.name, exc_info=error)
        return found or _ANYTHING

    def preview(ctx: ToolContext, arguments: Any) -> Display:
        if tool.preview is None:
            return NOTHING
        theirs = tool.preview
        found, error = _ask(run, lambda: theirs(ctx, arguments))
        if isinstance(error, ToolError):
            raise error
        if error is not None:
            _log.warning("the preview of %s failed", tool.name, exc_info=error)
            return Plain(f"the preview of {tool.name} failed: {type(error).__name__}: {error}")
        return _display(found)

    return msgspec.structs.replace(
        tool, access=access, preview=preview if tool.preview else None, confined=True
    )


def _ask(run: Run, ask: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    held: list[T] = []
    error = run(lambda: held.append(ask()))
    return (held[0] if held and error is None else None), error


def to_result(result: object, printed: str) -> ToolResult:
    """Convert a tool's return value and printed output to a result that can be sent, shown and kept."""
    if not isinstance(result, ToolResult):
        result = ToolResult("the tool returned nothing" if result is None else _text(result))
    text = _text(result.text)
    if printed.strip():
        text = f"{text}\n[printed]\n{printed.rstrip()}".lstrip("\n")
    return ToolResult(
        keep_ends(text, MAX_RESULT_CHARS),
        _display(result.display),
        tuple(one for one in cast(Iterable[object], result.images) if isinstance(one, Image)),
        ok=bool(result.ok),
    )


def _display(found: object) -> Display:
    return cast(Display, found) if isinstance(found, get_args(Display)) else NOTHING


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


ANSWERS_WITHIN_S = 1.0
"""A loop that does not answer within this time counts as blocked."""

Work = Callable[[ToolContext], Awaitable[object]]


class PluginLoop:
    """An event loop in a thread of its own for coroutines of plug-in tools. The thread starts with the
    first."""

    def __init__(self, answers_within_s: float = ANSWERS_WITHIN_S) -> None:
        self._answers_within_s = answers_within_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: dict[object, str] = {}

    async def run(self, name: str, work: Work, ctx: ToolContext) -> object:
        """Return the result of `work` for a call, which runs on the plug-in loop with a context that may be
        used there. Cancelling this cancels it; nothing waits until it has heard of that."""
        here = asyncio.get_running_loop()
        looked_at = self._loop
        blocked = await self._blocking_tools()
        if self._loop is None or (blocked is not None and self._loop is looked_at):  # one new loop for all
            self._loop = _start_loop(f"plug-ins, {name}")
            self._running = {}
        if blocked:
            ctx.progress(f"[{blocked} blocks the event loop of plug-ins; use asyncio.to_thread]\n")
        there, key = self._loop, object()
        running = self._running
        running[key] = name
        cancelled = asyncio.Event()  # one that belongs to that loop; it follows the one that belongs to this
        follow = asyncio.ensure_future(ctx.cancelled.wait())
        follow.add_done_callback(lambda _done: there.call_soon_threadsafe(cancelled.set))
        theirs = msgspec.structs.replace(ctx, cancelled=cancelled, progress=from_thread(here, ctx.progress))
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_run_work(work, theirs), there))
        finally:
            follow.cancel()
            running.pop(key)

    def close(self) -> None:
        """End the loop and its thread. One that is blocked, or has a coroutine that goes on after it was
        cancelled, ends with the program."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(lambda: None if asyncio.all_tasks(loop) else loop.stop())

    async def _blocking_tools(self) -> str | None:
        """Return the tools that run on a loop that does not answer; None when it does, or there is none
        yet."""
        if self._loop is None:
            return None
        answer = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            async with asyncio.timeout(self._answers_within_s):
                await asyncio.wrap_future(answer)
        except TimeoutError:
            if not answer.cancelled():  # it answered: this loop stood still, or the whole machine did
                return None
            return ", ".join(sorted(set(self._running.values())))
        return None


async def _run_work(work: Work, ctx: ToolContext) -> object:
    return await work(ctx)


def from_thread(loop: asyncio.AbstractEventLoop, call: Callable[[str], None]) -> Callable[[str], None]:
    """Return the same function for another thread. A program that is ending hears nothing any more."""

    def forward(text: str) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(call, text)

    return forward


def _start_loop(name: str) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()

    def run(*_args: Any) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    threading.Thread(target=run, name=name, daemon=True).start()
    return loop


IMPORT_LIMIT_S = 10.0
ASKED_LIMIT_S = 2.0
"""Time limit for a plug-in's access and preview: until they are known nothing else goes on."""
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
        """Do nothing: nothing is buffered."""

    def isatty(self) -> bool:
        """Return False: no person looks at it."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.was, name)


@contextmanager
def capture_output(hear: Callable[[str], None]) -> Generator[None]:
    """Pass what is printed meanwhile to `hear`. Calls may overlap and end in any order."""
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

    def run() -> None:
        try:
            work()
        # The border of a plug-in: whatever its code raises, SystemExit and KeyboardInterrupt included, the
        # program goes on without it.
        except BaseException as error:  # noqa: BLE001 - see above
            raised.append(error)

    thread = threading.Thread(target=run, name="plug-ins", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        return TimeoutError(f"it was still running after {limit_s:g} s")
    return raised[0] if raised else None


def contain(tool: Tool, loop: PluginLoop) -> Tool:
    """Return the tool, so that it neither writes to the terminal nor ends the program nor keeps it
    waiting."""

    async def run_safely(arguments: msgspec.Struct, ctx: ToolContext) -> object:
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
        with capture_output(hear):
            result = await loop.run(tool.name, partial(run_safely, arguments), ctx)
        return to_result(result, "".join(printed)[:MAX_PRINTED_CHARS])

    asked = careful(tool, lambda work: run_code(work, ASKED_LIMIT_S))
    return msgspec.structs.replace(asked, run=run)


class ImportGuard:
    """The first finder of `sys.meta_path` once plug-ins were loaded. What the program itself could import
    before stays allowed: buddy may run from a checkout, or from an environment in the workspace."""

    def __init__(self) -> None:
        self._usual = tuple(os.path.realpath(path) for path in sys.path if path)
        self._workspaces: dict[str, str] = {}

    def guard(self, root: str, folder: str) -> None:
        """Watch a workspace whose plug-ins lie in `folder`."""
        self._workspaces[root] = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Leave the import to the other finders. Raises `ImportError` for a module that may not be loaded."""
        if not any(self._is_added(place) for place in (sys.path if path is None else path)):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        for found in (spec.origin or "", *(spec.submodule_search_locations or ())):
            if found and self._is_added(found):
                raise ImportError(
                    f"{found} lies in the workspace outside .buddyx/ext, where it can change without a "
                    "question: put it into .buddyx/ext, or install it",
                    name=name,
                    path=found,
                )
        return None

    def _is_added(self, path: str) -> bool:
        """Tell whether a place is in a workspace, outside of its plug-ins, and was not on the path before."""
        real = os.path.realpath(path or os.curdir)
        if any(is_beneath(real, usual) for usual in self._usual):
            return False
        return any(
            is_beneath(real, root) and not is_beneath(real, folder)
            for root, folder in self._workspaces.items()
        )


def guard_imports(root: str, folder: str) -> None:
    """Refuse imports from a workspace outside the folder of its plug-ins, from now on."""
    guard = next((finder for finder in sys.meta_path if isinstance(finder, ImportGuard)), None)
    if guard is None:
        guard = ImportGuard()
        sys.meta_path.insert(0, guard)
    guard.guard(root, folder)
