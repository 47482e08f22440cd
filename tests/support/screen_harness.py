"""A whole REPL in process: real keys through a pipe, real bytes into a screen model."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable

import pyte
from prompt_toolkit.completion import Completer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input

from buddy.agent.events import TaskEvent
from buddy.repl.app import AppSettings, Repl
from buddy.repl.intents import Intent
from buddy.repl.render.style import UNICODE, Look
from buddy.repl.screen.output import FrameOutput
from buddy.repl.screen.terminal_status import Notifications
from buddy.repl.view.state import NO_SESSION, SessionFacts
from tests.support.screen_text import ScreenText

DEADLINE_S = 50.0


class FakeTerminal:
    """A terminal in memory: takes everything at once, until it is told to stall or to hang up."""

    def __init__(self, columns: int, rows: int) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=2000, ratio=0.5)
        self._text = ScreenText(self.screen)
        self.written: list[bytes] = []
        self.is_stalled = False
        self.gone = False

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self._text.feed(data)

    def attach(self, loop: asyncio.AbstractEventLoop, on_drained: Callable[[], None]) -> None:
        self.on_drained = on_drained

    def close(self) -> None:
        self.gone = True

    def size(self) -> Size:
        return Size(rows=self.screen.lines, columns=self.screen.columns)

    def rows(self) -> list[str]:
        """The screen, without blank lines at its end."""
        return self._text.rows()

    def everything(self) -> list[str]:
        """Scrollback and screen."""
        return self._text.everything()


class Stage:
    """A running REPL with its levers."""

    def __init__(
        self,
        terminal: FakeTerminal,
        keyboard: object,
        settings: AppSettings,
        completer: Completer | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.terminal = terminal
        self.keyboard = keyboard
        self.intents: list[Intent] = []
        self.might_draw: list[bool] = []
        self.facts: SessionFacts = NO_SESSION
        self.log: list[str] = []
        self.ended: asyncio.Future[str] | None = None
        self.queue: asyncio.Queue[list[TaskEvent]] = asyncio.Queue()
        self.output = FrameOutput(
            lambda text: terminal.write(text.encode("utf-8", "replace")),
            terminal.size,
            fd=-1,
            encoding="utf-8",
        )
        self.repl = Repl(
            settings=settings,
            terminal=terminal,
            keyboard=keyboard,
            output=self.output,
            facts=lambda: self.facts,
            act=self.act,
            log=self.log.append,
            completer=completer,
            clock=clock,
        )

    def act(self, intent: Intent) -> None:
        """Note an intent, and whether anything could have been drawn before it was carried out."""
        self.intents.append(intent)
        self.might_draw.append(self.repl._app.may_draw())

    async def events(self) -> AsyncGenerator[list[TaskEvent], None]:
        while True:
            yield await self.queue.get()

    def send(self, *events: TaskEvent) -> None:
        self.queue.put_nowait(list(events))

    def type(self, keys: str) -> None:
        self.keyboard.send_text(keys)

    async def until(self, claim: Callable[[], bool]) -> None:
        """Wait until something is true, at most for the deadline; shows the screen when it never is."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        while not claim():
            if loop.time() > deadline:
                raise AssertionError(
                    "\n".join(["never true; the screen:", *self.terminal.rows(), repr(self.intents)])
                )
            await asyncio.sleep(0.004)

    async def shows(self, text: str) -> None:
        await self.until(lambda: any(text in row for row in self.terminal.rows()))

    async def shows_rows(self, *rows: str) -> None:
        """Wait until the screen is exactly these rows."""
        await self.until(lambda: self.terminal.rows() == list(rows))

    async def shows_not(self, text: str) -> None:
        await self.until(lambda: not any(text in row for row in self.terminal.rows()))

    async def seen(self) -> None:
        """Wait until the marked request counts as seen from now on."""

        def is_seen() -> bool:
            row = self.repl.state.marked_row()
            return row is not None and row.marked_at is not None

        await self.until(is_seen)

    async def line_at(self, now: list[float], text: str) -> None:
        """Type a line by a clock that is set by hand, and send it."""
        self.type(text)
        await self.until(lambda: self.repl.editor.text == text)
        now[0] += 0.02  # no paste
        self.type("\r")

    async def line(self, text: str) -> None:
        """Type text as a person does and send it."""
        self.type(text)
        await self.until(lambda: self.repl.editor.text.endswith(text))
        await asyncio.sleep(0.02)
        self.type("\r")


@contextlib.asynccontextmanager
async def running_repl(
    *,
    columns: int = 60,
    rows: int = 20,
    history_path: str | None = None,
    vi: bool = False,
    completer: Completer | None = None,
    environ: dict[str, str] | None = None,
    look: Look | None = None,
    bell: bool = False,
    notifications: Notifications = "off",
    progress: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[Stage, None]:
    """A REPL that has drawn its first frame; it is ended, and its errors raised, at the end."""
    settings = AppSettings(
        look=look or Look("default", UNICODE, ansi=True),
        vi=vi,
        title=False,
        bell=bell,
        notifications=notifications,
        progress=progress,
        history_path=history_path,
        environ=environ or {},
    )
    with create_pipe_input() as keyboard:
        stage = Stage(FakeTerminal(columns, rows), keyboard, settings, completer, clock)
        task = asyncio.ensure_future(stage.repl.run(stage.events()))
        stage.ended = task
        try:
            await stage.until(lambda: bool(stage.terminal.written) or task.done())
            yield stage
        finally:
            stage.repl.end("left")
            if stage.ended is not None:
                await task


def resize(stage: Stage, columns: int, rows: int) -> None:
    """Give the terminal another size, as a terminal that does not wrap lines again."""
    stage.terminal.screen.resize(rows, columns)
    stage.repl.screen.resize()
